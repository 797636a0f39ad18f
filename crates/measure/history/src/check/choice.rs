//! Choices: readers that may have read one of several states of a key. The search here looks for a
//! choice of states without a cycle.
//!
//! A history is serializable if the graph has no cycle for some choice of one state for each such
//! reader. The search works in steps:
//!
//! 1. The certain edges come first. If the certain edges have a cycle, the history is not
//!    serializable, and the search ends.
//! 2. Otherwise the search takes an order of all transactions that follows the edges. Where the
//!    edges leave the order open, the ends of the transactions decide.
//! 3. If this order agrees with at least one state of each reader, the order proves that the
//!    history is serializable. Nearly all histories end here.
//! 4. Otherwise the search takes a reader with no state that agrees with the order, and tries each
//!    state of the reader in turn. Each try adds the edges of the state and continues with step 2.

use latchwork_strict::strict_assert;

use super::graph::{Builder, kind};

/// A state that a reader may have seen: consecutive versions of a key, all of them present or all
/// of them absent. The write of the first version began the state, and the next write after the run
/// ended it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// The writer that began the state. `None` if the state is the one at the start of the history.
    pub(crate) after: Option<u32>,
    /// The writer that ended the state. `None` if no later write ended it.
    pub(crate) before: Option<u32>,
}

/// A reader, and the states of a key that the reader may have seen.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) reader: u32,
    pub(crate) key: u32,
    pub(crate) is_range: bool,
    pub(crate) candidates: Vec<Candidate>,
}

impl Choice {
    fn edges(&self, candidate: Candidate) -> impl Iterator<Item = (u32, u32, u8)> + use<> {
        let (wr, rw) = match self.is_range {
            true => (kind::WR_RANGE, kind::RW_RANGE),
            false => (kind::WR, kind::RW),
        };
        let reader = self.reader;
        let after = candidate.after.map(|writer| (writer, reader, wr));
        let before = candidate.before.map(|writer| (reader, writer, rw));
        after.into_iter().chain(before).filter(|(from, to, _)| from != to)
    }

    /// Adds the edges of one candidate.
    pub(crate) fn take(&self, candidate: usize, graph: &mut Builder) {
        for (from, to, kind) in self.edges(self.candidates[candidate]) {
            strict_assert!(from != to, "a transaction depends on itself");
            strict_assert!(kind.count_ones() == 1, "an edge of several kinds");
            graph.edge(from, to, kind, self.key);
        }
    }
}

/// Limits of one search: the edges that all orders together may visit, and the number of orders.
/// The search tries at least four orders of any graph. With these limits a search takes seconds.
const EDGES: usize = 60_000_000;
const TRIES: usize = 2000;
const _: () = assert!(EDGES > 0 && TRIES >= 4, "a search tries at least four times");

/// Decides all choices. `graph` has no cycle at the call. If `graph` has a cycle after the call,
/// every choice leads to a cycle. Returns 0 if the search decided. Returns the number of choices if
/// the search gave up, and leaves `graph` unchanged.
pub(crate) fn choose(
    graph: &mut Builder,
    choices: Vec<Choice>,
    rank: impl Fn(u32) -> u64 + Copy,
) -> u64 {
    let (start, count) = (graph.edges.len(), choices.len() as u64);
    let mut tries = (EDGES / start.max(1)).clamp(4, TRIES);
    strict_assert!((4..=TRIES).contains(&tries), "{tries} tries");
    let mut open: Vec<&Choice> = choices.iter().collect();
    match attempt(graph, &mut open, &mut tries, rank) {
        Some(true) => 0,
        Some(false) => {
            graph.edges.truncate(start);
            choices.iter().for_each(|choice| choice.take(0, graph));
            0
        }
        None => {
            graph.edges.truncate(start);
            strict_assert!(graph.edges.len() == start, "a search that gave up leaves edges");
            count
        }
    }
}

/// Whether some choice for the readers in `open` leads to no cycle. `None` if no tries are left.
fn attempt(
    graph: &mut Builder,
    open: &mut Vec<&Choice>,
    tries: &mut usize,
    rank: impl Fn(u32) -> u64 + Copy,
) -> Option<bool> {
    *tries = tries.checked_sub(1)?;
    let Some(place) = graph.build().order(rank) else { return Some(false) };
    let fits = |choice: &Choice| {
        choice.candidates.iter().any(|candidate| {
            choice.edges(*candidate).all(|(from, to, _)| place[from as usize] < place[to as usize])
        })
    };
    let Some(at) = open.iter().position(|choice| !fits(choice)) else { return Some(true) };
    let choice = open.swap_remove(at);
    let start = graph.edges.len();
    strict_assert!(!fits(choice), "a choice that fits is tried");
    for candidate in 0..choice.candidates.len() {
        choice.take(candidate, graph);
        if attempt(graph, open, tries, rank)? {
            return Some(true);
        }
        graph.edges.truncate(start);
        strict_assert!(graph.edges.len() == start, "a refused candidate leaves edges");
    }
    open.push(choice);
    Some(false)
}
