//! [`Selcc`]: the protocols of the latch word, on the engine.

use std::time::Duration;

use latchwork_cache::{Frame, Ownership};
use latchwork_engine::{
    CoherenceProtocol, LineAccess, LineSite, NodeCore, NodeSettings, Persist, WorkerCore,
    fail_for_gone,
};
use latchwork_latch::{Event, NodeSet, Rules};
use latchwork_strict::strict_check;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Message as Wire, VerbError};

use crate::line::LatchLine;
use crate::line_lease::Lease;
use crate::operations::{Finished, Operations};
use crate::policy::Policy;
use crate::settings::SelccSettings;
use crate::wire::LineMessage;

/// A line at a worker, for a step of these protocols.
pub(crate) type LatchSite<'a> = LineSite<'a, Selcc>;

/// The protocols of the latch word: SELCC and SEL, by their [`Policy`].
#[derive(Debug)]
pub struct Selcc {
    pub(crate) policy: Policy,
    /// The rules of the line machines: those of the policy, changed by the settings.
    pub(crate) rules: Rules,
    pub(crate) settings: SelccSettings,
}

impl Selcc {
    /// The protocol with this policy and these settings, on a node with the settings `node`.
    pub fn new(mut policy: Policy, node: &NodeSettings, settings: SelccSettings) -> Selcc {
        if let Some(plant) = settings.plant {
            plant(&mut policy.rules);
        }
        let mut rules = policy.rules(node, &settings);
        if let Some(plant) = settings.plant {
            plant(&mut rules);
        }
        Selcc { policy, rules, settings }
    }

    /// The rules for the next step of a line, with [`Rules::survive`].
    pub(crate) fn rules_now(&self, node: &NodeCore) -> Rules {
        Rules { gone: NodeSet::from_bits(node.gone()), quiet: node.is_quiet(), ..self.rules }
    }
}

impl CoherenceProtocol for Selcc {
    type Line = LatchLine;
    type InFlight = Operations;
    type Message = LineMessage;
    type End = Finished;

    #[inline]
    fn lazy_release(&self) -> bool {
        self.policy.lazy_release
    }

    #[inline]
    fn clears_copies_at_once(&self) -> bool {
        self.settings.takeover
    }

    #[inline]
    fn at_rest(
        &self,
        node: ComputeNodeId,
        _: GlobalAddr,
        hold: Ownership,
        _: Option<&Frame>,
    ) -> LatchLine {
        LatchLine::at_rest(node, hold)
    }

    #[inline]
    fn want(&self, site: &mut LatchSite<'_>, access: LineAccess) {
        self.request(site, access.need.mode, access.no_wait);
    }

    #[inline]
    fn evict(&self, site: &mut LatchSite<'_>) {
        self.drive(site, Event::Evict);
    }

    fn persists(&self) -> Option<Duration> {
        self.rules.survive.then_some(self.settings.clean_interval)
    }

    fn persist(&self, site: &mut LatchSite<'_>) -> Persist {
        self.write_back_in_place(site)
    }

    #[inline]
    fn serve(&self, site: &mut LatchSite<'_>) {
        self.drive(site, Event::Serve);
    }

    fn alarm(&self, site: &mut LatchSite<'_>, number: u8) {
        self.ring(site, number);
    }

    #[inline]
    fn finish(&self, site: &mut LatchSite<'_>) {
        // No other node requests most of the lines with a record.
        if site.line.machine.has_requests() || !matches!(site.line.lease, Lease::Off) {
            self.see_to_lease(site);
        }
        strict_check!(site.line, site.local);
    }

    fn decode(&self, wire: &Wire) -> Option<LineMessage> {
        LineMessage::decode(wire)
    }

    fn received(&self, site: &mut LatchSite<'_>, message: LineMessage) {
        self.take_message(site, message);
    }

    fn send_away(
        &self,
        worker: &WorkerCore,
        addr: GlobalAddr,
        from: ComputeNodeId,
        message: LineMessage,
    ) {
        self.answer_for_lost(worker, addr, from, &message.message);
    }

    fn unsent(&self, site: &mut LatchSite<'_>, to: ComputeNodeId, error: VerbError) {
        self.cannot_ask(site, NodeSet::of(to), error);
    }

    fn failed(&self, site: &mut LatchSite<'_>) {
        self.abandon_pledges(site);
    }

    #[inline]
    fn survives(&self) -> bool {
        self.settings.survive
    }

    fn peer_gone(&self, site: &mut LatchSite<'_>, peer: ComputeNodeId) {
        // With `survive` the round about the peer closes the requests.
        if !self.settings.survive {
            fail_for_gone(self, site, peer);
        }
    }

    fn has_older(&self, in_flight: &Operations, step: u64) -> bool {
        in_flight.has_older(step)
    }

    fn let_go(&self, site: &mut LatchSite<'_>) {
        self.drive(site, Event::LetGo);
    }

    fn lost(&self, site: &mut LatchSite<'_>) {
        if site.local.failed.is_none() {
            self.drive(site, Event::Lost);
        }
    }

    #[inline]
    fn completed(
        &self,
        worker: &WorkerCore,
        in_flight: &Operations,
        tag: u64,
        result: Result<u64, VerbError>,
    ) -> Option<(GlobalAddr, Finished)> {
        in_flight.completed(worker, tag, result)
    }

    #[inline]
    fn also_ended(&self, in_flight: &Operations) -> Option<(GlobalAddr, Finished)> {
        in_flight.also_ended()
    }

    fn forwarded(
        &self,
        worker: &WorkerCore,
        in_flight: &Operations,
        group: usize,
    ) -> Option<(GlobalAddr, Finished)> {
        in_flight.leave(worker, group, Ok(None))
    }

    #[inline]
    fn ended(&self, site: &mut LatchSite<'_>, end: Finished) {
        self.operation_ended(site, end);
    }

    fn probed(&self, site: &mut LatchSite<'_>) {
        self.complete_landed(site);
    }
}
