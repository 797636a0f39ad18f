//! Stores for tests, nodes in them, and a store with faults.

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod faulty;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use latchwork_membership::{Joining, Membership, MembershipError, MemoryStore, Role, Store};
use tempfile::TempDir;

pub(crate) use waiting::{LONG, eventually, now, sleep};

/// The kinds of stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Memory,
    File,
    #[cfg_attr(
        not(feature = "etcd"),
        expect(dead_code, reason = "only that feature has such a store")
    )]
    Etcd,
}

/// A store, with the directory or the server that it needs.
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) store: Arc<dyn Store>,
    /// The endpoint for other handles or processes. It is empty for the store in memory.
    pub(crate) endpoint: String,
    _directory: Option<TempDir>,
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
        Place { _directory: Some(directory), ..Place::new(Kind::File, store, endpoint) }
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
            _directory: None,
            #[cfg(feature = "etcd")]
            server: None,
        }
    }

    /// Empty stores of every kind that this machine supports.
    pub(crate) fn all() -> impl Iterator<Item = Place> {
        [|| Some(Place::memory()), || Some(Place::file()), Place::etcd]
            .into_iter()
            .filter_map(|place: fn() -> Option<Place>| place())
    }

    /// Another handle to the same store. Another process would have such a handle.
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

/// The length of a lease whose end a test waits for. It is long enough that a machine that stops
/// for some seconds does not end the lease early.
pub(crate) const FIRM: Duration = Duration::from_secs(5);

/// Runs a test with an empty store of each kind, all at once, because the test mostly waits.
pub(crate) fn in_each_place(does: impl Fn(Place) + Sync) {
    std::thread::scope(|scope| {
        let threads: Vec<_> = Place::all().map(|place| scope.spawn(|| does(place))).collect();
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ends.into_iter().for_each(|end| end.unwrap_or_else(|why| std::panic::resume_unwind(why)));
    });
}

/// A compute node with a lease so long that it ends in no test by accident.
pub(crate) fn compute() -> Joining {
    Joining { ttl: 2 * LONG, limit: LONG, ..Joining::new(Role::Compute) }
}

/// A compute node with this id.
pub(crate) fn compute_as(id: u16) -> Joining {
    Joining { id: Some(id), ..compute() }
}

/// A compute node with a lease of this length.
pub(crate) fn compute_for(ttl: Duration) -> Joining {
    Joining { ttl, ..compute() }
}

/// CPU time of this thread.
pub(crate) fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// Checks that a waiter notices a change when it happens, and not at its next periodic check. At
/// least a quarter of the changes must be noticed promptly. A busy machine may delay any notice,
/// but periodic checks alone would make almost no notice prompt.
pub(crate) fn see_that_they_are_prompt(kind: Kind, mut times: Vec<Duration>) {
    times.sort();
    let (quarter, most) = (times[times.len() / 4], times[times.len() - 1]);
    println!("{kind:?}: a quarter within {quarter:?}, most {most:?}");
    assert!(quarter < Duration::from_millis(100), "{kind:?}: {times:?}");
}
