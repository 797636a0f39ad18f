//! A setting to explore: the clients and the rules. Its steps and its properties are a `stateright`
//! model.

use latchwork_latch::{
    Action, Event, Hold, InvalidationRequest, LatchMessage, Line, LocalCopy, RequestKind, Rules,
    Want, WordOp,
};
use latchwork_verbs::ComputeNodeId;
use stateright::{Model, Property};

use crate::client::Client;
use crate::frame::Frame;
use crate::questions::questions_are_one;
use crate::recovery::Stride;
use crate::round::Recovery;
use crate::symmetry;
use crate::world::{Breach, Fault, Node, Stage, World};

/// The properties that a discipline must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Demand {
    /// All properties.
    Everything,
    /// Only the faults that a user would notice: stale copies, and a writer beside other owners.
    Data,
}

/// The clients and their rules.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) rules: Rules,
    pub(crate) clients: Vec<Client>,
    /// For rules by which refused readers undo: the undo has landed before the request is sent.
    pub(crate) undo_before_question: bool,
    pub(crate) demand: Demand,
    /// Nodes within a group can exchange ids, and one world stands for all that result.
    pub(crate) groups: Vec<Vec<ComputeNodeId>>,
    /// The connection fails during this many operations, at any point.
    pub(crate) failures: u8,
    /// An operation whose connection failed is repeated without a probe of the word.
    pub(crate) blind: bool,
    /// The wrong behaviour of the nodes.
    pub(crate) breach: Option<Breach>,
    /// This many of the nodes that may die do die.
    pub(crate) deaths: u8,
    /// The living nodes recover the line of the one node that may die.
    pub(crate) recovers: bool,
}

/// One step of the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    Want { at: u8, want: Want },
    Reserve { at: u8 },
    Access { at: u8 },
    Write { at: u8 },
    Lock { at: u8, want: Want },
    Unlock { at: u8 },
    Evict { at: u8 },
    Persist { at: u8 },
    Retry { at: u8 },
    Progress { at: u8, flight: u8 },
    Fail { at: u8, flight: u8 },
    Die { at: u8, lost: bool },
    Refuse { packet: u16 },
    Deliver { packet: u16 },
    Renege { at: u8 },
    Recover(Stride),
}

impl Setting {
    /// The discipline, with numbers that keep the states finite.
    ///
    /// One request number is enough, because no comparison of numbers ever decides. The properties
    /// ([`Fault::Unasked`], [`Fault::AskedTooEarly`]) state that every answer belongs to the one
    /// open request.
    pub(crate) fn discipline(clients: &[Client], priority_max: u8) -> Self {
        let rules = Rules { seq_modulus: 1, priority_max, starved_at: 1, ..Rules::DISCIPLINE };
        Setting {
            rules,
            clients: clients.to_vec(),
            undo_before_question: false,
            demand: Demand::Everything,
            groups: Vec::new(),
            failures: 0,
            blind: false,
            breach: None,
            deaths: 0,
            recovers: false,
        }
    }

    /// Shared lines are taken over by pledge.
    pub(crate) fn with_takeover(mut self) -> Self {
        self.rules.takeover = true;
        self
    }

    /// Treats worlds as one that differ only by the ids of clients with the same behaviour.
    pub(crate) fn up_to_names(mut self) -> Self {
        self.groups = symmetry::groups(&self.clients);
        self
    }

    /// No request travels with a grant: all requests are sent on after the hand-over.
    pub(crate) fn passing_on(mut self) -> Self {
        self.rules.travelling_max = 0;
        self
    }

    /// With this many operations whose connection fails.
    pub(crate) fn failing(mut self, failures: u8) -> Self {
        self.failures = failures;
        self
    }

    /// This many of the nodes that may die do die, at any time.
    pub(crate) fn dying(mut self, deaths: u8) -> Self {
        self.deaths = deaths;
        self
    }

    /// The mortal client dies at any time, and the others recover.
    pub(crate) fn recovering(mut self) -> Self {
        self.rules.survive = true;
        self.recovers = true;
        self.dying(1)
    }

    /// The world before the first step.
    pub(crate) fn first(&self) -> World {
        let &Setting { failures, blind, breach, deaths, .. } = self;
        let mut world = World::new(self.clients.iter().map(|client| client.id));
        for (node, client) in world.nodes.iter_mut().zip(&self.clients) {
            node.no_wait = client.no_wait;
        }
        let mortal = self.clients.iter().filter(|client| client.mortal && self.recovers);
        let recovery = mortal.map(|client| Recovery::of(client.id)).next();
        World { failures, blind, breach, deaths, recovery, ..world }
    }

    /// Whether a world can be spoilt later than at a death: a living node requests the line from a
    /// dead owner to read, or gets a request of a dead writer. If only readers die, a world is
    /// spoilt at the death or never. Then, in every world that is not spoilt, all wants of living
    /// nodes can be met or given up.
    pub(crate) fn may_be_spoilt_by_the_living(&self) -> bool {
        self.clients.iter().any(|client| client.mortal && client.writes)
    }

    /// Whether the step is due: it is taken at some time, without a choice of local code.
    pub(crate) fn is_due(&self, step: Step) -> bool {
        match step {
            Step::Progress { .. } | Step::Deliver { .. } | Step::Refuse { .. } => true,
            Step::Retry { .. } | Step::Access { .. } | Step::Unlock { .. } => true,
            // Without invalidations, the engine releases lines that no local code uses.
            Step::Evict { .. } => !self.rules.invalidate,
            Step::Want { .. } | Step::Reserve { .. } | Step::Write { .. } => false,
            Step::Fail { .. } | Step::Renege { .. } | Step::Lock { .. } => false,
            Step::Die { .. } | Step::Persist { .. } => false,
            Step::Recover(_) => true,
        }
    }

    /// The steps that are possible.
    pub(crate) fn steps(&self, world: &World, steps: &mut Vec<Step>) {
        if self.is_over(world) {
            return;
        }
        for (at, (node, client)) in world.nodes.iter().zip(&self.clients).enumerate() {
            let at = at as u8;
            steps.extend((0..node.flights.len() as u8).map(|flight| Step::Progress { at, flight }));
            if node.dead {
                continue;
            }
            if client.mortal && world.deaths > 0 {
                // With recovery, each message may be lost by itself.
                let lost = [false, true].into_iter().filter(|lost| !(*lost && self.recovers));
                steps.extend(lost.map(|lost| Step::Die { at, lost }));
            }
            if world.failures > 0 {
                let whole =
                    |flight: &u8| node.flights[usize::from(*flight)].stage != Stage::Inspect;
                let flights = (0..node.flights.len() as u8).filter(whole);
                steps.extend(flights.map(|flight| Step::Fail { at, flight }));
            }
            let Frame { hold, reserved, locked, .. } = node.frame;
            if reserved {
                steps.push(Step::Access { at });
            } else if hold != Hold::Nothing {
                steps.push(Step::Reserve { at });
            }
            if hold == Hold::Exclusive {
                steps.push(Step::Write { at });
            }
            if locked.is_some() {
                steps.push(Step::Unlock { at });
            }
            if client.locks && client.reads && locked.is_none() && hold != Hold::Nothing {
                steps.push(Step::Lock { at, want: Want::Shared });
            }
            if client.locks
                && client.writes
                && locked != Some(Want::Exclusive)
                && hold == Hold::Exclusive
            {
                steps.push(Step::Lock { at, want: Want::Exclusive });
            }
            let changed = node.frame.dirty || !self.recovers;
            if client.persists && changed && node.line.can_persist() {
                steps.push(Step::Persist { at });
            }
            if node.pausing {
                steps.push(Step::Retry { at });
            }
            let reneges =
                matches!(self.breach, Some(Breach::Acknowledges | Breach::ReleasesItself));
            if reneges && node.line.is_pledged() && node.flights.is_empty() {
                steps.push(Step::Renege { at });
            }
            if client.reads && node.wanted.is_none() && hold == Hold::Nothing {
                steps.push(Step::Want { at, want: Want::Shared });
            }
            let may_ask =
                node.wanted.is_none() || (client.escalates && node.wanted == Some(Want::Shared));
            if client.writes && may_ask && hold != Hold::Exclusive {
                steps.push(Step::Want { at, want: Want::Exclusive });
            }
            if client.evicts && hold != Hold::Nothing && node.line.is_at_rest() {
                steps.push(Step::Evict { at });
            }
        }
        steps.extend(world.strides().map(Step::Recover));
        for (packet, sent) in world.wire.iter().enumerate() {
            let same = packet > 0 && world.wire[packet - 1] == *sent;
            let packet = packet as u16;
            if !same && world.is_dead(sent.to) {
                steps.push(Step::Refuse { packet });
            } else if !same && self.may_arrive(world, &sent.message) {
                steps.push(Step::Deliver { packet });
            }
        }
    }

    fn may_arrive(&self, world: &World, message: &LatchMessage) -> bool {
        let LatchMessage::Request(request) = message else { return true };
        let mut senders = world.nodes.iter().filter(|node| node.id == request.from);
        let undoes = senders.any(|node| node.flights.iter().any(|f| f.op == WordOp::Undo));
        !(self.undo_before_question && undoes)
    }

    /// The world after a step; `None` when the step changes nothing.
    pub(crate) fn take(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        let rules = &self.rules;
        match step {
            Step::Want { at, want } => next.want(rules, at.into(), want),
            Step::Reserve { at } => next.reserve(at.into()),
            Step::Access { at } => next.access(rules, at.into()),
            Step::Write { at } => next.write(at.into()),
            Step::Lock { at, want } => next.lock(rules, at.into(), want),
            Step::Unlock { at } => next.unlock(at.into()),
            Step::Evict { at } => next.evict(rules, at.into()),
            Step::Persist { at } => next.persist(rules, at.into()),
            Step::Retry { at } => next.retry(rules, at.into()),
            Step::Fail { at, flight } => next.fail(at.into(), flight.into()),
            Step::Die { at, lost } => next.die(at.into(), lost),
            Step::Refuse { packet } => next.refuse(rules, packet.into()),
            Step::Progress { at, flight } => next.progress(rules, at.into(), flight.into()),
            Step::Deliver { packet } => next.deliver(rules, packet.into()),
            Step::Renege { at } => next.renege(rules, at.into()),
            Step::Recover(stride) => next.stride(rules, stride),
        }
        next.settle_recovery();
        (next != *world).then(|| symmetry::representative(next, &self.groups))
    }

    fn is_over(&self, world: &World) -> bool {
        match self.demand {
            Demand::Everything => world.fault.is_some(),
            Demand::Data => {
                matches!(world.fault, Some(Fault::Panicked(_) | Fault::OutOfRoom(_)))
            }
        }
    }
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
            Property::always("one writer or many readers", |_, world| writer_or_readers(world)),
            Property::always("locks exclude each other", |_, world| locks_exclude(world)),
            Property::always("a locked line stays", |_, world| locked_lines_stay(world)),
        ];
        if self.demand == Demand::Everything {
            properties.extend([
                Property::always("no fault", |_, world: &World| world.fault.is_none()),
                Property::always("the word is true", |_, world| word_is_true(world)),
                Property::always("each question is one", |_, world| questions_are_one(world)),
                Property::always("nobody waits for a lock", |_, world| {
                    no_request_waits_for_lock(world)
                }),
                Property::always("rest is rest", |_, world| rest_is_rest(world)),
                Property::always("machine and frame agree", |_, world| frames_agree(world)),
                Property::always("nothing is put off", nothing_is_put_off),
                Property::always("memory has what the holder got", |_, world: &World| {
                    world.memory_has_what_the_holder_got()
                }),
                Property::always("nothing of the dead is left", |_, world: &World| {
                    world.nothing_of_the_dead_is_left()
                }),
            ]);
        }
        properties
    }
}

/// Every node that may read has the last write. After a death: all that living nodes have read or
/// written.
fn no_stale_copy(world: &World) -> bool {
    let mut frames = world.nodes.iter().map(|node| node.frame);
    frames.all(|frame| frame.hold == Hold::Nothing || frame.bytes >= world.least())
}

fn writer_or_readers(world: &World) -> bool {
    let holding = |least| world.nodes.iter().filter(|node| node.frame.hold >= least).count();
    holding(Hold::Exclusive) == 0 || holding(Hold::Shared) == 1
}

/// Many locks to read, or one to write.
fn locks_exclude(world: &World) -> bool {
    let locks = || world.nodes.iter().filter_map(|node| node.frame.locked);
    locks().all(|lock| lock == Want::Shared) || locks().count() == 1
}

fn locked_lines_stay(world: &World) -> bool {
    world.nodes.iter().all(|Node { frame, .. }| match frame.locked {
        None => true,
        Some(Want::Shared) => frame.hold >= Hold::Shared,
        Some(Want::Exclusive) => frame.hold == Hold::Exclusive,
    })
}

/// A node that has locked the line queues no request that would have to wait for the unlock.
fn no_request_waits_for_lock(world: &World) -> bool {
    world.nodes.iter().all(|node| {
        let stands_back = |request: &InvalidationRequest| match node.frame.locked {
            None => false,
            Some(Want::Shared) => request.kind == RequestKind::Write,
            Some(Want::Exclusive) => true,
        };
        !node.line.remembered().iter().any(stands_back)
    })
}

/// The word names only nodes that exist, and states the ownership of every node at rest.
fn word_is_true(world: &World) -> bool {
    const SHARED_BITS: u32 = 58;
    let exclusive = world.word.bits() >> SHARED_BITS;
    let known = |id: u64| world.nodes.iter().any(|node| u64::from(node.id.get()) == id);
    (exclusive == 0 || known(exclusive))
        && world.word.shared().iter().all(|id| known(id.get().into()))
        && world.nodes.iter().filter(|node| node.line.is_at_rest() && !node.dead).all(|node| {
            let owner = world.word.exclusive();
            let bit = world.word.shared().contains(node.id);
            match node.line.hold() {
                Hold::Nothing => owner != Some(node.id) && !bit,
                Hold::Shared => owner.is_none() && bit,
                Hold::Exclusive => owner == Some(node.id) && !bit,
            }
        })
}

/// A machine at rest can be dropped and made again. An idle machine can lose its frame as well.
fn rest_is_rest(world: &World) -> bool {
    world.nodes.iter().all(|node| {
        let line = &node.line;
        let fresh = || *line == Line::at_rest(node.id, line.hold(), line.seq());
        // A line in a hold-off differs from a line at rest only in that hold-off.
        let stands_back = || line.stands_back() && !line.has_requests() && node.pausing;
        let alone = || node.dead || (node.flights.is_empty() && node.awaited == 0);
        !(line.is_at_rest() || line.is_idle()) || ((fresh() || stands_back()) && alone())
    })
}

fn frames_agree(world: &World) -> bool {
    world.nodes.iter().all(|node| {
        // The registered wait of a reader that did not wait for a lock continues to its end.
        let forgone = node.no_wait && node.wanted.is_none() && node.frame.hold == Hold::Nothing;
        let wanted = node.line.is_wanted();
        node.line.hold() == node.frame.hold && (wanted == node.wanted.is_some() || forgone)
    })
}

/// A machine has taken all steps that it can take: another call changes nothing, unless local code
/// has stopped using the copy. So the engine need not call the machine for any other reason.
fn nothing_is_put_off(setting: &Setting, world: &World) -> bool {
    /// A copy that does what the machine demands, or that local code is using.
    struct Any(bool, u8, Option<Want>);
    impl LocalCopy for Any {
        fn starved(&self) -> u8 {
            self.1
        }
        fn locked(&self) -> Option<Want> {
            self.2
        }
        fn publish(&mut self, _: Hold) {}
        fn promote(&mut self) {}
        fn restore(&mut self) {}
        fn lose(&mut self) {}
        fn try_suspend(&mut self) -> bool {
            self.0
        }
        fn try_invalidate(&mut self) -> bool {
            self.0
        }
        fn try_demote(&mut self) -> bool {
            self.0
        }
    }
    world.nodes.iter().enumerate().all(|(at, node)| {
        let mut line = node.line.clone();
        let mut out: Vec<Action> = Vec::new();
        line.step(
            &world.rules_of(&setting.rules, at),
            Event::Serve,
            &mut Any(!node.frame.reserved, node.frame.starved, node.frame.locked),
            &mut out,
        );
        line == node.line && out.is_empty()
    })
}
