//! Completions and messages wake parked workers. Skipped without RDMA devices.

#![cfg(target_os = "linux")]

use latchwork_runtime::Notifier;
use latchwork_verbs::contract::parking::{Parking, Served};
use latchwork_verbs::{ComputeNodeId, Endpoint};
use latchwork_verbs_ibv::{IbvConfig, IbvFabric};

use crate::devices;

struct Nodes(IbvFabric);

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

fn nodes(inbox_capacity: usize) -> Option<Nodes> {
    let fabric = devices::open(IbvConfig { inbox_capacity, ..devices::patient() })?;
    fabric.add_compute_node(node(1)).unwrap();
    fabric.add_compute_node(node(2)).unwrap();
    Some(Nodes(fabric))
}

impl Parking for Nodes {
    fn endpoint(&self, notifier: Option<Notifier>) -> Box<dyn Endpoint> {
        Box::new(self.0.endpoint(node(2), notifier).unwrap())
    }

    fn serve(&self, notifier: Notifier) -> Served {
        let inbox = self.0.inbox(node(1)).unwrap();
        let subscription = inbox.subscribe(notifier);
        (Box::new(inbox), Box::new(subscription))
    }

    fn rounds(&self) -> u64 {
        400
    }
}

latchwork_verbs::parking_tests!(|inbox_capacity| nodes(inbox_capacity).into_iter());
