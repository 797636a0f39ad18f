//! All states of a setting, and whether every node gets the line.
//!
//! The search requires that every reachable state has a path of *due* steps to a quiet state. Due
//! steps are those that happen without a decision of local code, so a schedule that does not avoid
//! a step without bound meets all wants. A state without such a path is a deadlock, or belongs to a
//! livelock without an exit.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use stateright::Model;

use crate::setting::{Setting, Step};
use crate::world::World;

/// The property that an assertion of a machine states.
const ASSERTION: &str = "an assertion";

/// The result of a search.
pub(crate) struct Found {
    pub(crate) states: usize,
    /// The violated property, and the steps to the state.
    pub(crate) wrong: Option<(&'static str, Vec<Step>)>,
}

/// Searches all states of the setting, breadth first.
pub(crate) fn search(setting: &Setting) -> Found {
    let properties = setting.properties();
    let first = World::new(setting.clients.len());
    let mut numbers = HashMap::from([(fingerprint(&first), 0u32)]);
    let mut came_by: Vec<Option<(u32, Step)>> = vec![None];
    let mut open = VecDeque::from([(0u32, first)]);
    // The edges of due steps, as (to, from).
    let (mut due, mut quiet, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    while let Some((number, world)) = open.pop_front() {
        if let Some(property) = properties.iter().find(|p| !(p.condition)(setting, &world)) {
            let wrong = Some((property.name, path_to(&came_by, number)));
            return Found { states: came_by.len(), wrong };
        }
        if world.is_quiet() {
            quiet.push(number);
        }
        setting.actions(&world, &mut steps);
        for step in steps.drain(..) {
            let next = catch_unwind(AssertUnwindSafe(|| setting.next_state(&world, step)));
            let Ok(next) = next else {
                let mut path = path_to(&came_by, number);
                path.push(step);
                return Found { states: came_by.len(), wrong: Some((ASSERTION, path)) };
            };
            let Some(next) = next else { continue };
            let to = match numbers.entry(fingerprint(&next)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(place) => {
                    let fresh = came_by.len() as u32;
                    came_by.push(Some((number, step)));
                    open.push_back((fresh, next));
                    *place.insert(fresh)
                }
            };
            if Setting::is_due(step) {
                due.push((to, number));
            }
        }
    }
    let good = backwards(came_by.len(), due, quiet);
    let stuck = good.iter().position(|&good| !good);
    let wrong = stuck.map(|at| ("every node gets the line", path_to(&came_by, at as u32)));
    Found { states: came_by.len(), wrong }
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
    let mut digest = DefaultHasher::new();
    world.hash(&mut digest);
    digest.finish()
}

/// The path as text: each step, and what is in flight behind it.
pub(crate) fn story(setting: &Setting, path: &[Step]) -> String {
    let mut world = World::new(setting.clients.len());
    let mut told = String::new();
    for step in path {
        let what = match step {
            Step::Deliver(at) => {
                let packet = &world.wire[*at];
                format!("{:?} -> {:?}: {:?}", packet.from, packet.to, packet.message)
            }
            step => format!("{step:?}"),
        };
        let next = catch_unwind(AssertUnwindSafe(|| setting.next_state(&world, *step)));
        let Ok(next) = next else { return told + &what };
        world = next.expect("a step of the path");
        let holds: Vec<_> = world.nodes.iter().map(|node| node.frame.hold).collect();
        told += &format!("{what}\n    {holds:?}\n");
    }
    told
}

/// Asserts that all properties hold, and prints the number of states.
pub(crate) fn assert_holds(name: &str, setting: &Setting) {
    let found = search(setting);
    println!("{name}: {} states", found.states);
    if let Some((property, path)) = found.wrong {
        panic!("{name}: {property}\n{}", story(setting, &path));
    }
}

/// Asserts that one of the properties does not hold.
pub(crate) fn assert_refuted(name: &str, setting: &Setting, expected: &[&str]) {
    match search(setting) {
        Found { wrong: Some((property, path)), states } => {
            println!("{name}: {property}, {states} states\n{}", story(setting, &path));
            assert!(expected.contains(&property), "{name}: refuted by another property");
        }
        found => panic!("{name} holds in {} states", found.states),
    }
}
