//! Export to Elle: [`write_edn`].

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::check::index::Index;
use crate::{
    RecordedChange, RecordedOperation, RowVersion, TransactionHistory, TransactionOutcome,
};

/// The Elle workload in which a history is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ElleModel {
    /// Registers: the value of a write is its timestamp. Elle infers an order of versions only
    /// where a transaction reads the version that it replaces.
    #[default]
    RwRegister,
    /// Lists: a write appends its timestamp. A read returns the timestamps of all versions up to
    /// the version that it saw. So Elle knows the order of all versions that a read shows. A key
    /// with n writes and m reads takes up to n · m numbers.
    ListAppend,
}

/// Writes a history in Jepsen's form for Elle: on each line one map in EDN, Clojure's data
/// notation. About Elle, see Kingsbury, Alvaro, "Elle: Inferring Isolation Anomalies from
/// Experimental Observations", PVLDB 14(3), 2020.
///
/// Elle's keys are numbers: each pair of table and key gets one. An Elle process has one
/// transaction at a time, so concurrent transactions of one worker get one process each. A row from
/// before the recording reads as `nil`, or as the empty list. The export leaves out three facts
/// that Elle cannot express:
///
/// - that a scan did *not* find a key;
/// - that a scan found an entry of an index, which has no version;
/// - a read that found nothing, of a key that was ever deleted: which of several states it saw is
///   unknown.
///
/// # Errors
/// When `out` fails.
pub fn write_edn(
    history: &TransactionHistory,
    model: ElleModel,
    out: &mut impl Write,
) -> io::Result<()> {
    let index = Index::new(history);
    let mut events: Vec<(u64, bool, u32)> = Vec::new();
    for (number, transaction) in (0..).zip(&history.transactions) {
        events.push((transaction.begin, false, number));
        events.push((transaction.end, true, number));
    }
    // Of events at one instant, begins come first. So transactions that touch at an instant are
    // concurrent.
    events.sort_unstable();
    let (mut free, mut processes) = (Vec::new(), 0);
    let mut running: BTreeMap<u32, u32> = BTreeMap::new();
    for (at, (time, is_end, number)) in events.into_iter().enumerate() {
        let outcome = index.transaction(number).outcome;
        let (kind, process) = if is_end {
            let process = running.remove(&number).unwrap_or_default();
            match outcome {
                TransactionOutcome::Committed { .. } | TransactionOutcome::Aborted { .. } => {
                    free.push(process)
                }
                // The outcome is unknown, so Elle's process stays busy: it gets no further
                // transaction.
                TransactionOutcome::Unknown { .. } => {}
            }
            let kind = match outcome {
                TransactionOutcome::Committed { .. } => "ok",
                TransactionOutcome::Aborted { .. } => "fail",
                TransactionOutcome::Unknown { .. } => "info",
            };
            (kind, process)
        } else {
            let process = free.pop().unwrap_or_else(|| {
                processes += 1;
                processes - 1
            });
            running.insert(number, process);
            ("invoke", process)
        };
        write!(out, "{{:type :{kind}, :f :txn, :value [")?;
        let is_answered = is_end && matches!(outcome, TransactionOutcome::Committed { .. });
        operations(&index, number, model, is_answered, out)?;
        writeln!(out, "], :process {process}, :time {time}, :index {at}}}")?;
    }
    Ok(())
}

fn operations(
    index: &Index<'_>,
    number: u32,
    model: ElleModel,
    is_answered: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let cts = index.transaction(number).outcome.cts();
    let mut space = "";
    // Elle requires that a value is written once. A key that is written twice appears at its first
    // write.
    let mut written = std::collections::BTreeSet::new();
    for (operation, keys) in index.operations(number) {
        match operation {
            RecordedOperation::Write { .. } => {
                let verb = if model == ElleModel::RwRegister { "w" } else { "append" };
                if cts > 0 && written.insert(keys[0]) {
                    write!(out, "{space}[:{verb} {} {cts}]", keys[0])?;
                    space = " ";
                }
            }
            RecordedOperation::Read { version, .. } => {
                read(index, keys[0], *version, model, is_answered, &mut space, out)?;
            }
            RecordedOperation::Scan(scan) => {
                for (seen, key) in scan.seen.iter().zip(keys) {
                    if let Some(version) = seen.version {
                        read(index, *key, version, model, is_answered, &mut space, out)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn read(
    index: &Index<'_>,
    key: u32,
    version: RowVersion,
    model: ElleModel,
    is_answered: bool,
    space: &mut &'static str,
    out: &mut impl Write,
) -> io::Result<()> {
    let is_gone = |versions: &[crate::check::index::Written]| {
        versions.iter().any(|written| written.change == RecordedChange::Delete)
    };
    if version == 0 && (is_gone(index.versions.of(key)) || is_gone(index.open.of(key))) {
        return Ok(());
    }
    write!(out, "{space}[:r {key} ")?;
    *space = " ";
    let versions = index.versions.of(key);
    let known = &versions[..versions.partition_point(|written| written.cts <= version)];
    let is_known = known.last().is_some_and(|last| last.cts == version);
    // A version that no recorded transaction wrote, above `base`: the export shows it as it was
    // read. A version up to `base` existed before the recording, and has no value here.
    let is_strange = version > index.history.base && !is_known;
    match model {
        _ if !is_answered => write!(out, "nil]"),
        ElleModel::RwRegister if is_known || is_strange => write!(out, "{version}]"),
        ElleModel::RwRegister => write!(out, "nil]"),
        ElleModel::ListAppend => {
            let mut stamps: Vec<String> =
                known.iter().map(|written| written.cts.to_string()).collect();
            if is_strange {
                stamps.push(version.to_string());
            }
            write!(out, "[{}]]", stamps.join(" "))
        }
    }
}
