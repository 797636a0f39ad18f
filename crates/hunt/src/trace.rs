//! [`Trace`]: what a world does, for people to read.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_cluster::Simulated;
use latchwork_simulation::Time;

/// Collects what happens in a world. Clones are the same trace.
#[derive(Clone, Default, Debug)]
pub struct Trace {
    notes: Rc<RefCell<Vec<Note>>>,
}

/// A line of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// When.
    pub at: Time,
    /// The compute node, counted from 0.
    pub node: usize,
    /// Its worker, counted from 0.
    pub worker: usize,
    /// What.
    pub text: String,
}

impl Trace {
    /// An empty trace.
    pub fn new() -> Trace {
        Trace::default()
    }

    /// Called once, when the cluster stands and before the workload begins.
    pub fn attach(&self, cluster: &Simulated) {
        let _ = cluster;
    }

    /// A worker says what it does.
    pub fn note(&self, at: Time, node: usize, worker: usize, text: String) {
        self.notes.borrow_mut().push(Note { at, node, worker, text });
    }

    /// All notes so far, in order.
    pub fn notes(&self) -> Vec<Note> {
        self.notes.borrow().clone()
    }
}
