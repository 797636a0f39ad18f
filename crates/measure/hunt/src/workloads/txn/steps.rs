//! The transactions of a task: their steps, drawn once for all attempts.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use latchwork_cluster::Worker;
use latchwork_coherence::CoherentMemory;
use latchwork_txn::{Range, Transaction, TxnError};

use super::contents::Contents;
use super::judge::Committed;
use super::operation::{Operation, Step};
use super::rows::{self, BUCKETS, Content, HEAD};
use super::{ACCESSES_MAX, Txn};
use crate::WorldCheck;
use crate::scenario::{SeededBug, TxnLoad};
use crate::workloads::client::Client;

#[derive(Clone, Copy)]
enum Kind {
    Get,
    Update,
    Insert,
    Delete,
    Scan,
}

impl Client<Txn> {
    // ---- draws ----------------------------------------------------------------------------------

    pub(super) fn draw_operation(&self) -> Operation {
        let TxnLoad { steps, dropped, .. } = self.of().load;
        let count = 1 + self.below(steps);
        let steps = (0..count).map(|_| self.draw_step()).collect();
        let gives_up = self.percent(5);
        let patience = self.percent(dropped).then(|| Duration::from_nanos(self.below(60_000)));
        Operation { steps, gives_up, patience }
    }

    fn any_key(&self) -> u64 {
        let TxnLoad { keys, hot, .. } = self.of().load;
        let few = hot > 0 && self.percent(50);
        self.below(if few { hot } else { keys })
    }

    fn draw_step(&self) -> Step {
        let TxnLoad { updates, inserts, deletes, scans, .. } = self.of().load;
        let shares = [
            (updates, Kind::Update),
            (inserts, Kind::Insert),
            (deletes, Kind::Delete),
            (scans, Kind::Scan),
        ];
        let kind = self.kind(&shares, Kind::Get);
        let n = self.any_key();
        match kind {
            Kind::Get => Step::Get(n),
            Kind::Update if self.percent(50) => Step::Update(n, self.fresh(n)),
            Kind::Update => Step::Change(n, self.fresh(n)),
            Kind::Insert if self.percent(20) => Step::InsertBlind(n, self.fresh(n)),
            Kind::Insert => Step::Insert(n, self.fresh(n)),
            Kind::Delete => Step::Delete(n),
            Kind::Scan => {
                let descending = self.percent(50);
                if self.percent(30) {
                    let (one, two) = (self.below(BUCKETS) as u8, self.below(BUCKETS) as u8);
                    let (from, to) = (one.min(two), one.max(two) + 1);
                    return Step::Buckets { from, to, descending };
                }
                let other = self.any_key();
                let limit = if self.percent(30) { 2 } else { usize::MAX };
                Step::Scan { from: n.min(other), to: n.max(other) + 1, limit, descending }
            }
        }
    }

    /// A content for this key that no other step writes.
    fn fresh(&self, n: u64) -> Content {
        let next_id = &self.task().next_id;
        next_id.set(next_id.get() + 1);
        let content = Content::unique(next_id.get());
        self.record(|record| _ = record.drawn.insert(content.head, n));
        content
    }

    // ---- transactions ---------------------------------------------------------------------------

    /// Runs a transaction until it commits, fails, or is dropped.
    pub(super) async fn transaction(&self, operation: Operation) {
        let on = operation.to_string();
        let ended = async {
            let _operation = self.member.memory.enter().await?;
            let handle = &self.member.handle;
            let running = self.opened().database.run(async |tx| {
                let mut contents = Contents::default();
                for step in &operation.steps {
                    self.step(tx, *step, &mut contents).await?;
                    handle.charge(Duration::from_nanos(handle.random_below(2_000)));
                    handle.catch_up().await;
                }
                if operation.gives_up { Err(TxnError::NotFound) } else { Ok(contents) }
            });
            let ran = match operation.patience {
                None => running.await,
                Some(patience) => match handle.timeout(handle.now() + patience, running).await {
                    Ok(ran) => ran,
                    // Whether the transaction has committed is not known.
                    Err(_) => return Ok(()),
                },
            };
            match ran {
                Ok(contents) => {
                    self.has_committed(contents);
                    Ok(())
                }
                // A row that was added blindly is there, or the transaction gave up.
                Err(TxnError::Exists) => {
                    self.has_failed(&operation);
                    Ok(())
                }
                Err(TxnError::NotFound) if operation.gives_up => {
                    self.has_failed(&operation);
                    Ok(())
                }
                Err(error) if self.is_unanswered(&error) => Ok(()),
                Err(error) => {
                    if matches!(error, TxnError::Contended { .. }) {
                        self.has_failed(&operation);
                    }
                    Err(error)
                }
            }
        };
        self.observed("transaction", on, ACCESSES_MAX, ended).await;
    }

    /// Notes what a transaction has read and written that has committed. A node that is gone cannot
    /// know this: see [`TxnRecord::end`](super::judge::TxnRecord::end).
    pub(super) fn has_committed(&self, contents: Contents) {
        if self.shared.observer.gone_since(self.process.node).is_none() {
            let (node, at) = (self.process.node, self.now());
            self.record(|record| record.committed.push(Committed { node, at, contents }));
        }
    }

    /// Notes that a transaction has certainly not committed.
    fn has_failed(&self, operation: &Operation) {
        for step in &operation.steps {
            if let Step::Update(_, content)
            | Step::Change(_, content)
            | Step::Insert(_, content)
            | Step::InsertBlind(_, content) = step
            {
                self.record(|record| _ = record.undone.insert(content.head));
            }
        }
    }

    async fn step(
        &self,
        tx: &mut Transaction<Worker>,
        step: Step,
        contents: &mut Contents,
    ) -> Result<(), TxnError> {
        let (table, mut row) = (&self.opened().table, Vec::new());
        match step {
            Step::Get(n) => {
                let found = tx.get(table, &rows::key(n), &mut row).await?;
                self.found(contents, n, found.then_some(&row));
            }
            Step::Update(n, content) => {
                match tx.update(table, &rows::key(n), &content.encode()).await {
                    Err(TxnError::NotFound) => contents.found(n, None),
                    updated => {
                        updated?;
                        contents.wrote(n, Some(content));
                    }
                }
            }
            Step::Change(n, Content { head, .. }) => {
                let there = tx.get_for_update(table, &rows::key(n), &mut row).await?;
                let found = self.found(contents, n, there.then_some(&row));
                if let Some(found) = found {
                    let forgets = self.has_bug(SeededBug::Forgets) && self.below(10) == 0;
                    if !forgets {
                        tx.update_part(table, &rows::key(n), HEAD, &head.to_le_bytes()).await?;
                    }
                    contents.wrote(n, Some(Content { head, ..found }));
                }
            }
            Step::Insert(n, content) => {
                match tx.insert(table, &rows::key(n), &content.encode()).await {
                    Err(TxnError::Exists) => {}
                    inserted => {
                        inserted?;
                        contents.found(n, None);
                        contents.wrote(n, Some(content));
                    }
                }
            }
            Step::InsertBlind(n, content) => {
                match tx.insert_blind(table, &rows::key(n), &content.encode()) {
                    Err(TxnError::Exists) => {}
                    inserted => {
                        inserted?;
                        contents.wrote(n, Some(content));
                    }
                }
            }
            Step::Delete(n) => match tx.delete(table, &rows::key(n)).await {
                Err(TxnError::NotFound) => contents.found(n, None),
                // The transaction has added the row blindly.
                Err(TxnError::Blind) => {}
                deleted => {
                    deleted?;
                    contents.wrote(n, None);
                }
            },
            Step::Scan { from, to, limit, descending } => {
                let (low, high) = (rows::key(from), rows::key(to));
                let range = Range { descending, ..Range::between(&low, &high).limit(limit) };
                let mut seen = Vec::new();
                tx.scan(table, range, self.collect(&mut seen)).await?;
                let inside = seen.iter().all(|(n, _)| (from..to).contains(n));
                if !inside || !is_in_order(&seen, descending) || seen.len() > limit {
                    self.wrong(WorldCheck::Tree, format!("a scan of {from}..{to} shows {seen:x?}"));
                }
                self.saw(contents, seen);
            }
            Step::Buckets { from, to, descending } => {
                let (low, high) = ([from], [to]);
                let range = Range { descending, ..Range::between(&low, &high) };
                let mut seen = Vec::new();
                tx.scan_index(table, 0, range, self.collect(&mut seen)).await?;
                if !seen.iter().all(|(_, content)| (from..to).contains(&content.bucket())) {
                    let text = format!("a scan of the buckets {from}..{to} shows {seen:x?}");
                    self.wrong(WorldCheck::Tree, text);
                }
                self.saw(contents, seen);
            }
        }
        Ok(())
    }

    /// Notes a row that the transaction has found. A transaction finds its own write.
    fn found(&self, contents: &mut Contents, n: u64, row: Option<&Vec<u8>>) -> Option<Content> {
        let found = row.and_then(|row| self.whole(row));
        if let Some(own) = contents.own(n).filter(|own| *own != found) {
            let text =
                format!("a transaction has written {own:x?} to key {n}, and sees {found:x?}");
            self.wrong(WorldCheck::Serializability, text);
        }
        contents.found(n, found);
        found
    }

    fn saw(&self, contents: &mut Contents, seen: Vec<(u64, Content)>) {
        for (n, content) in seen {
            if contents.own(n).is_some_and(|own| own != Some(content)) {
                let text = format!("a scan does not show what its transaction wrote to key {n}");
                self.wrong(WorldCheck::Serializability, text);
            }
            contents.found(n, Some(content));
        }
    }

    /// The content of a row. A torn row is a failure.
    fn whole(&self, row: &[u8]) -> Option<Content> {
        let content = Content::decode(row);
        content.map_err(|what| self.wrong(WorldCheck::Values, format!("a row is {what}"))).ok()
    }

    fn collect<'a>(
        &'a self,
        seen: &'a mut Vec<(u64, Content)>,
    ) -> impl FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a {
        move |key, row| {
            match (rows::number(key), self.whole(row)) {
                (Some(n), Some(content)) => seen.push((n, content)),
                (None, _) => self.wrong(WorldCheck::Values, format!("a key is {key:02x?}")),
                (_, None) => {}
            }
            ControlFlow::Continue(())
        }
    }

    /// Reads all rows by both indexes, and compares the results. The record of the scans shows
    /// whether they have found what was committed.
    pub(super) async fn look_at_all(&self) -> Result<(), TxnError> {
        let _operation = self.member.memory.enter().await?;
        let table = &self.opened().table;
        let (mut contents, rows, by_bucket) = self
            .opened()
            .database
            .run(async |tx| {
                let (mut contents, mut rows, mut by_bucket) = <(Contents, _, _)>::default();
                tx.scan(table, Range::all(), self.collect(&mut rows)).await?;
                tx.scan_index(table, 0, Range::all(), self.collect(&mut by_bucket)).await?;
                self.saw(&mut contents, rows.clone());
                Ok((contents, rows, by_bucket))
            })
            .await?;
        // A row of a dead node may have lost its entry in the other index.
        let lost = self.keys_of_the_dead();
        let has_entry = |row: &&(u64, Content)| !lost.contains(&row.0) || by_bucket.contains(row);
        let mut sorted = by_bucket.clone();
        sorted.sort_unstable();
        if !is_in_order(&rows, false)
            || !sorted.iter().eq(rows.iter().filter(has_entry))
            || !by_bucket.is_sorted_by_key(|(_, content)| content.bucket())
        {
            let text = format!("at rest, the table shows {rows:x?}, and its index {by_bucket:x?}");
            self.wrong(WorldCheck::Tree, text);
        }
        let keys = 0..self.of().load.keys;
        let absent = keys.filter(|n| !rows.iter().any(|(other, _)| other == n));
        absent.for_each(|n| contents.found(n, None));
        self.has_committed(contents);
        Ok(())
    }

    /// The keys of all rows that dead nodes may have written, if their lines were recovered.
    fn keys_of_the_dead(&self) -> BTreeSet<u64> {
        let (scenario, gone) = (&self.shared.scenario, self.shared.observer.gone());
        if !scenario.recovers() {
            return BTreeSet::new();
        }
        let each = (scenario.workers * scenario.tasks) as u64;
        // The first node has written the heads of the set-up, which belong to no task.
        let node = |head: u64| match head >> 32 {
            SET_UP => 0,
            number => ((number - 1) / each) as usize,
        };
        let record = self.shared.record.borrow();
        let of_dead = record.drawn.iter().filter(|(head, _)| gone.contains_key(&node(**head)));
        of_dead.map(|(_, key)| *key).collect()
    }
}

/// The high half of the heads of rows that the set-up has written.
const SET_UP: u64 = u32::MAX as u64;

fn is_in_order(seen: &[(u64, Content)], descending: bool) -> bool {
    match descending {
        true => seen.is_sorted_by(|one, next| one.0 > next.0),
        false => seen.is_sorted_by(|one, next| one.0 < next.0),
    }
}
