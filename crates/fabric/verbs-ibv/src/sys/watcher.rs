//! [`Watcher`]: the thread that sleeps on all completion channels while their workers are parked, and on what devices tell of
//! themselves.

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

/// One thread per fabric. A channel wakes it only after its queue was armed, which workers do
/// before they park; so it sleeps while they work.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    poll: RawFd,
    // Written to end the thread.
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

/// What has something to tell.
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

    /// Takes what it tells. True when somebody has to be woken.
    fn take_events(&self) -> bool {
        match self {
            Source::Completions(completions) => completions.take_events(),
            Source::Device(device) => device.take_events(),
        }
    }

    /// Whether it tells nothing any more, although its descriptor may stay readable.
    fn is_over(&self) -> bool {
        matches!(self, Source::Device(device) if device.health.is_dead())
    }
}

/// The number of what ends the thread, which no channel has.
const STOP: u64 = u64::MAX;

impl Watcher {
    pub(crate) fn start() -> Result<Watcher, SetupError> {
        // SAFETY: two system calls that make descriptors.
        let (poll, stop_event) = unsafe {
            (libc::epoll_create1(libc::EPOLL_CLOEXEC), libc::eventfd(0, libc::EFD_CLOEXEC))
        };
        let (stop, watched) = (AtomicBool::new(false), Mutex::default());
        // Owned from here on; descriptors that could not be had are closed in vain.
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

    /// Calls `wake` after each completion that the armed queue tells of.
    pub(crate) fn watch(
        self: &Arc<Self>,
        completions: &Arc<Completions>,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Watch, SetupError> {
        self.add(Source::Completions(Arc::clone(completions)), Box::new(wake))
    }

    /// Calls `wake` after events of the device that workers have to look at.
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
        // Owned from here on, so that whatever fails takes the entry out again.
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
        // What it wakes may be the last to own the watcher; it cannot wait for itself, and ends
        // without that.
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
        // SAFETY: two open descriptors, and an event that is read before the call returns.
        let result = unsafe { libc::epoll_ctl(self.poll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        if result == 0 { Ok(()) } else { Err(last("epoll_ctl")) }
    }

    /// Takes out a descriptor that is still open; it may be out already.
    fn remove(&self, fd: RawFd) {
        // SAFETY: two open descriptors.
        unsafe { libc::epoll_ctl(self.poll, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    fn run(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        while !self.stop.load(Ordering::Acquire) {
            // SAFETY: an open descriptor, and room for as many events as said. It wakes nobody's
            // wait, so it may be for ever; `drop` ends it.
            let count = unsafe {
                libc::epoll_wait(self.poll, events.as_mut_ptr(), events.len() as i32, -1)
            };
            for event in events.iter().take(usize::try_from(count).unwrap_or(0)) {
                let number = event.u64;
                // Kept by the clone until its events are acknowledged, which the queue's end waits
                // for.
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
        // SAFETY: made by `start`, used by nobody any more.
        unsafe {
            libc::close(self.poll);
            libc::close(self.stop_event);
        }
    }
}

/// A queue that is watched, until this is dropped.
pub(crate) struct Watch {
    watcher: Arc<Watcher>,
    number: u64,
    fd: RawFd,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let shared = &self.watcher.shared;
        // The entry still owns what it is of.
        shared.remove(self.fd);
        shared.watched.lock().entries.remove(&self.number);
    }
}
