//! Stores for tests, nodes in them, and a store that can be made to fail.
#![allow(dead_code, reason = "each test file uses some of it")]

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod faulty;

use std::sync::Arc;
use std::time::Duration;

use latchwork_membership::{Joining, Membership, MembershipError, MemoryStore, Role, Store};
use tempfile::TempDir;

/// Longer than anything takes on a machine that is very busy.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The kinds of store there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Memory,
    File,
    Etcd,
}

/// A store, and what has to stay until it is not used any more.
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) store: Arc<dyn Store>,
    /// What other handles or processes open; empty for the store in memory.
    pub(crate) endpoint: String,
    directory: Option<TempDir>,
    #[cfg(feature = "etcd")]
    pub(crate) server: Option<etcd::Server>,
}

impl Place {
    pub(crate) fn memory() -> Self {
        Place::new(Kind::Memory, Arc::new(MemoryStore::new()), String::new())
    }

    pub(crate) fn file() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = format!("file:{}/bench", directory.path().display());
        let (store, _) = latchwork_membership::open(&endpoint).unwrap();
        Place { directory: Some(directory), ..Place::new(Kind::File, store, endpoint) }
    }

    #[cfg(feature = "etcd")]
    pub(crate) fn etcd() -> Option<Self> {
        let server = etcd::Server::start()?;
        let endpoint = format!("etcd://{}/bench", server.address);
        let (store, _) = latchwork_membership::open(&endpoint).unwrap();
        Some(Place { server: Some(server), ..Place::new(Kind::Etcd, store, endpoint) })
    }

    #[cfg(not(feature = "etcd"))]
    pub(crate) fn etcd() -> Option<Self> {
        None
    }

    fn new(kind: Kind, store: Arc<dyn Store>, endpoint: String) -> Self {
        Place {
            kind,
            store,
            endpoint,
            directory: None,
            #[cfg(feature = "etcd")]
            server: None,
        }
    }

    /// Empty stores of every kind that this machine has.
    pub(crate) fn all() -> impl Iterator<Item = Place> {
        [|| Some(Place::memory()), || Some(Place::file()), Place::etcd]
            .into_iter()
            .filter_map(|place: fn() -> Option<Place>| place())
    }

    /// Another handle to the store, as another process has it.
    pub(crate) fn another(&self) -> Arc<dyn Store> {
        match self.kind {
            Kind::Memory => Arc::clone(&self.store),
            _ => latchwork_membership::open(&self.endpoint).unwrap().0,
        }
    }

    pub(crate) fn join(&self, joining: Joining) -> Result<Membership, MembershipError> {
        Membership::join(self.another(), "bench", joining)
    }
}

/// A lease whose end is waited for, and which a machine that stands still for some seconds does not
/// end before.
pub(crate) const FIRM: Duration = Duration::from_secs(5);

/// Does something with an empty store of each kind, with all of them at once: mostly it waits.
pub(crate) fn in_each_place(does: impl Fn(Place) + Sync) {
    std::thread::scope(|scope| {
        let threads: Vec<_> = Place::all().map(|place| scope.spawn(|| does(place))).collect();
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ends.into_iter().for_each(|end| end.unwrap_or_else(|why| std::panic::resume_unwind(why)));
    });
}

/// A compute node whose lease ends in no test, unless it should.
pub(crate) fn compute() -> Joining {
    Joining { ttl: 2 * LONG, limit: LONG, ..Joining::new(Role::Compute) }
}

/// A compute node with this id.
pub(crate) fn compute_as(id: u16) -> Joining {
    Joining { id: Some(id), ..compute() }
}

/// A compute node with this lease.
pub(crate) fn compute_for(ttl: Duration) -> Joining {
    Joining { ttl, ..compute() }
}

/// The time, for what tests measure.
#[allow(clippy::disallowed_methods, reason = "other processes are a matter of real time")]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// CPU time of this thread.
pub(crate) fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// That news come when they are there, and not when somebody looks the next time. A quarter of them
/// has to: on a busy machine any may come late, and with looks now and then next to none comes
/// soon.
pub(crate) fn see_that_they_are_prompt(kind: Kind, mut times: Vec<Duration>) {
    times.sort();
    let (quarter, most) = (times[times.len() / 4], times[times.len() - 1]);
    println!("{kind:?}: a quarter within {quarter:?}, most {most:?}");
    assert!(quarter < Duration::from_millis(100), "{kind:?}: {times:?}");
}

/// Sleeps.
#[allow(clippy::disallowed_methods, reason = "other processes are a matter of real time")]
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Waits until a condition holds, but not for ever.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = now();
    while !condition() {
        assert!(begin.elapsed() < LONG, "waited {LONG:?} for {what}");
        sleep(Duration::from_millis(1));
    }
}
