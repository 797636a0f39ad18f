//! The workload `tree`: tasks of all nodes execute all operations of one B-link tree, and record
//! each call with its answer.
//!
//! ```text
//!   every task:    random operations       Client ──► Recorder ──► Calls, key by key
//!   in the end:    every node reads everything in every way, one validates
//!   judge:         per key: does one order explain all answers?
//! ```

mod client;
mod content;
mod index;
mod judge;
mod record;
mod recorder;
mod shared;
mod state;

pub(crate) use content::Operation;
pub(super) use index::tree_config;
pub(super) use judge::judge_keys;
pub(crate) use record::TreeRecord;
pub(crate) use recorder::{Calls, Polls, Recorder, inserted, known};
pub(super) use shared::{Shared, SharedIndex};
pub(crate) use state::TreeWork;

use std::ops::Bound;
use std::rc::Rc;

use latchwork_blink::TreeError;
use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::CoherentMemory;
use latchwork_history::calls::MapOperation;
use latchwork_strict::strict_assert;

use super::load::{Load, Work, pass_time};
use super::record::Record;
use crate::WorldCheck;
use crate::scenario::SeededBug;
use crate::world::Process;
use client::Client;
use content::{Content, key};
use state::WALK_MAX;

impl TreeWork {
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

    /// Reads all entries by lookups and by scans in both directions, and compares the results.
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
