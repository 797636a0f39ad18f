//! [`Driver`]: where an executor's time comes from and how it waits.

use std::marker::PhantomData;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::sync::{Thread, current_thread, park, park_timeout};
use crate::{Notifier, Time};

/// Time, waiting and CPU accounting of one executor. [`RealDriver`] and [`crate::VirtualDriver`]
/// are the two there are.
pub trait Driver: 'static {
    /// The time now.
    fn now(&self) -> Time;

    /// What ends this driver's parking.
    fn notifier(&self) -> Notifier;

    /// Blocks the thread until notified, or until `until`. The executor has announced the parking
    /// before. A virtual worker gives the thread back instead and never calls this.
    fn park(&self, until: Option<Time>);

    /// Gives the core away for about this long. The executor has not announced a parking. A virtual
    /// worker never calls this.
    fn nap(&self, time: Duration);

    /// Adds CPU time to the worker's clock.
    fn charge(&self, cost: Duration) {
        let _ = cost;
    }

    /// The time at which what the worker does now takes effect: that of the world, which the
    /// worker's own clock may be ahead of.
    fn instant(&self) -> Time {
        self.now()
    }

    /// When the world will have caught up with the worker's clock; `None` when it has.
    fn busy_until(&self) -> Option<Time> {
        None
    }
}

/// The process's clock: [`Time`] in nanoseconds since [`Clock::start`], or since the machine was
/// started. Workers whose times are compared share one clock; copies are the same clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that stands at [`Time::ZERO`] now.
    #[allow(clippy::disallowed_methods, reason = "the one place where real time comes in")]
    pub fn start() -> Self {
        Clock { origin: Instant::now() }
    }

    /// The machine's monotonic clock, which stood at [`Time::ZERO`] when it was started: that of
    /// two processes shows the same, but for a microsecond at most.
    #[allow(clippy::disallowed_methods, reason = "the one place where real time comes in")]
    pub fn of_machine() -> Self {
        // What passes between the two looks is the error; the least of many is a few nanoseconds.
        const LOOKS: usize = 64;
        let look = || {
            let stood = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let now = Instant::now();
            let stood = Duration::new(stood.tv_sec.max(0) as u64, stood.tv_nsec.max(0) as u32);
            now.checked_sub(stood).unwrap_or(now)
        };
        let origin = (0..LOOKS).map(|_| look()).min();
        Clock { origin: origin.unwrap_or_else(Instant::now) }
    }

    /// The time now. Never goes backwards.
    #[inline]
    pub fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }
}

/// Real time, and parking of the thread that made it.
pub struct RealDriver {
    clock: Clock,
    thread: Thread,
    notifier: Notifier,
    // The notifier unparks the thread that this was made on, so it must stay there.
    not_send: PhantomData<Rc<()>>,
}

impl RealDriver {
    /// A driver for the current thread with a clock of its own.
    pub fn new() -> Self {
        RealDriver::with_clock(Clock::start())
    }

    /// A driver for the current thread with a shared clock.
    pub fn with_clock(clock: Clock) -> Self {
        let thread = current_thread();
        let notifier = Notifier::for_thread(thread.clone());
        RealDriver { clock, thread, notifier, not_send: PhantomData }
    }
}

impl Default for RealDriver {
    fn default() -> Self {
        RealDriver::new()
    }
}

impl Driver for RealDriver {
    #[inline]
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    fn nap(&self, time: Duration) {
        // An old token ends it at once, which does no harm: the next sweep is early.
        park_timeout(&self.thread, time);
    }

    fn park(&self, until: Option<Time>) {
        // Unpark tokens may be old and parking may end for no reason: only the flag counts.
        while self.notifier.is_parked() {
            let left = until.map(|until| until - self.now());
            if left == Some(Duration::ZERO) {
                return;
            }
            match (self.notifier.bed(), left) {
                (Some(bed), left) => {
                    if bed.sleep(&|| self.notifier.is_parked(), left) {
                        self.notifier.end_parking();
                    }
                }
                (None, None) => park(&self.thread),
                (None, Some(left)) => park_timeout(&self.thread, left),
            }
        }
    }
}
