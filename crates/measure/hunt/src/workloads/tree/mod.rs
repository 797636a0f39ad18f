//! A B-link tree that all nodes share. The workload has all operations, and records each with its
//! answer.
//!
//! ```text
//!   every task:    random operations       Client ──► Recorder ──► Calls, key by key
//!   in the end:    every node reads everything in every way, one validates
//!   judge:         per key: does one order explain all answers?
//! ```

mod client;
mod content;
mod recorder;
mod shared;

pub(crate) use content::{Operation, TreeKey};
pub(crate) use recorder::{Calls, Recorder, inserted, known};
pub(super) use shared::Shared;

use std::cell::{Cell, RefCell};
use std::ops::Bound;
use std::rc::Rc;

use latchwork_blink::{TreeError, TreeStatistics};
use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::CoherentMemory;
use latchwork_history::calls::{Call, MapOperation, ObjectModel, ObjectViolation, check_object};
use latchwork_strict::strict_assert;

use super::{Load, Record, Work, pass_time};
use crate::WorldCheck;
use crate::checks::{CheckResult, listed};
use crate::scenario::{Scenario, SeededBug, TreeLoad};
use crate::world::{Observer, Process};
use client::Client;
use content::{Content, key};

/// The most waits for a line in a walk over the whole tree.
const WALK_MAX: u32 = 1_000;

/// The workload.
pub(crate) struct TreeWork {
    load: TreeLoad,
    operations: u64,
    plant: Option<SeededBug>,
    seed: u64,
    observer: Rc<Observer>,
    shared: Shared,
    recorder: Recorder<Operation>,
    ends: RefCell<Vec<Vec<(u64, Content)>>>,
}

/// The record of all clients.
#[derive(Default)]
pub(crate) struct TreeRecord {
    calls: Calls<Operation>,
    /// All entries of the tree, as each node read them at the end.
    ends: Vec<Vec<(u64, Content)>>,
    pub(crate) statistics: Option<TreeStatistics>,
}

impl TreeWork {
    pub(crate) fn new(scenario: &Scenario, load: &TreeLoad, observer: &Rc<Observer>) -> TreeWork {
        TreeWork {
            operations: scenario.operations,
            plant: scenario.plant,
            seed: scenario.seed,
            observer: observer.clone(),
            shared: Shared::new(("tree", WALK_MAX), load.entries_per_page, observer),
            recorder: Recorder::new(observer),
            ends: RefCell::default(),
            load: load.clone(),
        }
    }

    async fn make(&self, member: &Member) -> Result<(), TreeError> {
        let tree = self.shared.create(member).await?;
        let invoked = self.observer.time(&member.handle);
        let content = |n: u64| Content::unique(u64::MAX - n);
        let entries = (0..self.load.loaded).map(|n| (key(n), content(n).encode()));
        tree.bulk_load(entries, 0.8).await?;
        for n in 0..self.load.loaded {
            let operation = MapOperation::Insert { value: content(n), inserted: true };
            let returned = Some(self.observer.time(&member.handle));
            self.recorder.add(n, invoked, returned, Operation::Map(operation));
        }
        Ok(())
    }

    /// Reads all entries, with all kinds of reads.
    async fn look(&self, client: &Client<'_>) -> Result<(), TreeError> {
        let mut got = Vec::new();
        for n in 0..self.load.keys {
            let invoked = client.now();
            let found = client.tree.get(&key(n)).await?.map(|bytes| client.whole(&bytes));
            client.saw(n, invoked, found);
            got.extend(found.map(|content| (n, content)));
        }
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let all = (Bound::Unbounded, usize::MAX);
        client.tree.scan_up(all.0, all.1, client.collect(&mut up)).await?;
        client.tree.scan_down(all.0, all.1, client.collect(&mut down)).await?;
        down.reverse();
        strict_assert!(
            got.is_sorted_by(|one, next| one.0 < next.0),
            "keys are looked at out of order"
        );
        for (scan, seen) in [("up", up), ("down", down)] {
            if seen != got {
                let text = format!("at rest, a scan {scan} shows {seen:?}, and each key {got:?}");
                self.observer.fail(WorldCheck::Tree, text);
            }
        }
        self.ends.borrow_mut().push(got);
        Ok(())
    }

    /// Corrupts the tree, if the scenario has this seeded bug.
    async fn scribble(&self, client: &Client<'_>) -> Result<(), TreeError> {
        if self.plant != Some(SeededBug::Scribbles) {
            return Ok(());
        }
        let scribble = |guard: &mut WriteGuard<'_>| {
            let words = guard.words();
            words.set_u64(0, !words.u64(0));
            guard.mark_dirty(0..8);
        };
        client.member.memory.write(client.tree.root(), scribble).await?;
        Ok(())
    }
}

impl Load for TreeWork {
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move { self.make(&member).await.map_err(|error| error.to_string()) })
    }

    fn publish(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move { self.shared.publish(&member).await })
    }

    fn find(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move { self.shared.find(&member).await })
    }

    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let Some(tree) = self.shared.enter(&member, process).await else { return };
            let client = Client::new(&self, &member, process, tree);
            for _ in 0..self.operations {
                client.operation().await;
                pass_time(&member).await;
            }
        })
    }

    fn finish(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            self.shared.leave(&member, process).await;
        })
    }

    fn inspect(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let Some(tree) = self.shared.enter_alone(&member, process).await else { return };
            let client = Client::new(&self, &member, process, tree);
            let about = ("look at", "every key".to_owned(), WALK_MAX);
            self.observer.operation(process, about, self.look(&client)).await;
            self.shared.validate(process, &client.tree, self.scribble(&client)).await;
        })
    }

    fn lines_in_use(&self) -> Option<u64> {
        self.shared.pages()
    }

    fn take(&self) -> Record {
        Record::Tree(TreeRecord {
            calls: self.recorder.take(),
            ends: self.ends.take(),
            statistics: self.shared.take(),
        })
    }
}

impl TreeRecord {
    pub(crate) fn merge(&mut self, other: TreeRecord) {
        self.calls.merge(other.calls);
        self.ends.extend(other.ends);
        self.statistics = self.statistics.take().or(other.statistics);
    }

    pub(crate) fn judge(&self) -> CheckResult {
        if let Some((first, other)) = self.ends.first().and_then(|first| {
            self.ends.iter().find(|other| *other != first).map(|other| (first, other))
        }) {
            let text = format!("at rest, nodes see different trees: {first:?} and {other:?}");
            return Err((WorldCheck::Tree, text));
        }
        if let (Some(statistics), Some(end)) = (&self.statistics, self.ends.first())
            && statistics.entries != end.len() as u64
        {
            let (entries, seen) = (statistics.entries, end.len());
            let text = format!("the tree has {entries} entries, and {seen} keys are found");
            return Err((WorldCheck::Tree, text));
        }
        judge_keys(&TreeKey, &self.calls)
    }
}

/// Checks that one order per key explains all answers; keys are absent at first. The result is the
/// number of keys for which this is not known. Two kinds of writes make the search endless: many
/// overlapping writes on one key, and many failed writes that may take effect at any later time.
/// Such a key is not a failure.
pub(super) fn judge_keys<M, S>(model: &M, calls: &Calls<M::Operation>) -> CheckResult
where
    M: ObjectModel<State = Option<S>>,
{
    let undecided = Cell::new(0);
    let explained = calls.check(|calls| {
        let judged = match check_object(model, None, calls) {
            Err(ObjectViolation::Undecided { .. }) => {
                undecided.set(undecided.get() + 1);
                Ok(())
            }
            judged => judged,
        };
        judged.map_err(|violation| {
            let mut calls: Vec<_> = calls.iter().collect();
            calls.sort_by_key(|call| call.invoked);
            format!("{violation}:{}", listed(calls.into_iter().map(shown), CALLS_SHOWN))
        })
    });
    explained.map(|()| undecided.get()).map_err(|(key, violation)| {
        (WorldCheck::Linearizability, format!("key {key}: {violation}"))
    })
}

const CALLS_SHOWN: usize = 80;

fn shown<O: std::fmt::Debug>(call: &Call<O>) -> String {
    match call.returned {
        Some(returned) => format!("{} to {returned}: {:?}", call.invoked, call.operation),
        None => format!("{}, no end: {:?}", call.invoked, call.operation),
    }
}
