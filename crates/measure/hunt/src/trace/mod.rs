//! [`Trace`]: records the events of a world as readable entries.
//!
//! ```text
//!   fabric ──Sight──► Recorder: names lines, words, messages ──► ring of the last entries
//!   caches ──────────►    what each node holds of the lines        │
//!   workload ──note──────────────────────────────────────────────► │
//!                                                                  ▼
//!                                                      log, diagram: of all, or of one line
//! ```
//!
//! A trace changes nothing in the world: it draws no random number and schedules no event. So the
//! event hash is the same with a trace and without.

mod core;
mod entry;
mod log;
mod names;
mod recorder;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_cluster::{Node, Simulated};
use latchwork_fabric::AnyFabric;
use latchwork_simulation::Time;
use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, GlobalAddr};

use self::core::Core;
pub(crate) use entry::micros;
pub use entry::{TraceEntry, TraceKind, TraceParty};
use recorder::Recorder;

/// Collects the events of a world, and keeps the last entries. Clones share the entries.
#[derive(Clone)]
pub struct Trace {
    core: Rc<RefCell<Core>>,
    recorder: Rc<RefCell<Option<Recorder>>>,
}

impl Default for Trace {
    fn default() -> Self {
        Trace::new()
    }
}

impl Trace {
    /// The default number of kept entries.
    pub const KEEP: usize = 20_000;

    /// An empty trace.
    pub fn new() -> Trace {
        Trace::with_room(Trace::KEEP)
    }

    /// An empty trace that keeps the last `keep` entries, at least one.
    pub fn with_room(keep: usize) -> Trace {
        strict_assert!(keep > 0, "a trace without room");
        let core = Core {
            keep: keep.max(1),
            entries: VecDeque::new(),
            left_out: 0,
            event: 0,
            geometry: None,
            names: BTreeMap::new(),
        };
        Trace { core: Rc::new(RefCell::new(core)), recorder: Rc::default() }
    }

    /// Starts to record the events of a cluster. The caller calls this once, before the workload
    /// begins.
    pub fn attach(&self, cluster: &Simulated) {
        if let AnyFabric::Sim(fabric) = cluster.fabric() {
            self.core.borrow_mut().geometry = cluster.config().check().ok();
            *self.recorder.borrow_mut() = Some(Recorder::new(cluster, Rc::clone(&self.core)));
            let recorder = Rc::clone(&self.recorder);
            fabric.watch(move |sight| {
                if let Some(recorder) = recorder.borrow_mut().as_mut() {
                    recorder.see(sight);
                }
            });
        }
    }

    /// Shows the copies of this node in place of those of a dead one.
    pub(crate) fn replace(&self, at: usize, node: Arc<Node>) {
        if let Some(recorder) = self.recorder.borrow_mut().as_mut() {
            recorder.replace(at, node);
        }
    }

    /// Sets the name of a line in the log. The default name of a line is its position in the pool.
    pub fn name(&self, line: GlobalAddr, name: String) {
        self.core.borrow_mut().names.insert(line, name);
    }

    /// Adds a note about a worker's action. `node` and `worker` count from 0.
    pub fn note(&self, at: Time, node: usize, worker: usize, text: String) {
        let worker = Some(worker);
        let who = u8::try_from(node + 1).ok().and_then(ComputeNodeId::new).map(TraceParty::Compute);
        let what = who.map_or(TraceKind::World, |who| TraceKind::Local { who, worker });
        self.add(at, what, text);
    }

    fn add(&self, at: Time, what: TraceKind, text: String) {
        // Changes of the caches happened before this entry, so their entries come first.
        if let Some(recorder) = self.recorder.borrow_mut().as_mut() {
            recorder.look_at_caches();
        }
        let named = self.line_named_in(&text);
        let mut core = self.core.borrow_mut();
        let (text, line) = core.readable(&text);
        let line = line.or(named);
        let event = core.event;
        core.push(TraceEntry { at, event, what, line, text, result: String::new() });
    }

    /// The line that a text names, by address or by name. `None` if the text names no line.
    pub fn line_named_in(&self, text: &str) -> Option<GlobalAddr> {
        let mut core = self.core.borrow_mut();
        let (_, by_address) = core.readable(text);
        let by_name = || core.names.iter().find(|(_, name)| contains_word(text, name));
        by_address.or_else(|| by_name().map(|(line, _)| *line))
    }

    /// The line of the latest entry that has one.
    pub fn last_line(&self) -> Option<GlobalAddr> {
        self.core.borrow().entries.iter().rev().find_map(|entry| entry.line)
    }

    /// `text` with the addresses of lines replaced by their names.
    #[cfg(test)]
    fn readable(&self, text: &str) -> String {
        self.core.borrow_mut().readable(text).0
    }

    /// The name of a line; its address if it has no name yet.
    pub fn name_of(&self, line: GlobalAddr) -> String {
        self.core.borrow().names.get(&line).cloned().unwrap_or_else(|| line.to_string())
    }

    /// The kept entries, oldest first.
    pub fn entries(&self) -> Vec<TraceEntry> {
        self.core.borrow().entries.iter().cloned().collect()
    }

    /// The number of older entries that were dropped.
    pub fn left_out(&self) -> u64 {
        self.core.borrow().left_out
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = self.core.borrow();
        f.debug_struct("Trace")
            .field("entries", &core.entries.len())
            .field("left_out", &core.left_out)
            .finish_non_exhaustive()
    }
}

/// Whether `text` contains `word` as a whole word: "line 1" is not in "line 11".
fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let part = |c: char| c.is_alphanumeric();
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use latchwork_verbs::MemoryNodeId;

    use super::*;

    #[test]
    fn the_last_entries_are_kept() {
        let trace = Trace::with_room(2);
        for i in 0..5 {
            trace.note(Time::from_nanos(i), 0, 0, format!("step {i}"));
        }
        let texts: Vec<String> = trace.entries().into_iter().map(|entry| entry.text).collect();
        assert_eq!((texts, trace.left_out()), (vec!["step 3".to_owned(), "step 4".to_owned()], 3));
    }

    #[test]
    fn a_text_names_a_line_by_its_name_or_address() {
        let trace = Trace::new();
        let at = |offset| GlobalAddr::new(MemoryNodeId(0), offset);
        trace.name(at(0x200), "line 1".to_owned());
        trace.name(at(0x2000), "line 11".to_owned());
        assert_eq!(trace.line_named_in("C1 reads line 11 = 4"), Some(at(0x2000)));
        assert_eq!(trace.line_named_in("line 1: two writers"), Some(at(0x200)));
        assert_eq!(trace.line_named_in("M0+0x2000 is stale"), Some(at(0x2000)));
        assert_eq!(trace.line_named_in("line 12"), None);
        assert_eq!(trace.readable("M0+0x200 after M0+0x2000"), "line 1 after line 11");
        assert_eq!(trace.readable("M0+0x3000, M+0x1, +0x"), "M0+0x3000, M+0x1, +0x");
    }
}
