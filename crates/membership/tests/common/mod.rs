//! Stores for tests, and nodes in them.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::sync::Arc;
use std::time::Duration;

use latchwork_membership::{
    FileStore, Joining, Membership, MembershipError, MemoryStore, Role, Store,
};
use tempfile::TempDir;

/// Longer than anything takes on a machine that is very busy.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A store, and what has to stay until it is not used any more.
pub(crate) struct Place {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) directory: Option<TempDir>,
}

/// The kinds of store there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Memory,
    File,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Memory, Kind::File];

    pub(crate) fn place(self) -> Place {
        match self {
            Kind::Memory => Place { store: Arc::new(MemoryStore::new()), directory: None },
            Kind::File => {
                let directory = tempfile::tempdir().unwrap();
                let store = FileStore::open(directory.path().join("bench"), LONG).unwrap();
                Place { store: Arc::new(store), directory: Some(directory) }
            }
        }
    }
}

/// A compute node with this lease.
pub(crate) fn compute(ttl: Duration) -> Joining {
    Joining { ttl, limit: LONG, ..Joining::new(Role::Compute) }
}

pub(crate) fn join(place: &Place, joining: Joining) -> Result<Membership, MembershipError> {
    Membership::join(Arc::clone(&place.store), "bench", joining)
}
