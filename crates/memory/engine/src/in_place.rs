//! The write-backs in place of a node that are in flight, and what a protocol says of one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use latchwork_runtime::sync::Mutex;
use latchwork_verbs::{GlobalAddr, VerbError};

/// What a protocol does for a write-back in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persist {
    /// Memory has what this node has written to the line.
    Done,
    /// A write-back has begun just now. If it could not be posted, the line has failed.
    Begun,
    /// A write-back is in flight. `has_all`: it has all that this node has written.
    InFlight {
        /// Nothing was written since the write-back began.
        has_all: bool,
    },
    /// Not now: an operation is in flight, a writer is in the latch, or no slot is free.
    NotNow,
}

/// The result of one attempt.
pub(crate) enum Attempt {
    Done,
    NotNow,
    /// The write-back in flight, and whether it has all that this node had written.
    InFlight(Arc<WriteBack>, bool),
}

/// A write-back in place in flight, with the callers that wait for its end.
#[derive(Default)]
pub(crate) struct WriteBack(Mutex<State>);

#[derive(Default)]
struct State {
    end: Option<Result<(), VerbError>>,
    wakers: Vec<Waker>,
}

impl WriteBack {
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<(), VerbError>> {
        let mut state = self.0.lock();
        match state.end {
            Some(end) => Poll::Ready(end),
            None => {
                if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    state.wakers.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    fn end(&self, end: Result<(), VerbError>) {
        let wakers = {
            let mut state = self.0.lock();
            state.end = Some(end);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// The write-backs in place of a node that are in flight. An entry begins and ends under the lock
/// of its line's shard.
#[derive(Default)]
pub(crate) struct WriteBacks(Mutex<BTreeMap<GlobalAddr, Arc<WriteBack>>>);

impl WriteBacks {
    pub(crate) fn of(&self, addr: GlobalAddr) -> Arc<WriteBack> {
        self.0.lock().entry(addr).or_default().clone()
    }

    pub(crate) fn end(&self, addr: GlobalAddr, end: Result<(), VerbError>) {
        let ended = self.0.lock().remove(&addr);
        if let Some(write_back) = ended {
            write_back.end(end);
        }
    }
}
