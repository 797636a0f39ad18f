//! [`World`]: a state of the model.

use latchwork_directory::{
    Action, Bytes, Era, Event, Hold, Home, Line, Message, Party, ReaderTakes, Reply, Rules, Sent,
    Want,
};
use latchwork_verbs::ComputeNodeId;

use crate::node::{Content, Copy, Frame, Node};

/// A message in flight, with the bytes that arrive before it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Packet {
    pub(crate) from: Party,
    pub(crate) to: Party,
    /// The content of the line, if it travels.
    pub(crate) content: Option<Content>,
    /// The receiver gets the duty to write the changes back.
    pub(crate) dirty: bool,
    pub(crate) message: Message,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) home: Home,
    /// The home's memory.
    pub(crate) memory: Content,
    pub(crate) nodes: Vec<Node>,
    /// Sorted: a message in flight may overtake all others.
    pub(crate) wire: Vec<Packet>,
    /// The nodes that wait for the end of a back-off.
    pub(crate) pausing: u8,
    /// Local code could use bytes that lack a write.
    pub(crate) stale: bool,
    /// The node that has died.
    pub(crate) dead: Option<usize>,
    /// The places of the nodes that know of the death; the place behind the last node is the home.
    pub(crate) knows: u8,
    /// The dead node had the line exclusively or its changes, or was about to get them.
    pub(crate) owned: bool,
}

pub(crate) fn id(at: usize) -> ComputeNodeId {
    ComputeNodeId::new(at as u8 + 1).expect("few nodes")
}

/// A node without a copy.
fn fresh(at: usize) -> Node {
    let frame = Frame {
        hold: Hold::Nothing,
        content: Content::Stale,
        dirty: false,
        reserved: false,
        locked: None,
    };
    Node { line: Line::at_rest(id(at), Hold::Nothing, Era::default(), 0), frame, wanted: None }
}

impl World {
    pub(crate) fn new(nodes: usize) -> World {
        World {
            home: Home::default(),
            memory: Content::Latest,
            nodes: (0..nodes).map(fresh).collect(),
            wire: Vec::new(),
            pausing: 0,
            stale: false,
            dead: None,
            knows: 0,
            owned: false,
        }
    }

    /// The node dies. Its messages may still arrive.
    pub(crate) fn die(&mut self, rules: &Rules, at: usize) {
        let Node { frame, wanted, .. } = &self.nodes[at];
        let moves = rules.reader_takes == ReaderTakes::Move && wanted.is_some();
        self.owned = self.home.source() == Some(id(at))
            || moves
            || *wanted == Some(Want::Exclusive)
            || frame.hold == Hold::Exclusive
            || frame.dirty
            || self.nodes.iter().any(|node| node.line.awaits(id(at)))
            || self.wire.iter().any(|packet| {
                let from_here = packet.from == Party::Node(id(at));
                let to_here = packet.to == Party::Node(id(at));
                let names = matches!(
                    packet.message,
                    Message::Reply(Reply { holder: Some((holder, ..)), .. }) if holder == id(at)
                );
                let gives = matches!(
                    packet.message,
                    Message::Evict { .. } | Message::Line { mode: Want::Exclusive, .. }
                );
                from_here && (packet.dirty || gives)
                    || names
                    || to_here && matches!(packet.message, Message::Evicted { accepted: false })
            });
        self.dead = Some(at);
        let unsent = |world: &World, packet: &Packet| {
            packet.from == Party::Node(id(at)) && world.defers(packet)
        };
        let sent: Vec<_> = self.wire.iter().filter(|p| !unsent(self, p)).cloned().collect();
        self.wire = sent;
        self.wire.retain(|packet| packet.to != Party::Node(id(at)));
        self.pausing &= !(1 << at);
        self.nodes[at] = fresh(at);
    }

    /// The place learns of the death: no message of the dead node arrives there from here on.
    pub(crate) fn learn(&mut self, rules: &Rules, place: usize, no_wait: bool) {
        let Some(dead) = self.dead else { return };
        self.knows |= 1 << place;
        let to = if place == self.nodes.len() { Party::Home } else { Party::Node(id(place)) };
        self.wire.retain(|packet| packet.from != Party::Node(id(dead)) || packet.to != to);
        if to == Party::Home {
            let mut out = Vec::new();
            self.home.died(rules, id(dead), &mut out);
            self.answer(out);
        } else {
            self.event(rules, place, Event::Dead(id(dead)), no_wait);
        }
    }

    fn answer(&mut self, out: Vec<Sent>) {
        for sent in out {
            self.send(Party::Home, sent);
        }
        if self.home.is_absent() {
            self.home = Home::default();
        }
    }

    /// Whether this packet is not sent yet, or its receiver does not act on it yet.
    pub(crate) fn defers(&self, packet: &Packet) -> bool {
        let before = |other: &Packet| match packet.message {
            // A holder reports to the home when the line has arrived.
            Message::Done { .. } => {
                other.from == packet.from && matches!(other.message, Message::Line { .. })
            }
            Message::Rebase { .. } => other.from == packet.to && other.content.is_some(),
            _ => false,
        };
        match (&packet.message, packet.to) {
            (Message::Done { .. }, Party::Home) | (Message::Rebase { .. }, _) => {
                self.wire.iter().any(before)
            }
            (Message::Settle { .. }, Party::Node(node)) => self.knows & 1 << node.index() == 0,
            _ => false,
        }
    }

    /// An event at a node.
    pub(crate) fn event(&mut self, rules: &Rules, at: usize, event: Event, no_wait: bool) {
        let Node { line, frame, wanted } = &mut self.nodes[at];
        let mut copy = Copy { frame, wanted, no_wait, stale: false };
        let mut out = Vec::new();
        line.step(rules, event, &mut copy, &mut out);
        self.stale |= copy.stale;
        for action in out {
            match action {
                Action::Send(sent) => self.send(Party::Node(id(at)), sent),
                Action::Pause => self.pausing |= 1 << at,
                Action::Fail(_) => self.nodes[at].wanted = None,
            }
        }
        let Node { line, frame, .. } = &mut self.nodes[at];
        assert_eq!(line.hold(), frame.hold, "machine and frame differ");
        if line.is_at_rest() {
            // A machine at rest is dropped, and made anew from what the frame keeps.
            let (era, served) = line.tenure();
            *line = match line.hold() {
                Hold::Nothing => Line::at_rest(id(at), Hold::Nothing, Era::default(), 0),
                hold => Line::at_rest(id(at), hold, era, served),
            };
        }
    }

    fn send(&mut self, from: Party, sent: Sent) {
        let Sent { to, bytes, message } = sent;
        let (mut content, mut dirty) = (None, false);
        match from {
            Party::Home => content = matches!(bytes, Bytes::Line { .. }).then_some(self.memory),
            Party::Node(node) => {
                let frame = &mut self.nodes[node.index()].frame;
                match bytes {
                    Bytes::Line { .. } => content = Some(frame.content),
                    Bytes::Changes if std::mem::take(&mut frame.dirty) => {
                        content = Some(frame.content);
                    }
                    Bytes::Changes | Bytes::Nothing => {}
                }
                // With the end of a tenure goes the duty to write back.
                if frame.hold == Hold::Nothing && matches!(to, Party::Node(_)) {
                    dirty = matches!(message, Message::Line { .. } | Message::Done { .. })
                        && std::mem::take(&mut frame.dirty);
                }
            }
        }
        if self.dead.is_some_and(|dead| to == Party::Node(id(dead))) {
            return;
        }
        let packet = Packet { from, to, content, dirty, message };
        let place = self.wire.partition_point(|other| *other < packet);
        self.wire.insert(place, packet);
    }

    /// The packet `at` arrives.
    pub(crate) fn deliver(&mut self, rules: &Rules, at: usize, no_wait: impl Fn(usize) -> bool) {
        let Packet { from, to, content, dirty, message } = self.wire.remove(at);
        match to {
            Party::Home => {
                self.memory = content.unwrap_or(self.memory);
                let Party::Node(from) = from else { unreachable!("the home sent it") };
                let mut out = Vec::new();
                self.home.step(rules, from, message, &mut out);
                self.answer(out);
            }
            Party::Node(node) => {
                let frame = &mut self.nodes[node.index()].frame;
                frame.content = content.unwrap_or(frame.content);
                frame.dirty |= dirty;
                let (at, no_wait) = (node.index(), no_wait(node.index()));
                let is_void = |to: ComputeNodeId| {
                    self.dead.is_some_and(|dead| id(dead) == to) && self.knows & 1 << at != 0
                };
                let event = match message {
                    Message::Directive(directive) if is_void(directive.to) => {
                        Event::Ignored(directive)
                    }
                    message => Event::Received(from, message),
                };
                self.event(rules, at, event, no_wait);
            }
        }
    }

    /// Removes the messages about locks that come too late. They would end an access that does not
    /// wait for locks, as [`Step::FalseAlarm`](crate::setting::Step::FalseAlarm) does at any time.
    pub(crate) fn forget_late_alarms(&mut self) {
        let World { nodes, wire, home, .. } = self;
        wire.retain(|packet| match (&packet.message, packet.to) {
            (Message::Busy { era }, Party::Home) => home.heeds(*era),
            (Message::Busy { era }, Party::Node(node)) => nodes[node.index()].line.heeds(*era),
            _ => true,
        });
        wire.dedup_by(|one, other| one == other && matches!(one.message, Message::Busy { .. }));
    }

    /// Local code writes its copy: all other copies lack this write.
    pub(crate) fn write(&mut self, at: usize) {
        self.memory = Content::Stale;
        for packet in &mut self.wire {
            packet.content = packet.content.map(|_| Content::Stale);
        }
        self.wire.sort_unstable();
        for (other, node) in self.nodes.iter_mut().enumerate() {
            node.frame.content = if other == at { Content::Latest } else { Content::Stale };
        }
        self.nodes[at].frame.dirty = true;
    }

    /// Nothing is in flight, and no local code waits or is about to use the line.
    pub(crate) fn is_quiet(&self) -> bool {
        let at_rest =
            |node: &Node| node.line.is_at_rest() && !node.frame.reserved && node.wanted.is_none();
        let known = self.dead.is_none() || self.knows.count_ones() as usize == self.nodes.len();
        self.wire.is_empty() && self.pausing == 0 && known && self.nodes.iter().all(at_rest)
    }

    /// The home names exactly the nodes that hold the line, and knows where its bytes are.
    pub(crate) fn agrees(&self) -> bool {
        self.nodes.iter().enumerate().all(|(at, node)| {
            let named = match (self.home.exclusive() == Some(id(at)), self.home.shared()) {
                (true, _) => Hold::Exclusive,
                (false, shared) if shared.contains(id(at)) => Hold::Shared,
                _ => Hold::Nothing,
            };
            if self.dead == Some(at) {
                return named == Hold::Nothing;
            }
            let has_changes = node.frame.dirty && node.frame.hold != Hold::Nothing;
            named == node.frame.hold && (!has_changes || self.home.source() == Some(id(at)))
        })
    }

    /// A wish of a node for the line; `None` when the node already waits for as much.
    pub(crate) fn want(&mut self, rules: &Rules, at: usize, want: Want, no_wait: bool) -> bool {
        let node = &mut self.nodes[at];
        if node.wanted >= Some(want) || node.frame.reserved {
            return false;
        }
        let met = match want {
            Want::Shared => node.frame.hold >= Hold::Shared,
            Want::Exclusive => node.frame.hold == Hold::Exclusive,
        };
        if met {
            node.frame.reserved = true;
        } else {
            node.wanted = Some(want);
            self.event(rules, at, Event::Want(want), no_wait);
        }
        true
    }
}
