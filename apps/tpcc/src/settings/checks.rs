//! Checks of impossible settings, and of settings that have no effect.

use std::path::{Path, PathBuf};

use latchwork_blink::TreeLimits;
use latchwork_files as files;
use latchwork_harness::{AppError, FlagError, output};
use latchwork_txn::Scheme;
use latchwork_verbs::LINE_HEADER;
use latchwork_workload::tpcc::TpccTable;

use crate::args::{Command, Flags, Wal};
use crate::schemas;
use crate::shares::Shares;
use crate::terminals::HomeRule;

/// The mode of the log, if the other settings permit it.
pub(super) fn log(
    command: Option<Command>,
    flags: &Flags,
    simulated: bool,
) -> Result<Wal, AppError> {
    let wal = match (command, flags.wal, &flags.wal_dir) {
        // A check writes nothing into the log.
        (Some(Command::Check), _, _) => Wal::Off,
        (_, Some(wal), _) => wal,
        (_, None, Some(_)) => Wal::Sync,
        (_, None, None) => Wal::Off,
    };
    let given = |directory: &PathBuf| format!("--wal-dir {}", directory.display());
    if let Some(us) = flags.sync_us.filter(|_| !simulated || wal == Wal::Off) {
        return Err(usage(format!(
            "--set sync-us={us}: only a simulated disk takes as long as one says; use --fabric sim and --wal sync or async, or \
             leave it out"
        )));
    }
    if flags.accept_loss && !matches!(command, Some(Command::Run | Command::Check)) {
        return Err(usage(
            "--set accept-loss: only a log that is recovered can have lost something; use it with run or check".to_owned(),
        ));
    }
    match (command, &flags.wal_dir) {
        (_, Some(directory)) if simulated => Err(usage(format!(
            "{}: what is simulated is on no disk; leave the flag out, and --wal sync works in memory",
            given(directory)
        ))),
        (None | Some(Command::Prepare | Command::Run), Some(directory)) if wal == Wal::Off => {
            Err(usage(format!("{}: leave it out, or use --wal sync or async", given(directory))))
        }
        (Some(command), None) => Err(usage(format!(
            "{}: memory lives as long as the program, so it needs a log to keep the database in; give --wal-dir, or \
             leave the command out to load, run and check at once",
            command.name()
        ))),
        (None, None) if wal != Wal::Off && !simulated => {
            Err(usage(format!("--wal {}: give the log a directory with --wal-dir", wal.name())))
        }
        _ => Ok(wal),
    }
}

/// Refuses settings that need all nodes in one process, for a process of a cluster.
pub(super) fn joined(command: Option<Command>, flags: &Flags) -> Result<(), AppError> {
    if let Some(command) = command {
        return Err(usage(format!(
            "{}: a database that is kept in a log is that of one process, and with --join this is one of several; leave the \
             command out to load, run and check at once",
            command.name()
        )));
    }
    if let Some(every) = flags.checkpoint.filter(|every| !every.is_zero()) {
        return Err(usage(format!(
            "--set checkpoint={}: no checkpoints are written where nodes are processes; leave it out, or --join",
            every.as_secs_f64()
        )));
    }
    if let (Some(path), true) = (&flags.record, flags.partitioned) {
        return Err(usage(format!(
            "--record {}: with --partitioned the parts of a transaction are put together in one process; leave one of the \
             flags out, or --join",
            path.display()
        )));
    }
    Ok(())
}

/// Checks that lines of this size hold all rows and the keys of all indexes.
pub(super) fn lines(line_size: u32) -> Result<(), AppError> {
    // Bytes for the key of the longest row, and for the line's own data about the row.
    const BESIDE: usize = 128;
    let row = TpccTable::ALL.map(TpccTable::row_len_max).into_iter().max().unwrap_or(0);
    let fits = |line_size: u32| {
        let payload = line_size as usize - LINE_HEADER;
        let limits = TreeLimits::for_payload(payload).ok()?;
        let keys = |table| schemas::schema(table, None).ok()?.check_keys(limits.key_max).ok();
        TpccTable::ALL.into_iter().try_for_each(keys)?;
        (row + BESIDE <= payload).then_some(())
    };
    if fits(line_size).is_some() {
        return Ok(());
    }
    let larger = (9..=16).map(|bits| 1 << bits).find(|size| fits(*size).is_some());
    Err(usage(format!(
        "--gcl-size {line_size}: too small for a row of {row} bytes and for the keys of indexes; use --gcl-size {} or \
         more",
        larger.unwrap_or(8192)
    )))
}

/// Checks the homes of terminals against what else decides them.
pub(super) fn terminals(flags: &Flags, shares: Option<Shares>) -> Result<(), AppError> {
    let problem = match flags.terminals {
        HomeRule::Any if flags.partitioned => {
            "with --partitioned only the node of a warehouse works in it; use --set terminals=node"
        }
        HomeRule::Any if flags.wait => {
            "with --set wait=on each terminal has a district; use --set terminals=standard or node"
        }
        HomeRule::Standard if shares.is_some() => {
            "each node works in its share of the warehouses; use --set terminals=node, or leave out \
             --partitioned and --distribution-ratio"
        }
        _ => return Ok(()),
    };
    Err(usage(format!("--set terminals={}: {problem}", flags.terminals.name())))
}

pub(super) fn warnings(flags: &Flags) -> Vec<String> {
    let mut warnings = Vec::new();
    if flags.ts_block > 1 && flags.cc != Scheme::TimestampOrdering {
        warnings.push(format!("--set ts-block changes nothing with --cc {}", flags.cc));
    }
    if flags.wait && flags.common.cluster.inflight > 1 {
        warnings.push(
            "--inflight changes nothing with --set wait=on: there are ten terminals in each warehouse"
                .to_owned(),
        );
    }
    warnings
}

/// The file of the history. Standard output carries other lines.
pub(super) fn record(path: &Path) -> Result<files::Output, FlagError> {
    let output = output("--record", path)?;
    match output.is_stdout() {
        true => Err(FlagError(format!(
            "--record {}: standard output has the result; name a file",
            path.display()
        ))),
        false => Ok(output),
    }
}

pub(super) fn usage(text: impl Into<String>) -> AppError {
    AppError::Usage(text.into())
}
