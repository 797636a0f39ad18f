//! [`Watcher`]: the thread that sleeps until an armed completion queue or a device signals an
//! event, and that wakes workers.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use latchwork_runtime::sync::Mutex;
use latchwork_verbs::SetupError;

use crate::error::last;
use crate::sys::completions::Completions;
use crate::sys::device::Device;

/// The watcher of a fabric, with one thread. A completion channel wakes the thread only if its
/// queue was armed. Workers arm a queue only before they park, so the thread sleeps while the
/// workers work.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    poll: RawFd,
    // The descriptor that wakes the thread at the end.
    stop_event: RawFd,
    stop: AtomicBool,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    next: u64,
    entries: BTreeMap<u64, Arc<Entry>>,
}

struct Entry {
    source: Source,
    wake: Box<dyn Fn() + Send + Sync>,
}

enum Source {
    Completions(Arc<Completions>),
    Device(Arc<Device>),
}

impl Source {
    fn fd(&self) -> RawFd {
        match self {
            Source::Completions(completions) => completions.fd(),
            Source::Device(device) => device.events_fd(),
        }
    }

    /// Takes the events of the source. True when a worker must be woken.
    fn take_events(&self) -> bool {
        match self {
            Source::Completions(completions) => completions.take_events(),
            Source::Device(device) => device.take_events(),
        }
    }

    /// Whether no further event of this source matters, although its descriptor may stay readable.
    fn is_over(&self) -> bool {
        matches!(self, Source::Device(device) if device.health.is_dead())
    }
}

/// The number of the stop event; no source has this number.
const STOP: u64 = u64::MAX;

impl Watcher {
    pub(crate) fn start() -> Result<Watcher, SetupError> {
        // SAFETY: two system calls that create descriptors.
        let (poll, stop_event) = unsafe {
            (libc::epoll_create1(libc::EPOLL_CLOEXEC), libc::eventfd(0, libc::EFD_CLOEXEC))
        };
        let (stop, watched) = (AtomicBool::new(false), Mutex::default());
        // From now on the value owns the descriptors. Closing a descriptor that could not be
        // created has no effect.
        let shared = Arc::new(Shared { poll, stop_event, stop, watched });
        if poll < 0 || stop_event < 0 {
            return Err(last("epoll_create1, eventfd"));
        }
        shared.add(stop_event, STOP)?;
        let watched = Arc::clone(&shared);
        let builder = thread::Builder::new().name("ibv-watcher".to_owned());
        let thread = builder.spawn(move || watched.run()).map_err(|error| SetupError::System {
            call: "thread",
            errno: error.raw_os_error().unwrap_or(libc::EAGAIN),
        })?;
        Ok(Watcher { shared, thread: Some(thread) })
    }

    /// Makes the thread call `wake` after a signal of the armed queue. Several signals may lead to
    /// one call.
    pub(crate) fn watch(
        self: &Arc<Self>,
        completions: &Arc<Completions>,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Watch, SetupError> {
        self.add(Source::Completions(Arc::clone(completions)), Box::new(wake))
    }

    /// Makes the thread call `wake` after an event of the device that workers must check.
    pub(crate) fn watch_device(
        self: &Arc<Self>,
        device: &Arc<Device>,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Watch, SetupError> {
        self.add(Source::Device(Arc::clone(device)), Box::new(wake))
    }

    fn add(
        self: &Arc<Self>,
        source: Source,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Watch, SetupError> {
        let fd = source.fd();
        let entry = Entry { source, wake };
        let number = {
            let mut watched = self.shared.watched.lock();
            let number = watched.next;
            watched.next += 1;
            watched.entries.insert(number, Arc::new(entry));
            number
        };
        // From now on the watch owns the entry, so a failure below removes the entry.
        let watch = Watch { watcher: Arc::clone(self), number, fd };
        self.shared.add(fd, number)?;
        Ok(watch)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let one = 1_u64;
        // SAFETY: writes eight bytes of a local variable to an open descriptor.
        unsafe { libc::write(self.shared.stop_event, (&raw const one).cast(), 8) };
        // A `wake` on the watcher's own thread may drop the last owner of the watcher. The thread
        // cannot join itself, so in this case it ends without a join.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn add(&self, fd: RawFd, number: u64) -> Result<(), SetupError> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: number };
        // SAFETY: both descriptors are open, and the event is read before the call returns.
        let result = unsafe { libc::epoll_ctl(self.poll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        if result == 0 { Ok(()) } else { Err(last("epoll_ctl")) }
    }

    /// Removes a descriptor that is still open. The descriptor may have been removed before.
    fn remove(&self, fd: RawFd) {
        // SAFETY: both descriptors are open.
        unsafe { libc::epoll_ctl(self.poll, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    fn run(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        while !self.stop.load(Ordering::Acquire) {
            // SAFETY: the descriptor is open, and there is room for the given number of events. The
            // wait has no time limit; `drop` ends it.
            let count = unsafe {
                libc::epoll_wait(self.poll, events.as_mut_ptr(), events.len() as i32, -1)
            };
            for event in events.iter().take(usize::try_from(count).unwrap_or(0)) {
                let number = event.u64;
                // The clone keeps the source until its events are acknowledged, because the
                // destruction of a queue waits for the acknowledgement.
                let entry = self.watched.lock().entries.get(&number).cloned();
                let Some(entry) = entry else { continue };
                if entry.source.take_events() {
                    (entry.wake)();
                }
                if entry.source.is_over() {
                    self.remove(entry.source.fd());
                }
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: created by `start`, and not used any more.
        unsafe {
            libc::close(self.poll);
            libc::close(self.stop_event);
        }
    }
}

/// The registration of a source. Dropping the value ends the registration; a call of `wake` that is
/// running continues.
pub(crate) struct Watch {
    watcher: Arc<Watcher>,
    number: u64,
    fd: RawFd,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let shared = &self.watcher.shared;
        // The entry still owns the source, so the descriptor is still open.
        shared.remove(self.fd);
        shared.watched.lock().entries.remove(&self.number);
    }
}
