//! [`Directory`]: the directory protocols, on the engine.

use std::cell::RefCell;
use std::sync::Arc;

use latchwork_cache::{Frame, Ownership};
use latchwork_directory::{Action, Event, Party, Rules, Sent};
use latchwork_engine::{CoherenceProtocol, LineAccess, LineSite, LineState, WorkerCore};
use latchwork_verbs::{
    ComputeNodeId, GlobalAddr, MemoryNodeId, Message as Wire, Target, VerbError,
};
use slab::Slab;

use crate::line::{DirectoryLine, want};
use crate::place::HomePlace;
use crate::record::Holders;
use crate::wire::{DirectoryMessage, decode};

/// The directory protocols, GAM and ScaleStore, by their [`Rules`]. Compute nodes and agents run
/// the same protocol.
#[derive(Debug)]
pub struct Directory {
    pub(crate) rules: Rules,
    pub(crate) place: HomePlace,
    /// The entries of this home, for checks of simulated worlds.
    pub(crate) holders: Option<Arc<Holders>>,
}

impl Directory {
    /// The protocol of a node. If the node is a home, it writes its entries down in `holders`, if
    /// there is one.
    pub fn new(rules: Rules, place: HomePlace, holders: Option<Arc<Holders>>) -> Directory {
        Directory { rules, place, holders }
    }

    /// The home of a line. Only a faulty peer names a line of a memory node without one. Such a
    /// line counts as one of the first memory node, whose home serves no other node's lines.
    fn home_of(&self, addr: GlobalAddr) -> ComputeNodeId {
        let first = || self.place.home(MemoryNodeId(0));
        self.place.home(addr.node()).or_else(first).expect("the first memory node has a home")
    }
}

/// A line at a worker, for a step of these protocols.
pub(crate) type Site<'a> = LineSite<'a, Directory>;

/// The forwards of one worker in flight.
#[derive(Default)]
pub struct Forwards {
    pub(crate) lines: RefCell<Slab<GlobalAddr>>,
    // Empty between calls; kept for their capacity.
    pub(crate) actions: RefCell<Vec<Action>>,
    pub(crate) sent: RefCell<Vec<Sent>>,
}

impl CoherenceProtocol for Directory {
    type Line = DirectoryLine;
    type InFlight = Forwards;
    type Message = DirectoryMessage;
    /// A forward has ended.
    type End = ();

    #[inline]
    fn lazy_release(&self) -> bool {
        true
    }

    /// Every request keeps its place at the home.
    fn registers_writers(&self) -> bool {
        true
    }

    /// The answer of the home ends it.
    fn operation_ends_release(&self) -> bool {
        false
    }

    fn at_rest(
        &self,
        node: ComputeNodeId,
        addr: GlobalAddr,
        hold: Ownership,
        frame: Option<&Frame>,
    ) -> DirectoryLine {
        DirectoryLine::at_rest(self.rules, node, self.home_of(addr), hold, frame)
    }

    fn want(&self, site: &mut Site<'_>, access: LineAccess) {
        self.drive(site, Event::Want(want(access.need.mode)));
    }

    fn evict(&self, site: &mut Site<'_>) {
        if site.line.stays
            && let Some(id) = site.local.frame
        {
            // Other lines leave the cache first.
            site.worker.node.cache().note_use(id);
        } else if site.line.is_still() {
            self.drive(site, Event::Evict);
        }
    }

    fn serve(&self, site: &mut Site<'_>) {
        self.drive(site, Event::Serve);
    }

    fn alarm(&self, site: &mut Site<'_>, number: u8) {
        self.back_off_over(site, number);
    }

    fn finish(&self, site: &mut Site<'_>) {
        site.line.in_doubt = site.local.is_in_doubt();
        self.end_eviction(site);
        self.catch_up(site);
        self.hand_over(site);
    }

    fn acts_on_deaths(&self) -> bool {
        true
    }

    fn peer_gone(&self, site: &mut Site<'_>, peer: ComputeNodeId) {
        if site.line.home.is_some() {
            self.step_home(site, |home, rules, out| home.died(rules, peer, out));
        }
        if site.line.is_asking(peer) {
            let target = Target::Compute(peer, site.worker.node.arena().0);
            site.local.fail(VerbError::Disconnected { target });
        } else {
            self.drive(site, Event::Dead(peer));
        }
    }

    fn decode(&self, wire: &Wire) -> Option<DirectoryMessage> {
        decode(wire)
    }

    fn received(&self, site: &mut Site<'_>, received: DirectoryMessage) {
        let DirectoryMessage { from, from_home, to_home, dirty, message } = received;
        if to_home {
            // Another node would send its own memory in place of the line. What a dead node has
            // sent is void: the home may have told others that the node is dead.
            let own = self.place.home(site.addr.node()) == Some(site.worker.node.id());
            if own && !site.worker.node.is_gone(from) {
                self.serve_home(site, from, message);
            }
            return;
        }
        let line_size = site.worker.node.cache().line_size();
        self.take_changes(site, &message, dirty.within(line_size));
        let from = if from_home { Party::Home } else { Party::Node(from) };
        self.take(site, from, message);
    }

    /// The waits of other nodes for a lost line end at their deadlines.
    fn send_away(
        &self,
        _worker: &WorkerCore,
        _addr: GlobalAddr,
        _from: ComputeNodeId,
        _message: DirectoryMessage,
    ) {
    }

    fn unsent(&self, site: &mut Site<'_>, _to: ComputeNodeId, error: VerbError) {
        self.fail_request(site, error);
    }

    /// Only forwards are in flight.
    fn completed(
        &self,
        _worker: &WorkerCore,
        _in_flight: &Forwards,
        _tag: u64,
        _result: Result<u64, VerbError>,
    ) -> Option<(GlobalAddr, ())> {
        None
    }

    fn forwarded(
        &self,
        _worker: &WorkerCore,
        in_flight: &Forwards,
        group: usize,
    ) -> Option<(GlobalAddr, ())> {
        in_flight.lines.borrow_mut().try_remove(group).map(|addr| (addr, ()))
    }

    fn ended(&self, site: &mut Site<'_>, (): ()) {
        site.line.forwards = site.line.forwards.saturating_sub(1);
    }
}
