//! Readers that may have seen one of several states.
//!
//! A history is serializable if some choice makes it so. All edges that are certain come first. If
//! they have no cycle, an order of all transactions that follows them, and the end of each where
//! they leave it open, decides nearly everything: if it permits each reader a state, it is the
//! proof. Else one that finds none is given each of its states in turn, with a new order for each.

use latchwork_strict::strict_assert;

use super::graph::{Builder, kind};
use super::presence::Candidate;

/// A reader, and what it may have seen of a key.
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

    /// Adds the edges of one.
    pub(crate) fn take(&self, candidate: usize, graph: &mut Builder) {
        for (from, to, kind) in self.edges(self.candidates[candidate]) {
            strict_assert!(from != to, "a transaction depends on itself");
            strict_assert!(kind.count_ones() == 1, "an edge of several kinds");
            graph.edge(from, to, kind, self.key);
        }
    }
}

/// Edges that the search may go through in all, and orders that it may try: seconds.
const EDGES: usize = 60_000_000;
const TRIES: usize = 2000;
const _: () = assert!(EDGES > 0 && TRIES >= 4, "a search tries at least four times");

/// Chooses for all of them. `graph` has no cycle before; if it has one afterwards, no choice avoids
/// one. Returns how many could not be decided, and are left out.
pub(crate) fn choose(
    graph: &mut Builder,
    choices: Vec<Choice>,
    rank: impl Fn(u32) -> u64 + Copy,
) -> u64 {
    let (start, count) = (graph.edges.len(), choices.len() as u64);
    let mut tries = (EDGES / start.max(1)).clamp(4, TRIES);
    strict_assert!(tries >= 4 && tries <= TRIES, "{tries} tries");
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

/// Whether some choice for those that are open has no cycle; `None`: no tries left.
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
