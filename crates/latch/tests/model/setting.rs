//! A setting to explore: who does what to the line, under which rules; and its steps and properties
//! as a `stateright` model.

use latchwork_latch::{Hold, LatchWord, Line, Message, Rules, Want, WordOp};
use stateright::{Model, Property};

use crate::world::{Bytes, Fault, World};

/// What the local code of one node does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub(crate) id: u8,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) evicts: bool,
}

impl Client {
    const fn new(id: u8, reads: bool, writes: bool) -> Self {
        Client { id, reads, writes, evicts: true }
    }

    pub(crate) const fn reader(id: u8) -> Self {
        Client::new(id, true, false)
    }

    pub(crate) const fn writer(id: u8) -> Self {
        Client::new(id, false, true)
    }

    /// Reads and writes, and so upgrades.
    pub(crate) const fn both(id: u8) -> Self {
        Client::new(id, true, true)
    }

    pub(crate) const fn never_evicts(mut self) -> Self {
        self.evicts = false;
        self
    }
}

/// What is held against a discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    /// All properties.
    Everything,
    /// Only what a user would notice: stale copies, and a writer beside others.
    Data,
}

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) rules: Rules,
    pub(crate) clients: Vec<Client>,
    /// Without registered waits: the undo has landed before the question is sent.
    pub(crate) undo_before_question: bool,
    pub(crate) demand: Demand,
    pub(crate) escalates: bool,
}

/// The discipline, with numbers that keep the states finite.
///
/// One question number is enough, since no comparison of numbers ever decides: [`Fault::Unasked`] and
/// [`Fault::AskedTooEarly`] show that every answer that arrives belongs to the question that is out.
/// Of priorities only the order counts; two give all orders of two nodes.
pub(crate) const SMALL: Rules = Rules { seq_modulus: 1, priority_max: 1, ..Rules::DISCIPLINE };

impl Setting {
    pub(crate) fn new(clients: &[Client]) -> Self {
        Setting {
            rules: SMALL,
            clients: clients.to_vec(),
            undo_before_question: false,
            demand: Demand::Everything,
            escalates: true,
        }
    }

    pub(crate) fn first(&self) -> World {
        let ids: Vec<u8> = self.clients.iter().map(|client| client.id).collect();
        World::new(&ids)
    }

    /// Whether the step comes without anybody's free choice: it will be taken at some time.
    pub(crate) fn is_due(step: Step) -> bool {
        matches!(
            step,
            Step::Progress { .. } | Step::Deliver { .. } | Step::Retry { .. } | Step::Access { .. }
        )
    }

    pub(crate) fn steps(&self, world: &World, steps: &mut Vec<Step>) {
        if self.is_over(world) {
            return;
        }
        for (at, (node, client)) in world.nodes.iter().zip(&self.clients).enumerate() {
            let at = at as u8;
            steps.extend((0..node.flights.len() as u8).map(|flight| Step::Progress { at, flight }));
            if node.frame.reserved {
                steps.push(Step::Access { at });
            }
            if node.pausing {
                steps.push(Step::Retry { at });
            }
            if client.reads && node.wanted.is_none() && node.frame.hold == Hold::Nothing {
                steps.push(Step::Want { at, want: Want::Shared });
            }
            if client.writes
                && (if self.escalates { node.wanted != Some(Want::Exclusive) } else { node.wanted.is_none() })
                && node.frame.hold != Hold::Exclusive
            {
                steps.push(Step::Want { at, want: Want::Exclusive });
            }
            if client.evicts && node.line.is_at_rest() && node.frame.hold != Hold::Nothing {
                steps.push(Step::Evict { at });
            }
            if node.frame.hold == Hold::Exclusive {
                steps.push(Step::Write { at });
            }
        }
        for (packet, sent) in world.wire.iter().enumerate() {
            let again = packet > 0 && world.wire[packet - 1] == *sent;
            if !again && self.may_arrive(world, &sent.message) {
                steps.push(Step::Deliver { packet: packet as u16 });
            }
        }
    }

    fn may_arrive(&self, world: &World, message: &Message) -> bool {
        let Message::Request(request) = message else { return true };
        let sender = world.nodes.iter().find(|node| node.id == request.from);
        let undoing = sender.is_some_and(|node| node.flights.iter().any(|f| f.op == WordOp::Undo));
        !(self.undo_before_question && undoing)
    }

    pub(crate) fn take(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        let rules = &self.rules;
        match step {
            Step::Want { at, want } => next.want(rules, at.into(), want),
            Step::Evict { at } => next.evict(rules, at.into()),
            Step::Retry { at } => next.retry(rules, at.into()),
            Step::Access { at } => next.access(rules, at.into()),
            Step::Write { at } => next.write(at.into()),
            Step::Progress { at, flight } => next.progress(rules, at.into(), flight.into()),
            Step::Deliver { packet } => next.deliver(rules, packet.into()),
        }
        (next != *world).then_some(next)
    }

    fn is_over(&self, world: &World) -> bool {
        match self.demand {
            Demand::Everything => world.fault.is_some(),
            Demand::Data => matches!(world.fault, Some(Fault::Panicked(_))),
        }
    }
}

/// One step of the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    Want { at: u8, want: Want },
    Evict { at: u8 },
    Retry { at: u8 },
    Access { at: u8 },
    Write { at: u8 },
    Progress { at: u8, flight: u8 },
    Deliver { packet: u16 },
}

impl Model for Setting {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![self.first()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        self.steps(world, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        self.take(world, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("no stale copy", |_, world: &World| no_stale_copy(world)),
            Property::always("one writer or many readers", |_, world| one_writer_or_readers(world)),
        ];
        if self.demand == Demand::Everything {
            properties.extend([
                Property::always("no fault", |_, world: &World| world.fault.is_none()),
                Property::always("the word is true", |_, world| word_is_true(world)),
                Property::always("rest is rest", |_, world| rest_is_rest(world)),
                Property::always("machine and frame agree", |_, world| frames_agree(world)),
            ]);
        }
        properties
    }
}

/// Whoever may read, reads the last write.
fn no_stale_copy(world: &World) -> bool {
    let stale = |frame: crate::world::Frame| frame.hold != Hold::Nothing && frame.bytes == Bytes::Stale;
    !world.nodes.iter().any(|node| stale(node.frame))
}

fn one_writer_or_readers(world: &World) -> bool {
    let holding = |least| world.nodes.iter().filter(|node| node.frame.hold >= least).count();
    holding(Hold::Exclusive) == 0 || holding(Hold::Shared) == 1
}

/// The word names only nodes that exist, and says of every node at rest what that node holds.
fn word_is_true(world: &World) -> bool {
    let exclusive = world.word.bits() >> 58;
    let known = |id: u64| world.nodes.iter().any(|node| u64::from(node.id.get()) == id);
    (exclusive == 0 || known(exclusive))
        && world.word.shared().iter().all(|id| known(id.get().into()))
        && world.nodes.iter().filter(|node| node.line.is_at_rest()).all(|node| {
            let owner = world.word.exclusive();
            let bit = world.word.shared().contains(node.id);
            match node.line.hold() {
                Hold::Nothing => owner != Some(node.id) && !bit,
                Hold::Shared => owner.is_none() && bit,
                Hold::Exclusive => owner == Some(node.id) && !bit,
            }
        })
}

/// A machine at rest can be forgotten and made anew.
fn rest_is_rest(world: &World) -> bool {
    world.nodes.iter().all(|node| {
        let line = &node.line;
        !line.is_at_rest()
            || (*line == Line::at_rest(node.id, line.hold(), line.seq()) && node.flights.is_empty())
    })
}

fn frames_agree(world: &World) -> bool {
    world.nodes.iter().all(|node| {
        node.line.hold() == node.frame.hold && node.line.is_wanted() == node.wanted.is_some()
    })
}

/// The word of a line that nobody holds.
pub(crate) const FREE: LatchWord = LatchWord::FREE;
