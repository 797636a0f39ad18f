//! [`Recorder`]: turns events of the fabric and changes of ownership in the caches into entries.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use latchwork_cache::Ownership;
use latchwork_cluster::{Node, Simulated, describe, describe_word as word};
use latchwork_memnode::Geometry;
use latchwork_simulation::Kernel;
use latchwork_verbs::{GlobalAddr, Target, VerbError, WorkRequest};
use latchwork_verbs_sim::{BatchStep, Sight, Strike};

use super::core::Core;
use super::names::{batch, line_of_latch};
use super::{TraceEntry, TraceKind, TraceParty};

/// The recorder watches the ownership of this many lines: the lines of the latest batches.
const LINES_WATCHED: usize = 16;

pub(crate) struct Recorder {
    core: Rc<RefCell<Core>>,
    kernel: Kernel,
    geometry: Geometry,
    nodes: Vec<Arc<Node>>,
    /// The batches in flight, by the number of their flight in the fabric.
    under_way: BTreeMap<u32, Posted>,
    posted: u64,
    recent: VecDeque<GlobalAddr>,
    holds: BTreeMap<(GlobalAddr, usize), Ownership>,
}

struct Posted {
    number: u64,
    line: Option<GlobalAddr>,
    text: String,
}

impl Recorder {
    pub(crate) fn new(cluster: &Simulated, core: Rc<RefCell<Core>>) -> Recorder {
        Recorder {
            core,
            kernel: cluster.kernel().clone(),
            geometry: cluster.config().check().unwrap_or_default(),
            nodes: cluster.nodes().to_vec(),
            under_way: BTreeMap::new(),
            posted: 0,
            recent: VecDeque::new(),
            holds: BTreeMap::new(),
        }
    }

    pub(crate) fn replace(&mut self, at: usize, node: Arc<Node>) {
        self.nodes[at] = node;
    }

    pub(crate) fn see(&mut self, sight: &Sight<'_>) {
        // A node changes its copy before it posts the batch for the line, so the change comes
        // first.
        self.look_at_caches();
        let from = TraceParty::Compute(sight.from);
        let to = match sight.target {
            Target::Memory(id) => TraceParty::Memory(id),
            Target::Compute(id, _) => TraceParty::Compute(id),
        };
        let Some(flight) = sight.flight else { return self.see_again(sight, from, to) };
        if matches!(sight.what, BatchStep::Posted) {
            self.post(flight, sight);
        }
        let Some(Posted { number, line, text }) = self.under_way.get(&flight) else { return };
        let (batch, mut line, text, mut result) = (*number, *line, text.clone(), String::new());
        let what = match sight.what {
            BatchStep::Posted => TraceKind::Posted { batch, from, to },
            BatchStep::Struck { request, old, new } => {
                let Some(latch) = self.latch(sight, request) else { return };
                line = line_of_latch(self.geometry, latch);
                result = match old == new {
                    true => format!("{} stays", word(old)),
                    false => format!("{} -> {}", word(old), word(new)),
                };
                TraceKind::Struck { batch, from, to }
            }
            BatchStep::Delivered(message) => {
                line = describe(message).0;
                TraceKind::Delivered { batch, from, to }
            }
            BatchStep::Completed(outcome) => {
                result = match outcome {
                    Ok(outcome) => match self.first_latch(sight) {
                        Some(_) => format!("was {}", word(outcome.old[0])),
                        None => "done".to_owned(),
                    },
                    Err(VerbError::Ambiguous { .. }) => "FAILED: may have taken effect".to_owned(),
                    Err(error) => format!("FAILED: {error}"),
                };
                TraceKind::Completed { batch, from, to, ok: outcome.is_ok() }
            }
            BatchStep::Fault(strike) => {
                result = match strike {
                    Strike::Delayed(by) => format!("FAULT: delayed by {by:?}"),
                    Strike::Lost => "FAULT: lost".to_owned(),
                    Strike::Duplicated(after) => format!("FAULT: will come again after {after:?}"),
                    Strike::CutOff(done) => {
                        let all = sight.requests.len();
                        format!("FAULT: will fail behind {done} of its {all} requests")
                    }
                };
                TraceKind::Fault { batch, from, to, lost: strike == Strike::Lost }
            }
        };
        if matches!(sight.what, BatchStep::Completed(_)) {
            self.under_way.remove(&flight);
        }
        self.push(what, line, text, result);
    }

    fn see_again(&mut self, sight: &Sight<'_>, from: TraceParty, to: TraceParty) {
        if let BatchStep::Delivered(message) = sight.what {
            let (line, text) = describe(message);
            let result = "once more".to_owned();
            self.push(TraceKind::Delivered { batch: 0, from, to }, line, text, result);
        }
    }

    fn post(&mut self, flight: u32, sight: &Sight<'_>) {
        let (line, text) = batch(self.geometry, sight.from, sight.target, sight.requests);
        self.posted += 1;
        let posted = Posted { number: self.posted, line, text };
        self.under_way.insert(flight, posted);
        let Some(line) = line else { return };
        if let Some(at) = self.recent.iter().position(|recent| *recent == line) {
            self.recent.remove(at);
        } else if self.recent.len() == LINES_WATCHED {
            let gone = self.recent.pop_front();
            self.holds.retain(|(line, _), _| Some(*line) != gone);
        }
        self.recent.push_back(line);
    }

    /// The address of the latch word of an atomic request. `None` if the request is on other
    /// memory.
    fn latch(&self, sight: &Sight<'_>, request: usize) -> Option<GlobalAddr> {
        let Target::Memory(node) = sight.target else { return None };
        let (remote, _) = sight.requests.get(request)?.remote()?;
        let latch = GlobalAddr::new(node, remote);
        line_of_latch(self.geometry, latch).map(|_| latch)
    }

    fn first_latch(&self, sight: &Sight<'_>) -> Option<GlobalAddr> {
        let atomic = |r: &WorkRequest| {
            matches!(r, WorkRequest::FetchAdd { .. } | WorkRequest::CompareSwap { .. })
        };
        self.latch(sight, sight.requests.iter().position(atomic)?)
    }

    /// Adds an entry for each node whose ownership of a watched line has changed.
    pub(crate) fn look_at_caches(&mut self) {
        let mut changes = Vec::new();
        for &line in &self.recent {
            for (index, node) in self.nodes.iter().enumerate() {
                let cache = node.cache();
                let frame = cache.find(line).map(|id| cache.frame(id).state());
                let now = frame.map_or(Ownership::Invalid, |state| state.ownership());
                let before = self.holds.insert((line, index), now);
                let before = before.unwrap_or(Ownership::Invalid);
                if before != now {
                    changes.push((line, TraceParty::Compute(node.id()), before, now));
                }
            }
        }
        for (line, who, before, now) in changes {
            let text = format!("copy: {} -> {}", held(before), held(now));
            self.push(TraceKind::Local { who, worker: None }, Some(line), text, String::new());
        }
    }

    fn push(&mut self, what: TraceKind, line: Option<GlobalAddr>, text: String, result: String) {
        let (at, event) = (self.kernel.now(), self.kernel.events());
        let mut core = self.core.borrow_mut();
        if let Some(line) = line {
            core.name(line);
        }
        core.push(TraceEntry { at, event, what, line, text, result });
    }
}

fn held(ownership: Ownership) -> &'static str {
    match ownership {
        Ownership::Invalid => "none",
        Ownership::Shared => "shared",
        Ownership::Exclusive => "exclusive",
    }
}
