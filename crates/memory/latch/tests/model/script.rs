//! Single runs of the model, step by step: the language of the scenarios.

use latchwork_latch::{Answer, Hold, LatchMessage, LatchWord, Want, WordOp};
use latchwork_verbs::ComputeNodeId;
use stateright::Model;

use crate::client::Client;
use crate::frame::Bytes;
use crate::recovery::Stride;
use crate::setting::{Setting, Step};
use crate::world::{Flight, Node, Packet, Stage, World};

/// A world whose steps are chosen one by one. After each step all properties are checked.
pub(crate) struct Script {
    setting: Setting,
    world: World,
}

pub(crate) fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).expect("a valid id")
}

impl Script {
    /// Nodes 1 to `nodes`, under the discipline.
    pub(crate) fn new(nodes: u8) -> Self {
        let clients: Vec<Client> = (1..=nodes).map(Client::both).collect();
        let mut setting = Setting::discipline(&clients, 3);
        setting.rules.seq_modulus = 1 << 16;
        Script { world: setting.first(), setting }
    }

    /// The same nodes, which take shared lines over by pledge.
    pub(crate) fn with_takeover(mut self) -> Self {
        self.setting.rules.takeover = true;
        self
    }

    /// The same nodes, which recover the line when node `mortal` dies.
    pub(crate) fn recovering(mut self, mortal: u8) -> Self {
        self.setting.clients[usize::from(Self::at(mortal))].mortal = true;
        self.setting = self.setting.recovering();
        self.world = self.setting.first();
        self
    }

    /// The same nodes, which do not wait for locks of other nodes.
    pub(crate) fn no_wait(mut self) -> Self {
        self.world.nodes.iter_mut().for_each(|node| node.no_wait = true);
        self
    }

    /// The same nodes, which write back and release and do not forward.
    pub(crate) fn not_forwarding(mut self) -> Self {
        self.setting.rules.forwarding = false;
        self
    }

    /// The same nodes, which release lines without a request.
    pub(crate) fn giving_back(mut self, gives_back: bool) -> Self {
        self.setting.rules.gives_back = gives_back;
        self
    }

    /// The same nodes, which never send each other requests.
    pub(crate) fn latch_only(mut self) -> Self {
        self.setting.rules.invalidate = false;
        self
    }

    // ---- what happens ---------------------------------------------------------------------------

    fn take(&mut self, step: Step) {
        if let Some(next) = self.setting.take(&self.world, step) {
            self.world = next;
        }
        for property in self.setting.properties() {
            let holds = (property.condition)(&self.setting, &self.world);
            assert!(holds, "not \"{}\" after {step:?}: {:#?}", property.name, self.world);
        }
    }

    fn at(id: u8) -> u8 {
        id - 1
    }

    pub(crate) fn want(&mut self, id: u8, want: Want) {
        self.take(Step::Want { at: Self::at(id), want });
    }

    pub(crate) fn reserve(&mut self, id: u8) {
        self.take(Step::Reserve { at: Self::at(id) });
    }

    pub(crate) fn access(&mut self, id: u8) {
        self.take(Step::Access { at: Self::at(id) });
    }

    pub(crate) fn write(&mut self, id: u8) {
        self.take(Step::Write { at: Self::at(id) });
    }

    pub(crate) fn lock(&mut self, id: u8, want: Want) {
        self.take(Step::Lock { at: Self::at(id), want });
    }

    pub(crate) fn unlock(&mut self, id: u8) {
        self.take(Step::Unlock { at: Self::at(id) });
    }

    pub(crate) fn evict(&mut self, id: u8) {
        self.take(Step::Evict { at: Self::at(id) });
    }

    pub(crate) fn retry(&mut self, id: u8) {
        assert!(self.node(id).pausing, "node {id} does not pause");
        self.take(Step::Retry { at: Self::at(id) });
    }

    /// Node `id` dies, and nothing of it is in flight.
    pub(crate) fn die(&mut self, id: u8) {
        self.take(Step::Die { at: Self::at(id), lost: true });
    }

    /// Node `id` dies. What it has sent may take effect until the fence.
    pub(crate) fn die_to_be_recovered(&mut self, id: u8) {
        self.take(Step::Die { at: Self::at(id), lost: false });
    }

    /// The next part of the operation in flight takes effect.
    pub(crate) fn progress(&mut self, id: u8) {
        self.take(Step::Progress { at: Self::at(id), flight: 0 });
    }

    /// A step of the recovery.
    pub(crate) fn stride(&mut self, stride: Stride) {
        assert!(self.may(stride), "{stride:?} is not possible");
        self.take(Step::Recover(stride));
    }

    /// All living nodes let go of the dead node, and close.
    pub(crate) fn close_all(&mut self) {
        let living = |node: &&Node| !node.dead;
        let living: Vec<u8> = self.world.nodes.iter().filter(living).map(|n| n.id.get()).collect();
        let each = || living.iter().map(|&id| Self::at(id));
        each().for_each(|at| self.stride(Stride::LetGo { at }));
        while let Some(packet) = (0..self.world.wire.len()).next() {
            self.take(Step::Deliver { packet: packet as u16 });
        }
        each().for_each(|at| self.stride(Stride::Mark { at }));
        each().for_each(|at| self.stride(Stride::Close { at }));
    }

    /// Whether the step of the recovery is possible.
    pub(crate) fn may(&self, stride: Stride) -> bool {
        self.world.strides().any(|other| other == stride)
    }

    /// Node `from` is notified that its request to node `to`, which is dead, was not sent.
    pub(crate) fn refuse(&mut self, to: u8, from: u8) {
        let is_it = |packet: &Packet| {
            let LatchMessage::Request(request) = packet.message else { return false };
            packet.to == node(to) && request.from == node(from)
        };
        let packet = self.world.wire.iter().position(is_it).expect("a question on its way");
        self.take(Step::Refuse { packet: packet as u16 });
    }

    /// All parts of the operation in flight take effect, but its completion is not reported.
    pub(crate) fn land(&mut self, id: u8, op: WordOp) {
        assert_eq!(self.flying(id), Some(op));
        while self.flight(id).is_some_and(|flight| flight.stage != Stage::Report) {
            self.take(Step::Progress { at: Self::at(id), flight: 0 });
        }
    }

    /// The operation in flight takes effect and is reported.
    pub(crate) fn complete(&mut self, id: u8, op: WordOp) {
        self.land(id, op);
        self.take(Step::Progress { at: Self::at(id), flight: 0 });
    }

    /// Node `to` receives the one message that `is_it` accepts.
    fn receive(&mut self, to: u8, is_it: impl Fn(&LatchMessage) -> bool) {
        let wire = &self.world.wire;
        let found = |at: &usize| wire[*at].to == node(to) && is_it(&wire[*at].message);
        let packet = (0..wire.len()).find(found);
        let packet = packet.unwrap_or_else(|| panic!("no such message to {to}: {wire:#?}"));
        self.take(Step::Deliver { packet: packet as u16 });
    }

    pub(crate) fn receive_request(&mut self, to: u8, from: u8) {
        self.receive(to, |m| matches!(m, LatchMessage::Request(r) if r.from == node(from)));
    }

    pub(crate) fn receive_answer(&mut self, to: u8, by: u8, expected: Answer) {
        self.receive(to, |message| {
            matches!(message, LatchMessage::Answer { asked, answer, .. }
                if *asked == node(by) && *answer == expected)
        });
    }

    pub(crate) fn receive_grant(&mut self, to: u8) {
        self.receive(to, |message| matches!(message, LatchMessage::Grant { .. }));
    }

    pub(crate) fn receive_settled(&mut self, to: u8) {
        self.receive(to, |message| matches!(message, LatchMessage::Settled { .. }));
    }

    pub(crate) fn receive_pledge(&mut self, to: u8, from: u8) {
        self.receive(to, |m| matches!(m, LatchMessage::Pledged { by, .. } if *by == node(from)));
    }

    pub(crate) fn receive_taken(&mut self, to: u8, from: u8) {
        self.receive(to, |m| matches!(m, LatchMessage::Taken { by, .. } if *by == node(from)));
    }

    pub(crate) fn receive_gave_up(&mut self, to: u8, from: u8) {
        self.receive(to, |m| matches!(m, LatchMessage::GaveUp { by, .. } if *by == node(from)));
    }

    /// Node `id` wants the line while no other node is in its way, gets it and uses it.
    pub(crate) fn obtain(&mut self, id: u8, want: Want) {
        self.want(id, want);
        self.complete(
            id,
            match want {
                Want::Shared => WordOp::AcquireShared,
                Want::Exclusive => WordOp::AcquireExclusive,
            },
        );
        self.access(id);
    }

    /// Takes all due steps, in turn, until no step is due.
    pub(crate) fn run_down(&mut self) {
        const STEPS_MAX: usize = 1000;
        for turn in 0..STEPS_MAX {
            let mut steps = Vec::new();
            self.setting.steps(&self.world, &mut steps);
            steps.retain(|&step| self.setting.is_due(step));
            if steps.is_empty() {
                return assert!(self.world.nodes.iter().all(|node| node.line.is_at_rest()));
            }
            self.take(steps[turn % steps.len()]);
        }
        panic!("still busy after {STEPS_MAX} steps: {:#?}", self.world);
    }

    // ---- what is the case -----------------------------------------------------------------------

    fn node(&self, id: u8) -> &Node {
        &self.world.nodes[usize::from(Self::at(id))]
    }

    fn flight(&self, id: u8) -> Option<Flight> {
        self.node(id).flights.first().copied()
    }

    /// The operation of node `id` in flight.
    pub(crate) fn flying(&self, id: u8) -> Option<WordOp> {
        self.flight(id).map(|flight| flight.op)
    }

    pub(crate) fn hold(&self, id: u8) -> Hold {
        self.node(id).frame.hold
    }

    pub(crate) fn is_wanted(&self, id: u8) -> bool {
        self.node(id).line.is_wanted()
    }

    pub(crate) fn is_pledged(&self, id: u8) -> bool {
        self.node(id).line.is_pledged()
    }

    pub(crate) fn is_remembering(&self, id: u8) -> bool {
        self.node(id).line.has_requests()
    }

    pub(crate) fn is_pausing(&self, id: u8) -> bool {
        self.node(id).pausing
    }

    pub(crate) fn is_blocked(&self, id: u8) -> bool {
        self.node(id).line.is_blocked()
    }

    pub(crate) fn memory(&self) -> Bytes {
        self.world.memory
    }

    /// Whether the word names `exclusive` (0: no node) and has the bits of `shared`.
    #[track_caller]
    pub(crate) fn expect_word(&self, exclusive: u8, shared: &[u8]) {
        let mut word = match exclusive {
            0 => LatchWord::FREE,
            id => LatchWord::exclusively(node(id)),
        };
        for &id in shared {
            word = word.plus(LatchWord::shared_by(node(id)).bits());
        }
        assert_eq!(self.world.word, word);
    }

    /// The content of the frame of node `id`.
    pub(crate) fn bytes(&self, id: u8) -> Bytes {
        self.node(id).frame.bytes
    }

    /// The number of messages in flight.
    pub(crate) fn messages(&self) -> usize {
        self.world.wire.len()
    }
}
