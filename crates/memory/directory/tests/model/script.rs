//! [`Run`]: one run of a world, step by step.

use latchwork_directory::{Directive, Event, Hold, Kind, Message, Party, Rules, Want};
use stateright::Model;

use crate::setting::{Client, Setting, Step};
use crate::world::{Packet, World, id};

pub(crate) struct Run {
    setting: Setting,
    pub(crate) world: World,
    /// The steps so far, each with the world before it.
    pub(crate) past: Vec<(World, Step)>,
}

impl Run {
    /// Nodes that do all that a node can do.
    pub(crate) fn new(rules: Rules, nodes: usize) -> Run {
        Run::of(rules, &vec![Client::both().locking(); nodes])
    }

    pub(crate) fn of(rules: Rules, clients: &[Client]) -> Run {
        let setting = Setting::new(rules, clients);
        Run { setting, world: World::new(clients.len()), past: Vec::new() }
    }

    /// Takes a step, after which all properties hold.
    pub(crate) fn step(&mut self, step: Step) {
        let next = self.setting.next_state(&self.world, step);
        let next = next.unwrap_or_else(|| panic!("{step:?} does nothing in {:?}", self.world));
        self.past.push((std::mem::replace(&mut self.world, next), step));
        for property in self.setting.properties() {
            assert!((property.condition)(&self.setting, &self.world), "{}", property.name);
        }
    }

    pub(crate) fn read(&mut self, node: usize) {
        self.step(Step::Want(node, Want::Shared));
    }

    pub(crate) fn write(&mut self, node: usize) {
        self.step(Step::Want(node, Want::Exclusive));
    }

    /// The one packet that fits arrives.
    pub(crate) fn deliver(&mut self, fits: impl Fn(&Packet) -> bool) {
        let found: Vec<_> =
            (0..self.world.wire.len()).filter(|&at| fits(&self.world.wire[at])).collect();
        assert_eq!(found.len(), 1, "{found:?} of {:#?}", self.world.wire);
        self.step(Step::Deliver(found[0]));
    }

    /// The node's one message to the home arrives.
    pub(crate) fn at_home(&mut self, from: usize) {
        self.deliver(|packet| (packet.from, packet.to) == (Party::Node(id(from)), Party::Home));
    }

    /// The home's one message to the node arrives.
    pub(crate) fn home_answers(&mut self, to: usize) {
        self.deliver(|packet| (packet.from, packet.to) == (Party::Home, Party::Node(id(to))));
    }

    /// The directive to the node arrives.
    pub(crate) fn directive(&mut self, to: usize, kind: Kind) {
        self.deliver(|packet| {
            let is = matches!(packet.message, Message::Directive(Directive { kind: k, .. }) if k == kind);
            is && packet.to == Party::Node(id(to))
        });
    }

    /// The node's request does not reach the home, and the node knows it.
    pub(crate) fn is_unsent(&mut self, from: usize) {
        let is_request = |packet: &Packet| {
            packet.from == Party::Node(id(from)) && matches!(packet.message, Message::Request(_))
        };
        let before = self.world.wire.len();
        self.world.wire.retain(|packet| !is_request(packet));
        assert_eq!(self.world.wire.len() + 1, before, "one request");
        self.world.nodes[from].wanted = None;
        self.world.event(&self.setting.rules, from, Event::Unsent, false);
    }

    /// The line arrives at the node.
    pub(crate) fn line(&mut self, to: usize) {
        self.deliver(|packet| {
            matches!(packet.message, Message::Line { .. }) && packet.to == Party::Node(id(to))
        });
    }

    /// All messages arrive in some order, and all reserved copies are used, until nothing is left.
    pub(crate) fn settle(&mut self) {
        self.settle_but(&[]);
    }

    /// Like [`settle`](Run::settle), but messages from and to these nodes stay in flight.
    pub(crate) fn settle_but(&mut self, late: &[usize]) {
        loop {
            let mut steps = Vec::new();
            self.setting.actions(&self.world, &mut steps);
            let is_late = |party| late.iter().any(|node| party == Party::Node(id(*node)));
            let due = |step: &Step| match *step {
                Step::Deliver(at) => {
                    let Packet { from, to, .. } = self.world.wire[at];
                    !is_late(from) && !is_late(to)
                }
                Step::Use(_) | Step::Retry(_) => true,
                _ => false,
            };
            let Some(step) = steps.into_iter().find(due) else { return };
            self.step(step);
        }
    }

    pub(crate) fn holds(&self) -> Vec<Hold> {
        self.world.nodes.iter().map(|node| node.frame.hold).collect()
    }

    /// The number of messages from here until nothing is in flight.
    pub(crate) fn messages(&mut self) -> usize {
        let before = self.past.len();
        self.settle();
        assert!(self.world.is_quiet());
        let arrives = |(_, step): &&(World, Step)| matches!(step, Step::Deliver(_));
        self.past[before..].iter().filter(arrives).count()
    }
}
