//! [`Driver`]: gives an executor its time, and blocks its thread.

use std::marker::PhantomData;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::sync::{Thread, current_thread, park, park_timeout};
use crate::{Notifier, Time};

/// Time, waiting and CPU accounting of one executor: a [`RealDriver`] or a
/// [`crate::VirtualDriver`].
pub trait Driver: 'static {
    /// The current time on the worker's clock.
    fn now(&self) -> Time;

    /// The notifier that ends this driver's parking.
    fn notifier(&self) -> Notifier;

    /// Blocks the thread until a notification, until another process wakes the thread in its
    /// [`crate::ParkingSpot`], or until `until`. The executor announces the parking to the notifier
    /// before this call. Not called for a virtual worker, which returns from its event instead.
    fn park(&self, until: Option<Time>);

    /// Dozes: gives the core to other threads for about `time`. A notification does not end the
    /// doze, because the executor has not announced a parking. Not called for a virtual worker.
    fn doze(&self, time: Duration);

    /// Adds CPU time to the worker's clock.
    fn charge(&self, cost: Duration) {
        let _ = cost;
    }

    /// The time at which the worker's current work takes effect. In virtual time this is the time
    /// of the world, which the worker's own clock may have passed.
    fn instant(&self) -> Time {
        self.now()
    }

    /// The time at which the world reaches the worker's clock; `None` when the clock is not ahead.
    fn busy_until(&self) -> Option<Time> {
        None
    }
}

/// A clock of real time. [`Time`] counts nanoseconds since [`Clock::start`], or since the start of
/// the machine. Workers whose times are compared must share one clock. A copy is the same clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Makes a clock that shows [`Time::ZERO`] at this moment.
    #[allow(clippy::disallowed_methods, reason = "the one place where real time comes in")]
    pub fn start() -> Self {
        Clock { origin: Instant::now() }
    }

    /// Makes a clock that shows the machine's monotonic time, which was [`Time::ZERO`] at the start
    /// of the machine. Clocks of two processes on one machine differ by about a microsecond at
    /// most.
    #[allow(clippy::disallowed_methods, reason = "the one place where real time comes in")]
    pub fn of_machine() -> Self {
        // The error of one attempt is the time between its two reads. The smallest error of many
        // attempts is a few nanoseconds.
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

    /// The current time of the clock. The time does not go backwards.
    #[inline]
    pub fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }
}

/// The driver of real time. The driver parks the thread that created the driver.
pub struct RealDriver {
    clock: Clock,
    thread: Thread,
    notifier: Notifier,
    // The notifier unparks the thread that created the driver, so the driver must stay on that
    // thread.
    not_send: PhantomData<Rc<()>>,
}

impl RealDriver {
    /// Makes a driver for the current thread, with a clock of its own.
    pub fn new() -> Self {
        RealDriver::with_clock(Clock::start())
    }

    /// Makes a driver for the current thread, with a clock that other drivers may share.
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

    fn doze(&self, time: Duration) {
        // An old unpark token ends the doze at once. This is harmless, because it only makes the
        // next sweep early.
        park_timeout(&self.thread, time);
    }

    fn park(&self, until: Option<Time>) {
        // An unpark token may be old, and parking may end without a reason. So only the notifier's
        // flag decides whether the wait is over.
        while self.notifier.is_parked() {
            let left = until.map(|until| until - self.now());
            if left == Some(Duration::ZERO) {
                return;
            }
            match (self.notifier.bed(), left) {
                (Some(bed), left) => {
                    if bed.sleep(&|| self.notifier.is_parked_in(&bed), left) {
                        self.notifier.end_parking();
                    }
                }
                (None, None) => park(&self.thread),
                (None, Some(left)) => park_timeout(&self.thread, left),
            }
        }
    }
}
