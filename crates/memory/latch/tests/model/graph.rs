//! Whether every node gets the line: the explicit graph of all states, searched backwards.
//!
//! The model checker looks at states one by one, and one state does not show an endless wait. So
//! this search requires that every reachable state has a path to a *good* state, in which all wants
//! are met and nothing is in flight. The path uses only *due* steps: verbs take effect, messages
//! arrive, back-offs end, and local code uses its reservations. Evictions and new wants are not
//! due.
//!
//! 1. A state without such a path is a deadlock, or belongs to a livelock without an exit.
//! 2. Due steps lead from good states only to good states.
//! 3. So a schedule that does not avoid a step without bound meets all wants.
//!
//! The search also checks the properties of the setting, so that large settings are searched once.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use stateright::Model;

use crate::digest::Digest;
use crate::setting::{Setting, Step};
use crate::world::World;

/// The result of the search.
pub(crate) struct Graph {
    /// The number of reachable states.
    pub(crate) states: usize,
    /// The highest memory use of the process that was seen, in bytes; zero where the system does
    /// not report it.
    pub(crate) memory_peak: u64,
    /// The violated property of a state, and the steps to the state.
    pub(crate) wrong: Option<(&'static str, Vec<Step>)>,
}

type Numbers = HashMap<u64, u32, BuildHasherDefault<Digest>>;

/// The plan of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Whether to check also that all wants can be met; without it a search takes half of the
    /// memory.
    pub(crate) live: bool,
    /// The number of bytes that the process may use; a search that needs more gives up.
    pub(crate) memory_max: u64,
}

/// Searches all states of the setting.
pub(crate) fn search(setting: &Setting) -> Graph {
    let whole = search_within(setting, Plan { live: true, memory_max: u64::MAX });
    whole.expect("no bound")
}

/// Searches all states of the setting if they fit. The error is the number of states that were
/// found.
pub(crate) fn search_within(setting: &Setting, plan: Plan) -> Result<Graph, usize> {
    let properties = setting.properties();
    let first = setting.first();
    let mut numbers = Numbers::default();
    numbers.insert(fingerprint(&first), 0);
    let mut came_by: Vec<Option<(u32, Step)>> = vec![None];
    let mut due: Vec<(u32, u32)> = Vec::new();
    let (mut content, mut spoilt): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    let mut open = VecDeque::from([(0, first)]);
    let mut steps = Vec::new();
    let mut memory_peak = 0;
    while let Some((number, world)) = open.pop_front() {
        let broken = properties.iter().find(|p| !(p.condition)(setting, &world));
        if let Some(property) = broken {
            let wrong = Some((property.name, path_to(&came_by, number)));
            return Ok(Graph { states: came_by.len(), memory_peak, wrong });
        }
        match world.spoilt {
            _ if !plan.live => {}
            true => spoilt.push(number),
            false if is_content(&world) => content.push(number),
            false => {}
        }
        if number.is_multiple_of(1 << 16) {
            memory_peak = memory_peak.max(memory());
            if memory_peak > plan.memory_max {
                return Err(came_by.len());
            }
        }
        if number.is_multiple_of(1 << 22) && number > 0 {
            println!(
                "{number} states searched, {} known, {} MiB",
                came_by.len(),
                memory_peak >> 20
            );
        }
        setting.steps(&world, &mut steps);
        for step in steps.drain(..) {
            let Some(next) = setting.take(&world, step) else { continue };
            let to = match numbers.entry(fingerprint(&next)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(place) => {
                    let fresh = came_by.len() as u32;
                    came_by.push(Some((number, step)));
                    open.push_back((fresh, next));
                    *place.insert(fresh)
                }
            };
            if plan.live && setting.is_due(step) {
                due.push((to, number));
            }
        }
    }
    let states = came_by.len();
    if !plan.live {
        return Ok(Graph { states, memory_peak, wrong: None });
    }
    memory_peak = memory_peak.max(memory());
    if setting.may_be_spoilt_by_the_living() {
        content.extend(&spoilt);
    }
    let mut good = backwards(states, due, content);
    spoilt.iter().for_each(|&at| good[at as usize] = true);
    let stuck = good.iter().position(|&good| !good);
    let wrong = stuck.map(|at| ("all wishes can be met", path_to(&came_by, at as u32)));
    Ok(Graph { states, memory_peak, wrong })
}

/// Bytes of this process that are in memory; zero where the operating system does not report them.
fn memory() -> u64 {
    const PAGE: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .map_or(0, |pages: u64| pages * PAGE)
}

/// Every living node has got what it wanted, or has given it up, and nothing is in flight.
fn is_content(world: &World) -> bool {
    let at_rest = |node: &crate::world::Node| {
        let idle = node.line.is_at_rest() && node.flights.is_empty() && !node.frame.reserved;
        node.dead || idle
    };
    world.wire.is_empty() && !world.is_recovering() && world.nodes.iter().all(at_rest)
}

/// The states that reach one of `goals` over the edges, given as (to, from).
fn backwards(states: usize, mut edges: Vec<(u32, u32)>, goals: Vec<u32>) -> Vec<bool> {
    edges.sort_unstable();
    let mut reaches = vec![false; states];
    let mut open = goals;
    for &goal in &open {
        reaches[goal as usize] = true;
    }
    while let Some(to) = open.pop() {
        let first = edges.partition_point(|edge| edge.0 < to);
        for &(_, from) in edges[first..].iter().take_while(|edge| edge.0 == to) {
            if !std::mem::replace(&mut reaches[from as usize], true) {
                open.push(from);
            }
        }
    }
    reaches
}

fn path_to(came_by: &[Option<(u32, Step)>], mut at: u32) -> Vec<Step> {
    let mut path = Vec::new();
    while let Some((from, step)) = came_by[at as usize] {
        path.push(step);
        at = from;
    }
    path.reverse();
    path
}

/// Two states with one fingerprint count as one state. Among 10^7 states, the chance that this
/// happens is below 10^-5.
fn fingerprint(world: &World) -> u64 {
    let mut digest = Digest::default();
    world.hash(&mut digest);
    digest.finish()
}
