//! [`Kernel`]: fires events in order of virtual time.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use latchwork_strict::{strict_assert, strict_assert_eq};

use crate::queue::{Event, Queue};
use crate::random::mix;
use crate::waker::{Mark, Marks};
use crate::{ActorId, ActorWaker, Random, Ties, Time, WAKE};

/// The number of events at one instant that counts as a live-lock: events cause further events, and
/// virtual time does not advance.
pub const STALL_EVENTS: u64 = 1_000_000;
const _: () = assert!(STALL_EVENTS > 10_000, "a busy instant of a large world is no live-lock");

/// A part of a world that acts when an event fires: a worker or a fabric.
pub trait Actor {
    /// Handles an event for this actor. `payload` is the argument of [`Kernel::schedule`], or
    /// [`WAKE`].
    fn fire(&self, payload: u64);
}

/// Why [`Kernel::run_until`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// The condition became true.
    Done,
    /// The next event is later than the deadline. The clock shows the deadline.
    Deadline,
    /// No event is left.
    Quiet,
    /// [`STALL_EVENTS`] events fired at one instant: a live-lock.
    Stalled,
}

/// One deterministic world. A clone is the same world.
#[derive(Clone)]
pub struct Kernel(Rc<World>);

struct World {
    now: Cell<Time>,
    queue: RefCell<Queue>,
    actors: RefCell<Vec<Entry>>,
    marks: Arc<Marks>,
    ties: Ties,
    // The order of ties does not use `random`. So an extra random number of an actor does not
    // change this order.
    tie_seed: u64,
    scheduled: Cell<u64>,
    random: RefCell<Random>,
    hash: Cell<u64>,
    events: Cell<u64>,
    events_this_instant: Cell<u64>,
}

struct Entry {
    actor: Weak<dyn Actor>,
    mark: Mark,
    wakes_from: Cell<Time>,
}

impl Kernel {
    /// Makes a world at [`Time::ZERO`] without actors. `seed` decides the order of events at one
    /// instant, and the random numbers.
    pub fn new(seed: u64) -> Kernel {
        Kernel::with_ties(seed, Ties::Seeded)
    }

    /// Like [`Kernel::new`], with the given rule for the order of events at one instant.
    pub fn with_ties(seed: u64, ties: Ties) -> Kernel {
        Kernel(Rc::new(World {
            now: Cell::new(Time::ZERO),
            queue: RefCell::default(),
            actors: RefCell::default(),
            marks: Arc::default(),
            ties,
            tie_seed: mix(seed ^ 1),
            scheduled: Cell::new(0),
            random: RefCell::new(Random::new(seed)),
            hash: Cell::new(mix(seed)),
            events: Cell::new(0),
            events_this_instant: Cell::new(0),
        }))
    }

    /// The current instant: the time of the last event that fired, or a later deadline that
    /// [`Kernel::run_until`] reached.
    #[inline]
    pub fn now(&self) -> Time {
        self.0.now.get()
    }

    /// Adds an actor. The kernel keeps only a weak reference, because actors hold the kernel.
    /// Events for a dropped actor have no effect.
    ///
    /// # Panics
    /// When the caller keeps no reference of its own to `actor`, because the actor would be dropped
    /// at once.
    pub fn add_actor(&self, actor: Rc<dyn Actor>) -> ActorId {
        assert!(Rc::strong_count(&actor) > 1, "keep the actor alive: the kernel does not");
        strict_assert!(
            self.0
                .actors
                .borrow()
                .iter()
                .all(|entry| !std::ptr::addr_eq(entry.actor.as_ptr(), Rc::as_ptr(&actor))),
            "an actor has one id"
        );
        let mut actors = self.0.actors.borrow_mut();
        let id = ActorId(u32::try_from(actors.len()).expect("fewer than 2^32 actors"));
        let (actor, mark) = (Rc::downgrade(&actor), Mark::new());
        actors.push(Entry { actor, mark, wakes_from: Cell::default() });
        strict_assert_eq!(actors.len(), id.index() + 1, "ids count up from 0");
        id
    }

    /// Schedules `actor.fire(payload)` at `at`, or now if `at` is in the past.
    ///
    /// # Panics
    /// When more than 16 million events are pending.
    #[inline]
    pub fn schedule(&self, at: Time, actor: ActorId, payload: u64) {
        strict_assert!(
            actor.index() < self.0.actors.borrow().len(),
            "{actor:?} is of another kernel"
        );
        let number = self.0.scheduled.get();
        self.0.scheduled.set(number + 1);
        strict_assert!(number < u64::MAX, "the numbers of events do not wrap");
        let tie = match self.0.ties {
            // Mixed consecutive numbers serve as random numbers.
            Ties::Seeded => mix(self.0.tie_seed.wrapping_add(number)),
            Ties::FirstCome => number,
        };
        self.0.queue.borrow_mut().push(at.max(self.now()), tie, actor, payload);
        strict_assert!(
            self.0.queue.borrow().next_at().is_some_and(|next| next >= self.now()),
            "no event lies in the past"
        );
        strict_assert!(
            self.0.scheduled.get() > self.0.events.get(),
            "an event fires after it was scheduled"
        );
    }

    /// 64 random bits from the seeded generator.
    #[inline]
    pub fn random(&self) -> u64 {
        self.0.random.borrow_mut().draw()
    }

    /// A random number from 0 to `n - 1` from the seeded generator.
    ///
    /// # Panics
    /// When `n` is zero.
    #[inline]
    pub fn random_below(&self, n: u64) -> u64 {
        self.0.random.borrow_mut().below(n)
    }

    /// Adds a fact about an action of an actor to the event hash: its kind and two words.
    #[inline]
    pub fn note(&self, kind: u32, a: u64, b: u64) {
        self.fold(a, b, kind);
    }

    /// A hash of every fired event (its time, actor and payload) and of every note, in order.
    pub fn event_hash(&self) -> u64 {
        self.0.hash.get()
    }

    /// The number of events that have fired.
    pub fn events(&self) -> u64 {
        self.0.events.get()
    }

    /// The number of scheduled events, including pending wakes.
    pub fn pending(&self) -> usize {
        self.schedule_marked();
        strict_assert_eq!(
            self.0.scheduled.get(),
            self.0.events.get() + self.0.queue.borrow().len() as u64,
            "each scheduled event is pending or has fired"
        );
        self.0.queue.borrow().len()
    }

    /// Makes a waker with which any thread can request an event for `actor`.
    ///
    /// # Panics
    /// When this kernel has no actor with this id.
    pub fn waker(&self, actor: ActorId) -> ActorWaker {
        self.0.actors.borrow()[actor.index()].mark.waker(actor, &self.0.marks)
    }

    /// Delays wakes of `actor` until `from`, because the actor cannot act before. If `from` is in
    /// the past, a wake fires at the current instant. A wake that is already in the event queue
    /// keeps its time.
    ///
    /// # Panics
    /// When this kernel has no actor with this id.
    pub fn hold_wakes(&self, actor: ActorId, from: Time) {
        strict_assert!(
            actor.index() < self.0.actors.borrow().len(),
            "{actor:?} is of another kernel"
        );
        self.0.actors.borrow()[actor.index()].wakes_from.set(from);
    }

    /// Fires the next event. Returns `false` when no event is left.
    pub fn step(&self) -> bool {
        self.schedule_marked();
        let event = self.0.queue.borrow_mut().pop();
        event.is_some_and(|event| {
            self.fire(event);
            true
        })
    }

    #[inline]
    fn fire(&self, event: Event) {
        strict_assert!(event.at >= self.now(), "an event at {} fires at {}", event.at, self.now());
        strict_assert!(event.actor.index() < self.0.actors.borrow().len());
        if event.at > self.now() {
            self.0.now.set(event.at);
            self.0.events_this_instant.set(0);
        }
        strict_assert_eq!(self.now(), event.at);
        self.0.events.set(self.events() + 1);
        self.0.events_this_instant.set(self.0.events_this_instant.get() + 1);
        strict_assert!(self.0.events_this_instant.get() <= self.events());
        strict_assert!(
            self.0.events.get() <= self.0.scheduled.get(),
            "more events fired than were scheduled"
        );
        self.fold(event.at.as_nanos(), event.payload, event.actor.0);
        let actor = {
            let actors = self.0.actors.borrow();
            let entry = &actors[event.actor.index()];
            if event.payload == WAKE {
                entry.mark.clear();
            }
            entry.actor.upgrade()
        };
        if let Some(actor) = actor {
            actor.fire(event.payload);
        }
    }

    /// Fires events until `done` returns true, until the next event is later than `deadline`, until
    /// no event is left, or until a live-lock ([`RunEnd::Stalled`]). `done` is called before each
    /// event and after the last event.
    pub fn run_until(&self, deadline: Time, mut done: impl FnMut() -> bool) -> RunEnd {
        let begin = self.now();
        loop {
            if done() {
                strict_assert!(self.now() >= begin, "the world's clock runs backwards");
                return RunEnd::Done;
            }
            self.schedule_marked();
            let next_at = self.0.queue.borrow().next_at();
            match next_at {
                None => return RunEnd::Quiet,
                Some(at) if at > deadline => {
                    strict_assert!(at >= self.now());
                    if deadline > self.now() {
                        self.0.now.set(deadline);
                        self.0.events_this_instant.set(0);
                    }
                    return RunEnd::Deadline;
                }
                Some(at) => {
                    strict_assert!(at >= self.now(), "the next event lies in the past");
                    if at == self.now() && self.0.events_this_instant.get() >= STALL_EVENTS {
                        strict_assert!(
                            self.0.events_this_instant.get() == STALL_EVENTS,
                            "each event of an instant was counted once"
                        );
                        return RunEnd::Stalled;
                    }
                    self.step();
                }
            }
        }
    }

    #[inline]
    fn schedule_marked(&self) {
        self.0.marks.drain(|actor| {
            let at = self.0.actors.borrow()[actor.index()].wakes_from.get();
            self.schedule(at, actor, WAKE);
        });
    }

    /// Folds one event or note into the hash. A product turns the values into one word, from both
    /// halves of the product. For each word, the step from the old hash to the new hash is a
    /// bijection. So different old hashes give different new hashes.
    #[inline]
    fn fold(&self, a: u64, b: u64, kind: u32) {
        let a = u128::from(a ^ u64::from(kind) << 40 ^ 0xa076_1d64_78bd_642f);
        let b = u128::from(b ^ u64::from(kind) ^ 0xe703_7ed1_a0b4_28db);
        let product = a * b;
        let word = (product >> 64) as u64 ^ product as u64;
        let hash = self.0.hash.get().rotate_left(5) ^ word;
        self.0.hash.set(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("now", &self.now())
            .field("events", &self.events())
            .field("event_hash", &format_args!("{:#018x}", self.event_hash()))
            .finish_non_exhaustive()
    }
}
