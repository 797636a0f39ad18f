//! The workload `locks`: transactions that lock lines. A transfer and an audit use two-phase
//! locking and wait for no lock. Other operations lock only the line that they write, or nothing.
//!
//! ```text
//!   payload of a line:  | stamp 8 | amount 8 | flag 8 | ...... | the same stamp 8 |
//! ```
//!
//! | operation | locks | promise to check |
//! | --- | --- | --- |
//! | transfer | locks or upgrades what it writes, to write; locks what it only reads, to read | nothing changes under its locks, and the sum of all amounts is 0 |
//! | audit | all lines to read | it reads the sum 0 |
//! | flag | its own line to write; reads the other line of the pair without a lock | the flags of a pair are never both set |
//! | look | nothing; half of them wait for locks, half do not | all reads fit one order of all writes |
//!
//! In a world the workload also notes the owners of each lock. A write lock must have one owner and
//! no reader beside the owner.
//!
//! A dead node may leave half a transfer, and a flag that it has cleared may be set again. So the
//! transfers of dead nodes do not count in the sum, and pairs whose flags dead nodes have changed
//! are not checked. The transfers of the others count whole.

mod transactions;

use std::cell::RefCell;
use std::collections::BTreeMap;

use latchwork_coherence::AccessMode;
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;

use super::client::{Client, Phase, Work};
use super::lines::{LinesRecord, Stamp};
use crate::checks::CheckResult;
use crate::scenario::LocksLoad;

/// The workload.
pub(super) struct Locks {
    load: LocksLoad,
    /// The lock owners of each line, as far as this thread knows: their nodes.
    holders: RefCell<Vec<Vec<(usize, AccessMode)>>>,
    /// What the writes of this thread have changed, by line.
    changes: RefCell<BTreeMap<(usize, Stamp), Change>>,
}

/// What a write has changed.
struct Change {
    /// The node of the writer.
    by: usize,
    /// The stamp before.
    over: Stamp,
    amount: u64,
    flag: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Audit,
    Flag,
    Look,
    Transfer,
}

impl Locks {
    pub(super) fn new(load: &LocksLoad) -> Locks {
        let holders = RefCell::new(vec![Vec::new(); load.lines as usize]);
        Locks { load: load.clone(), holders, changes: RefCell::default() }
    }
}

impl Work for Locks {
    const STREAM: u64 = 1;
    type Task = ();
    type Operation = (Kind, usize);
    type Record = LinesRecord;

    async fn set_up(client: &Client<Self>) -> Result<Vec<GlobalAddr>, String> {
        let lines = client.new_lines(client.of().roots()).await;
        let lines = lines.map_err(|error| error.to_string())?;
        for line in &lines {
            client.shared.observer.tell(*line, Some(Stamp::default().bits()));
        }
        Ok(lines)
    }

    async fn begin(_client: &Client<Self>, _phase: Phase) -> Option<()> {
        Some(())
    }

    fn draw(client: &Client<Self>) -> (Kind, usize) {
        let LocksLoad { lines, audits, flags, looks, .. } = client.of().load;
        let shares = [(audits, Kind::Audit), (flags, Kind::Flag), (looks, Kind::Look)];
        let kind = client.kind(&shares, Kind::Transfer);
        (kind, client.below(lines) as usize)
    }

    async fn apply(client: &Client<Self>, (kind, at): (Kind, usize)) {
        match kind {
            Kind::Audit => client.transaction("audit", async || client.audit().await).await,
            Kind::Flag => client.transaction("flag", async || client.flag(at).await).await,
            Kind::Look => client.look(at).await,
            Kind::Transfer => {
                client.transaction("transfer", async || client.transfer().await).await;
            }
        }
    }

    async fn inspect(client: &Client<Self>) {
        client.look_at_all().await;
    }

    fn roots(&self) -> u64 {
        self.load.lines
    }

    fn lines_in_use(&self, _record: &LinesRecord) -> Option<u64> {
        Some(self.roots())
    }

    fn merge(record: &mut LinesRecord, more: LinesRecord) {
        record.merge(more);
    }

    fn forget_unseen(record: &mut LinesRecord, dead: &BTreeMap<usize, Time>) {
        record.forget_unseen(|node| dead.contains_key(&node));
    }

    fn judge(&self, record: &LinesRecord) -> CheckResult {
        record.judge()
    }
}
