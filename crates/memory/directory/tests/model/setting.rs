//! [`Setting`]: the clients and the rules of a model; its steps and its properties.

use latchwork_directory::{Era, Event, Hold, Message, Party, Rules, Want};
use stateright::{Model, Property};

use crate::world::World;

/// The behaviour of the local code of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// Evicts the line at any time.
    pub(crate) evicts: bool,
    /// Drops accesses that wait.
    pub(crate) drops: bool,
    /// Locks a copy that it has, for any time.
    pub(crate) locks: bool,
    /// Does not wait for locks of other nodes.
    pub(crate) no_wait: bool,
    /// May die.
    pub(crate) mortal: bool,
}

impl Client {
    const fn new(reads: bool, writes: bool) -> Client {
        Client {
            reads,
            writes,
            evicts: true,
            drops: false,
            locks: false,
            no_wait: false,
            mortal: false,
        }
    }

    pub(crate) const fn reader() -> Client {
        Client::new(true, false)
    }

    pub(crate) const fn writer() -> Client {
        Client::new(false, true)
    }

    pub(crate) const fn both() -> Client {
        Client::new(true, true)
    }

    pub(crate) const fn keeping(self) -> Client {
        Client { evicts: false, ..self }
    }

    pub(crate) const fn dropping(self) -> Client {
        Client { drops: true, ..self }
    }

    pub(crate) const fn locking(self) -> Client {
        Client { locks: true, ..self }
    }

    pub(crate) const fn mortal(self) -> Client {
        Client { mortal: true, ..self }
    }

    pub(crate) const fn no_wait(self) -> Client {
        Client { no_wait: true, ..self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) rules: Rules,
    pub(crate) clients: Vec<Client>,
}

/// A step of the world. Nodes and packets by their places.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    Deliver(usize),
    Use(usize),
    Want(usize, Want),
    Drop(usize),
    Evict(usize),
    Retry(usize),
    Lock(usize, Want),
    Unlock(usize),
    /// A message about a lock comes late, when another request of the node is open.
    FalseAlarm(usize),
    Die(usize),
    /// A node, or behind the nodes the home, learns of the death.
    Learn(usize),
}

impl Setting {
    pub(crate) fn new(rules: Rules, clients: &[Client]) -> Setting {
        let nodes = clients.len() as u16;
        let mortal = clients.iter().any(|client| client.mortal);
        let modulus = if mortal { 2 * nodes + 5 } else { nodes + 2 };
        Setting { rules: Rules { modulus, ..rules }, clients: clients.to_vec() }
    }

    /// Whether the step happens in the end, without a decision of local code.
    pub(crate) fn is_due(step: Step) -> bool {
        matches!(
            step,
            Step::Deliver(_) | Step::Use(_) | Step::Retry(_) | Step::Unlock(_) | Step::Learn(_)
        )
    }

    pub(crate) fn no_wait(&self, at: usize) -> bool {
        self.clients[at].no_wait
    }
}

impl Model for Setting {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.clients.len())]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let arrives = |at: &usize| !world.defers(&world.wire[*at]);
        steps.extend((0..world.wire.len()).filter(arrives).map(Step::Deliver));
        if world.dead.is_some() {
            let learns =
                |place: &usize| world.knows & 1 << place == 0 && Some(*place) != world.dead;
            steps.extend((0..=world.nodes.len()).filter(learns).map(Step::Learn));
        }
        for (at, (node, client)) in world.nodes.iter().zip(&self.clients).enumerate() {
            if world.dead == Some(at) {
                continue;
            }
            if client.mortal && world.dead.is_none() {
                steps.push(Step::Die(at));
            }
            if node.frame.reserved {
                steps.push(Step::Use(at));
                continue;
            }
            if client.reads {
                steps.push(Step::Want(at, Want::Shared));
            }
            if client.writes {
                steps.push(Step::Want(at, Want::Exclusive));
            }
            if client.drops && node.wanted.is_some() {
                steps.push(Step::Drop(at));
            }
            if client.evicts && node.frame.hold != Hold::Nothing {
                steps.push(Step::Evict(at));
            }
            if client.no_wait && node.line.heeds(Era::default()) {
                steps.push(Step::FalseAlarm(at));
            }
            if world.pausing & 1 << at != 0 {
                steps.push(Step::Retry(at));
            }
            if node.frame.locked.is_some() {
                steps.push(Step::Unlock(at));
            } else if client.locks && node.frame.hold != Hold::Nothing {
                let writes = node.frame.hold == Hold::Exclusive;
                let mode = if writes { Want::Exclusive } else { Want::Shared };
                steps.push(Step::Lock(at, mode));
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let rules = &self.rules;
        let mut world = world.clone();
        match step {
            Step::Deliver(at) => world.deliver(rules, at, |node| self.no_wait(node)),
            Step::Use(at) => {
                let frame = &mut world.nodes[at].frame;
                frame.reserved = false;
                if frame.hold == Hold::Exclusive && self.clients[at].writes {
                    world.write(at);
                }
                world.event(rules, at, Event::Serve, self.no_wait(at));
            }
            Step::Want(at, want) => {
                return world.want(rules, at, want, self.no_wait(at)).then_some(world);
            }
            Step::Drop(at) => world.nodes[at].wanted = None,
            Step::Evict(at) => world.event(rules, at, Event::Evict, self.no_wait(at)),
            Step::Retry(at) => {
                world.pausing &= !(1 << at);
                let waits = world.nodes[at].wanted.is_some();
                let event = if waits { Event::Retry } else { Event::GiveUp };
                world.event(rules, at, event, self.no_wait(at));
            }
            Step::FalseAlarm(at) => {
                let busy = Message::Busy { era: Era::default() };
                let event = Event::Received(Party::Home, busy);
                world.event(rules, at, event, self.no_wait(at));
            }
            Step::Die(at) => world.die(rules, at),
            Step::Learn(place) => {
                let no_wait = place < self.clients.len() && self.no_wait(place);
                world.learn(rules, place, no_wait);
            }
            Step::Lock(at, mode) => {
                world.nodes[at].frame.locked = Some(mode);
                world.event(rules, at, Event::Serve, self.no_wait(at));
            }
            Step::Unlock(at) => {
                world.nodes[at].frame.locked = None;
                world.event(rules, at, Event::Serve, self.no_wait(at));
            }
        }
        world.forget_late_alarms();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one writer or many readers", |_, world: &World| {
                let holds = |hold| world.nodes.iter().filter(|n| n.frame.hold == hold).count();
                let writers = holds(Hold::Exclusive);
                writers == 0 || writers == 1 && holds(Hold::Shared) == 0
            }),
            Property::always("no stale copy", |_, world: &World| !world.stale),
            Property::always("the memory has what no node has", |_, world: &World| {
                world.home.source().is_some()
                    || world.home.lost().is_some()
                    || world.memory == crate::node::Content::Latest
            }),
            Property::always("only what the dead node had is lost", |_, world: &World| {
                world.home.lost().is_none() || world.owned
            }),
            Property::always("the home knows the holders", |_, world: &World| {
                !world.is_quiet() || world.agrees()
            }),
            Property::always(
                "no wait for a lock where none is wanted",
                |setting: &Setting, world: &World| {
                    let due = |node: &crate::node::Node| node.frame.reserved;
                    let moves =
                        !world.wire.is_empty() || world.pausing != 0 || world.nodes.iter().any(due);
                    moves
                        || (0..world.nodes.len())
                            .all(|at| !setting.no_wait(at) || world.nodes[at].wanted.is_none())
                },
            ),
        ]
    }
}
