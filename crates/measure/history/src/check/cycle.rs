//! A short cycle of each cyclic part of the graph, and the class of the cycle.

use std::collections::VecDeque;

use latchwork_strict::strict_assert;

use super::graph::{Edge, Graph, NO_KEY, kind};
use super::index::Index;
use super::report::{Class, CycleStep, Dependency, Findings, HistoryViolation, name};

/// Sets of edge kinds, from the weakest isolation level to the strongest. A level forbids cycles of
/// its set. Each set contains the set before.
const LEVELS: [u8; 4] = [
    kind::WW | kind::WR | kind::WR_RANGE,
    kind::WW | kind::WR | kind::WR_RANGE | kind::RW,
    kind::ALL & !kind::REAL_TIME,
    kind::ALL,
];
const _: () = assert!(
    LEVELS[0] & LEVELS[1] == LEVELS[0]
        && LEVELS[1] & LEVELS[2] == LEVELS[1]
        && LEVELS[2] & LEVELS[3] == LEVELS[2]
        && LEVELS[3] == kind::ALL,
    "each level has the edges of the one before"
);

/// After this many visited edges of one part, the search for a shorter cycle stops if it has found
/// any cycle.
const EDGES: usize = 20_000_000;

/// Reports one cycle of each cyclic part, at the weakest level that forbids a cycle of the part.
pub(crate) fn report(graph: &Graph, index: &Index<'_>, transactions: u32, findings: &mut Findings) {
    let mut local = vec![u32::MAX; graph.nodes() as usize];
    for mut part in graph.cyclic(kind::ALL) {
        part.sort_unstable();
        strict_assert!(part.len() > 1, "a cycle of one transaction");
        part.iter().zip(0..).for_each(|(node, number)| local[*node as usize] = number);
        let inside = |edge: &&Edge| local[edge.to as usize] != u32::MAX;
        let mut edges: Vec<Edge> = part
            .iter()
            .flat_map(|node| graph.of(*node).iter().filter(inside))
            .map(|edge| Edge {
                from: local[edge.from as usize],
                to: local[edge.to as usize],
                ..*edge
            })
            .collect();
        // Of parallel edges, the search meets the edge of the lowest kind first, so the report
        // names that edge.
        edges.sort_by_key(|edge| edge.kind);
        let count = part.partition_point(|node| *node < transactions) as u32;
        strict_assert!(count as usize <= part.len(), "more transactions than nodes");
        let inner = Graph::new(part.len() as u32, &edges);
        strict_assert!(
            edges
                .iter()
                .all(|edge| (edge.from as usize) < part.len() && (edge.to as usize) < part.len()),
            "an edge leaves its part"
        );
        for level in LEVELS {
            let cyclic = inner.cyclic(level);
            let smallest = cyclic.iter().min_by_key(|members| members.len());
            if let Some(cycle) =
                smallest.and_then(|members| shortest(&inner, members, count, level))
            {
                findings.push(told(index, &part, count, &cycle));
                strict_assert!(
                    cycle
                        .first()
                        .zip(cycle.last())
                        .is_some_and(|(first, last)| first.from == last.to),
                    "a cycle is not closed"
                );
                break;
            }
        }
        part.iter().for_each(|node| local[*node as usize] = u32::MAX);
    }
}

/// A cycle through as few transactions as possible within the limit [`EDGES`]. Nodes below `count`
/// are transactions. The search is breadth-first; a step to a helper node has length 0.
fn shortest(graph: &Graph, members: &[u32], count: u32, kinds: u8) -> Option<Vec<Edge>> {
    let mut is_member = vec![false; graph.nodes() as usize];
    members.iter().for_each(|node| is_member[*node as usize] = true);
    let mut reached: Reached = vec![None; graph.nodes() as usize];
    let mut best: Option<(u32, Vec<Edge>)> = None;
    let mut looked = 0;
    let mut starts: Vec<u32> = members.iter().copied().filter(|node| *node < count).collect();
    starts.sort_unstable();
    for start in starts {
        if best.as_ref().is_some_and(|(length, _)| *length == 2) || looked > EDGES && best.is_some()
        {
            break;
        }
        members.iter().for_each(|node| reached[*node as usize] = None);
        let mut queue = VecDeque::from([(0, start)]);
        'search: while let Some((length, node)) = queue.pop_front() {
            if node != start && reached[node as usize].is_some_and(|(known, _)| known < length) {
                continue;
            }
            for edge in graph.of(node) {
                looked += 1;
                if edge.kind & kinds == 0 || !is_member[edge.to as usize] {
                    continue;
                }
                let weight = u32::from(edge.to < count);
                let longer = length + weight;
                if best.as_ref().is_some_and(|(length, _)| longer >= *length) {
                    continue;
                }
                if reached[edge.to as usize].is_some_and(|(known, _)| known <= longer) {
                    continue;
                }
                reached[edge.to as usize] = Some((longer, *edge));
                if edge.to == start {
                    if weight == 1 {
                        best = Some((longer, path(&reached, start)));
                    }
                    break 'search;
                }
                match weight {
                    0 => queue.push_front((longer, edge.to)),
                    _ => queue.push_back((longer, edge.to)),
                }
            }
        }
    }
    best.map(|(_, cycle)| cycle)
}

/// For each node that a search reached, the length of the path from the start and the last edge of
/// the path.
type Reached = Vec<Option<(u32, Edge)>>;

fn path(reached: &Reached, start: u32) -> Vec<Edge> {
    let edge = |node: u32| reached[node as usize].expect("the search came through it").1;
    let mut cycle = vec![edge(start)];
    while cycle[cycle.len() - 1].from != start {
        strict_assert!(cycle.len() <= reached.len(), "a path passes a node twice");
        cycle.push(edge(cycle[cycle.len() - 1].from));
    }
    cycle.reverse();
    strict_assert!(cycle.windows(2).all(|pair| pair[0].to == pair[1].from), "a path has a gap");
    cycle
}

/// The cycle as a violation. A path through helper nodes becomes the one edge that the path stands
/// for.
fn told(index: &Index<'_>, part: &[u32], count: u32, cycle: &[Edge]) -> HistoryViolation {
    let mut direct: Vec<Edge> = Vec::new();
    for edge in cycle {
        match direct.last_mut() {
            Some(last) if last.to >= count => {
                last.to = edge.to;
                if edge.key != NO_KEY {
                    last.key = edge.key;
                }
            }
            _ => direct.push(*edge),
        }
    }
    let cycle: Vec<CycleStep> = direct.iter().map(|edge| step(index, part, edge)).collect();
    strict_assert!(
        direct.iter().all(|edge| edge.from < count && edge.to < count),
        "a helper is reported as a transaction"
    );
    let transactions = cycle.iter().map(|step| step.from).collect();
    HistoryViolation { class: class(&direct), transactions, cycle, text: String::new() }
}

fn class(cycle: &[Edge]) -> Class {
    let count = |kind| cycle.iter().filter(|edge| edge.kind == kind).count();
    let replaced = count(kind::RW);
    if count(kind::REAL_TIME) > 0 {
        Class::RealTime
    } else if count(kind::RW_RANGE) > 0 {
        Class::Phantom
    } else if replaced > 1 {
        Class::AntiDependency
    } else if replaced == 1 {
        let is_one_key = cycle.iter().all(|edge| edge.key == cycle[0].key);
        let is_lost = cycle.len() == 2 && count(kind::WW) == 1 && is_one_key;
        if is_lost { Class::LostUpdate } else { Class::ReadSkew }
    } else {
        Class::CircularInformationFlow
    }
}

fn step(index: &Index<'_>, part: &[u32], edge: &Edge) -> CycleStep {
    let (from, to) = (part[edge.from as usize], part[edge.to as usize]);
    let (before, after) = (index.transaction(from), index.transaction(to));
    let of = |writer: u32| {
        let versions = index.versions.of(edge.key);
        let cts = index.transaction(writer).outcome.cts();
        let at = versions.partition_point(|written| written.cts < cts);
        let at = Some(at).filter(|at| versions.get(*at).is_some_and(|found| found.cts == cts));
        let is_there = at.is_some_and(|at| versions[at].change.is_put());
        let old = at.and_then(|at| at.checked_sub(1)).map_or(0, |at| versions[at].cts);
        let new = at.map_or(0, |at| versions[at].cts);
        (name(index, edge.key), old, new, is_there)
    };
    let (dependency, text) = match edge.kind {
        kind::WW => {
            let (key, old, new, _) = of(to);
            (Dependency::Overwrote, format!("ww {key}: version {old}, replaced by {new}"))
        }
        kind::WR => {
            let (key, _, new, is_there) = of(from);
            let what = if is_there { "written" } else { "deleted" };
            (Dependency::Read, format!("wr {key}: {what} as version {new}, and read"))
        }
        kind::RW => {
            let (key, old, new, _) = of(to);
            let read = if old == 0 {
                "read before the first".to_owned()
            } else {
                format!("read version {old}")
            };
            (Dependency::Replaced, format!("rw {key}: {read}, replaced by {new}"))
        }
        kind::WR_RANGE => {
            let (key, _, new, is_there) = of(from);
            let (what, seen) = if is_there { ("put", "seen") } else { ("deleted", "not seen") };
            (
                Dependency::RangeRead,
                format!("wr {key}: {what} as version {new}, and {seen} in a range"),
            )
        }
        kind::RW_RANGE => {
            let (key, _, new, is_there) = of(to);
            let (seen, what) = if is_there { ("not seen", "put") } else { ("seen", "deleted") };
            (
                Dependency::RangeReplaced,
                format!("rw {key}: {seen} in a range, {what} as version {new}"),
            )
        }
        _ => {
            let text =
                format!("real time: ended at {} ns, begun at {} ns", before.end, after.begin);
            (Dependency::RealTime, text)
        }
    };
    CycleStep { from: before.id, to: after.id, dependency, text }
}
