//! The task table: a slab of futures, and the queue of tasks that wait for their start.
//!
//! ```text
//!   spawn ──► Waiting ──(depth allows)──► Idle ⇄ Running ──► finished
//!                │     (or waited long)     │       │
//!                │                          │       │
//!                └──────── abort ───────────┘       └── abort while running: dropped after this poll
//! ```
//!
//! No method of the table polls or drops a future. The methods return futures to the caller
//! instead. So the code of a task does not run while the table is borrowed.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Waker;

use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};
use slab::Slab;

use crate::mailbox::{Mailbox, TaskHeader, TaskId};
use crate::sync::Arc;

/// A task's future and the means to wake it.
pub(crate) struct Body {
    pub(crate) future: Pin<Box<dyn Future<Output = ()>>>,
    pub(crate) waker: Waker,
    pub(crate) header: Arc<TaskHeader>,
}

enum State {
    Waiting(Body),
    Idle(Body),
    Running { abort: bool },
}

struct Slot {
    serial: u64,
    /// Whether the task counts towards the depth.
    counted: bool,
    state: State,
}

/// The tasks of one executor, with the line of tasks that wait for their start.
pub(crate) struct Tasks {
    slots: Slab<Slot>,
    waiting: VecDeque<TaskId>,
    in_flight: usize,
    depth: usize,
    spawned: u64,
    closed: bool,
}

impl Tasks {
    pub(crate) fn new(depth: usize) -> Self {
        Tasks {
            slots: Slab::new(),
            waiting: VecDeque::new(),
            in_flight: 0,
            depth: depth.max(1),
            spawned: 0,
            closed: false,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Inserts a future as a task. Returns the task's id, and the waker with which the caller
    /// starts the task. The waker is `None` when the task must wait for its start.
    pub(crate) fn insert(
        &mut self,
        future: Pin<Box<dyn Future<Output = ()>>>,
        counted: bool,
        mailbox: &Arc<Mailbox>,
    ) -> (TaskId, Option<Waker>) {
        strict_assert!(!self.closed, "no task is inserted after the close");
        self.spawned += 1;
        let entry = self.slots.vacant_entry();
        strict_assert!(self.spawned > 0, "serial numbers wrapped");
        let id = TaskId { slot: entry.key(), serial: self.spawned };
        let header = TaskHeader::new(id, mailbox);
        let waker = Waker::from(Arc::clone(&header));
        let body = Body { future, waker: waker.clone(), header };
        let starts = !counted || self.in_flight < self.depth;
        let state = if starts { State::Idle(body) } else { State::Waiting(body) };
        strict_assert!(starts || counted, "a service never waits for its start");
        entry.insert(Slot { serial: id.serial, counted, state });
        if starts {
            self.in_flight += usize::from(counted);
            (id, Some(waker))
        } else {
            self.waiting.push_back(id);
            strict_assert!(self.in_flight >= self.depth, "a task waits although there is room");
            (id, None)
        }
    }

    fn slot(&mut self, id: TaskId) -> Option<&mut Slot> {
        self.slots.get_mut(id.slot).filter(|slot| slot.serial == id.serial)
    }

    /// Takes out the body of a task for a poll. `None` when the task has ended, runs, or waits for
    /// its start.
    pub(crate) fn check_out(&mut self, id: TaskId) -> Option<Body> {
        strict_assert_ne!(id, TaskId::ROOT);
        let slot = self.slot(id)?;
        match std::mem::replace(&mut slot.state, State::Running { abort: false }) {
            State::Idle(body) => Some(body),
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// Puts the body back after a poll. If the task was aborted or the table was closed during the
    /// poll, the error is the body. The caller then drops the body and calls [`Tasks::finish`].
    pub(crate) fn check_in(&mut self, id: TaskId, body: Body) -> Result<(), Body> {
        match self.slot(id) {
            Some(slot) if matches!(slot.state, State::Running { abort: false }) => {
                strict_assert_eq!(slot.serial, id.serial);
                slot.state = State::Idle(body);
                Ok(())
            }
            _ => Err(body),
        }
    }

    /// Frees the slot of a task whose body is outside the table. Returns the waker of a waiting
    /// task that may start now, if there is one.
    pub(crate) fn finish(&mut self, id: TaskId) -> Option<Waker> {
        self.slot(id)?;
        let slot = self.slots.remove(id.slot);
        strict_assert_ne!(slot.serial, 0);
        strict_assert!(
            !matches!(slot.state, State::Waiting(_)),
            "a task that has not started cannot finish"
        );
        strict_assert!(!slot.counted || self.in_flight > 0, "more tasks ended than started");
        self.in_flight -= usize::from(slot.counted);
        self.start_next()
    }

    fn start_next(&mut self) -> Option<Waker> {
        if self.in_flight < self.depth { self.start_first() } else { None }
    }

    /// Starts the task that has waited longest.
    fn start_first(&mut self) -> Option<Waker> {
        loop {
            let id = self.waiting.pop_front()?;
            let Some(slot) = self.slot(id) else { continue };
            match std::mem::replace(&mut slot.state, State::Running { abort: false }) {
                State::Waiting(body) => {
                    let waker = body.waker.clone();
                    strict_assert!(slot.counted, "only counted tasks wait for their start");
                    slot.state = State::Idle(body);
                    self.in_flight += 1;
                    strict_assert!(
                        self.in_flight <= self.slots.len(),
                        "more tasks are in flight than exist"
                    );
                    return Some(waker);
                }
                other => slot.state = other,
            }
        }
    }

    /// The number of tasks that wait for their start.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Starts waiting tasks beyond the depth: at most as many as are in flight, and at least one if
    /// a task waits. Returns their wakers.
    pub(crate) fn start_late(&mut self) -> Vec<Waker> {
        let more = self.in_flight.max(1);
        strict_assert!(more >= 1);
        (0..more).map_while(|_| self.start_first()).collect()
    }

    /// Aborts a task. Returns the body, which the caller must drop, and the waker of a waiting task
    /// that may start instead. A running task is only marked.
    pub(crate) fn abort(&mut self, id: TaskId) -> (Option<Body>, Option<Waker>) {
        let Some(slot) = self.slot(id) else { return (None, None) };
        match std::mem::replace(&mut slot.state, State::Running { abort: true }) {
            State::Running { .. } => (None, None),
            State::Idle(body) => (Some(body), self.finish(id)),
            State::Waiting(body) => {
                self.slots.remove(id.slot);
                self.waiting.retain(|&waiting| waiting != id);
                strict_assert!(!self.waiting.contains(&id), "an aborted task is still queued");
                (Some(body), None)
            }
        }
    }

    /// Closes the table. Returns all futures, except the future of a running task.
    pub(crate) fn close(&mut self) -> Vec<Body> {
        self.closed = true;
        self.waiting.clear();
        self.in_flight = 0;
        strict_assert!(self.waiting.is_empty());
        self.slots
            .drain()
            .filter_map(|slot| match slot.state {
                State::Waiting(body) | State::Idle(body) => Some(body),
                State::Running { .. } => None,
            })
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}
