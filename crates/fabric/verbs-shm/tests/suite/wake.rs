//! Parked workers and messages: no wake is lost, and no worker is woken without need. Tested in one
//! fabric, and between two fabrics that share a directory as two processes do.

use latchwork_runtime::Notifier;
use latchwork_verbs::Endpoint;
use latchwork_verbs::contract::parking::{Parking, Served};
use latchwork_verbs_shm::{ShmConfig, ShmFabric};

use crate::common::{Directory, compute, introduce, node};

/// Two nodes, each with the fabric of its process.
struct Pair {
    /// The fabric of node 1.
    receiver: ShmFabric,
    /// The fabric of node 2.
    sender: ShmFabric,
    _directory: Option<Directory>,
}

/// A pair in one fabric and, on systems with shared directories, a pair across two fabrics.
fn pairs(inbox_capacity: usize) -> Vec<Pair> {
    let fabric = ShmFabric::new(ShmConfig { inbox_capacity });
    let mut pairs = vec![Pair { receiver: fabric.clone(), sender: fabric, _directory: None }];
    if cfg!(target_os = "linux") {
        let directory = Directory::new();
        let fabric =
            || ShmFabric::in_directory(&directory.0, ShmConfig { inbox_capacity }).unwrap();
        pairs.push(Pair { receiver: fabric(), sender: fabric(), _directory: Some(directory) });
    }
    for pair in &pairs {
        pair.receiver.add_compute_node(node(1)).unwrap();
        pair.sender.add_compute_node(node(2)).unwrap();
    }
    if let Some(pair) = pairs.get(1) {
        introduce(&[(&pair.receiver, &[compute(1)]), (&pair.sender, &[compute(2)])]);
    }
    pairs
}

impl Parking for Pair {
    fn endpoint(&self, _: Option<Notifier>) -> Box<dyn Endpoint> {
        Box::new(self.sender.endpoint(node(2)).unwrap())
    }

    fn serve(&self, notifier: Notifier) -> Served {
        let inbox = self.receiver.inbox(node(1)).unwrap();
        let subscription = inbox.subscribe(notifier);
        (Box::new(inbox), Box::new(subscription))
    }

    fn rounds(&self) -> u64 {
        4_000
    }
}

latchwork_verbs::parking_tests!(pairs);
