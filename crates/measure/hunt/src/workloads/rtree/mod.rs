//! An R-tree that all nodes share: boxes that come, move and go, and queries of all kinds.
//!
//! ```text
//!   every task:    inserts boxes of its own, moves and removes any, queries  ──► Calls, by box
//!   in the end:    every node reads everything, one validates
//!   judge:         per box: does one order explain all answers?
//! ```
//!
//! A query counts as one read of each box. A box that is in the window throughout the query must be
//! in the answer, also if it moves. A box that is there at no instant of the query must not. The
//! query itself is no single instant.
//!
//! The tree takes the same box any number of times. So each box has one task that inserts it, and
//! only if the task knows that the box is not there.

mod client;
mod index;
mod model;
mod record;
mod state;

use std::rc::Rc;

use latchwork_cluster::Member;
use latchwork_rtree::RTreeError;

use super::load::{Load, Work, pass_time};
use super::record::Record;
use crate::world::Process;
use client::Client;

pub(crate) use record::BoxesRecord;
pub(crate) use state::Boxes;

impl Load for Boxes {
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            let made: Result<_, RTreeError> = self.shared.create(&member).await;
            made.map(drop).map_err(|error| error.to_string())
        })
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
            if let Some(all) = client.observed("look at", Box::pin(client.everything())).await {
                self.ends.borrow_mut().push(all);
            }
            self.shared.validate(process, client.tree(), async { Ok(()) }).await;
        })
    }

    fn lines_in_use(&self) -> Option<u64> {
        self.shared.pages()
    }

    fn take(&self) -> Record {
        Record::Rtree(BoxesRecord {
            calls: self.recorder.take(),
            ends: self.ends.take(),
            statistics: self.shared.take(),
        })
    }
}
