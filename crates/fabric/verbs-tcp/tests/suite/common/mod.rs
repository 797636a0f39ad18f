//! Clusters on the loopback interface.

pub(crate) mod proxy;
pub(crate) mod raw;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::{Clock, Notifier, Time};
use latchwork_verbs::contract::parking::{Parking, Served};
use latchwork_verbs::contract::{
    COMPUTE_NODES, INBOX_CAPACITY, MEMORY_NODES, REGION_BYTES, memory_extent,
};
use latchwork_verbs::{
    AtomicOutcome, Completion, ComputeNodeId, Endpoint as _, MemoryNodeId, Region, Target,
    VerbError, WorkRequest,
};
use latchwork_verbs_tcp::{Secret, Security, TcpConfig, TcpEndpoint, TcpFabric, TcpNode, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// The name that all certificates have.
pub(crate) const NAME: &str = "latchwork";

/// The distribution of a cluster's nodes, and their security.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// All nodes in one fabric, with a secret.
    Together,
    /// Each node in a fabric of its own, like a process, with a secret.
    Apart,
    /// Like `Apart`, with TLS.
    Tls,
}

impl Mode {
    pub(crate) const ALL: [Mode; 3] = [Mode::Together, Mode::Apart, Mode::Tls];
}

pub(crate) struct Cluster {
    // First the fabrics of the memory nodes, then those of the compute nodes. With `Together` all
    // are the same fabric.
    fabrics: Vec<TcpFabric>,
    memory: Vec<Arc<Region>>,
    regions: Vec<Arc<Region>>,
}

pub(crate) fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)
}

pub(crate) fn secret() -> Security {
    Security::Secret(Secret::new(b"the cluster's own secret").unwrap())
}

/// An authority that signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Certificate and key of a process, in PEM form.
    pub(crate) fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// The security of a process with a certificate of this authority.
    pub(crate) fn security(&self) -> Security {
        let (certificate, key) = self.sign(NAME);
        let tls =
            Tls::from_pem(self.pem().as_bytes(), certificate.as_bytes(), key.as_bytes(), NAME);
        Security::Tls(tls.unwrap())
    }
}

impl Cluster {
    pub(crate) fn new(mode: Mode) -> Self {
        Cluster::with_inboxes(mode, INBOX_CAPACITY)
    }

    /// A cluster with inboxes for `inbox_capacity` messages.
    pub(crate) fn with_inboxes(mode: Mode, inbox_capacity: usize) -> Self {
        let authority = Authority::new();
        let make = |mode| {
            let security = if mode == Mode::Tls { authority.security() } else { secret() };
            // Several threads, so that the agents really serve connections in parallel.
            let threads = 2;
            TcpFabric::new(TcpConfig { inbox_capacity, threads, ..TcpConfig::new(security) })
                .unwrap()
        };
        let count = usize::from(MEMORY_NODES) + usize::from(COMPUTE_NODES);
        let fabrics: Vec<_> = match mode {
            Mode::Together => vec![make(mode); count],
            Mode::Apart | Mode::Tls => (0..count).map(|_| make(mode)).collect(),
        };
        let mut cluster = Cluster { fabrics, memory: Vec::new(), regions: Vec::new() };
        let mut addrs = Vec::new();
        for id in 0..MEMORY_NODES {
            let fabric = &cluster.fabrics[usize::from(id)];
            let (extent, id) = (memory_extent(id), MemoryNodeId(id));
            let addr = fabric.serve_memory_of(id, extent, loopback()).unwrap();
            addrs.push((TcpNode::Memory(id), addr));
            cluster.memory.push(fabric.memory(id).unwrap());
        }
        for id in (1..=COMPUTE_NODES).map(node) {
            let region = Region::zeroed(REGION_BYTES).unwrap();
            let fabric = cluster.of(id);
            let addr = fabric.serve_compute(id, loopback()).unwrap();
            fabric.register(id, Arc::clone(&region)).unwrap();
            addrs.push((TcpNode::Compute(id), addr));
            cluster.regions.push(region);
        }
        if mode != Mode::Together {
            for (fabric, (own, _)) in cluster.fabrics.iter().zip(&addrs) {
                for (peer, addr) in addrs.iter().filter(|(peer, _)| peer != own) {
                    fabric.add_peer(*own, *peer, *addr).unwrap();
                }
            }
        }
        cluster
    }

    /// The fabric of a compute node.
    pub(crate) fn of(&self, node: ComputeNodeId) -> &TcpFabric {
        &self.fabrics[usize::from(MEMORY_NODES) + node.index()]
    }

    pub(crate) fn fabrics(&self) -> Vec<TcpFabric> {
        self.fabrics.clone()
    }

    pub(crate) fn memory_of(&self, node: MemoryNodeId) -> Arc<Region> {
        Arc::clone(&self.memory[usize::from(node.0)])
    }

    pub(crate) fn region_of(&self, node: ComputeNodeId) -> Arc<Region> {
        Arc::clone(&self.regions[node.index()])
    }
}

impl Parking for Cluster {
    fn endpoint(&self, _: Option<Notifier>) -> Box<dyn latchwork_verbs::Endpoint> {
        Box::new(self.of(node(2)).endpoint(node(2)).unwrap())
    }

    fn serve(&self, notifier: Notifier) -> Served {
        let inbox = self.of(node(1)).inbox(node(1)).unwrap();
        let subscription = inbox.subscribe(notifier);
        (Box::new(inbox), Box::new(subscription))
    }

    fn rounds(&self) -> u64 {
        1_000
    }
}

/// Rings and polls until nothing is in flight. Returns the completions.
pub(crate) fn finish(endpoint: &mut TcpEndpoint, limit: Duration) -> Vec<Completion> {
    let clock = Clock::start();
    let mut done = Vec::new();
    endpoint.ring();
    while endpoint.in_flight() > 0 {
        endpoint.poll(&mut |completion| done.push(completion));
        let left = endpoint.in_flight();
        assert!(clock.now() - Time::ZERO < limit, "{left} batches hang after {limit:?}");
        std::thread::yield_now();
    }
    done
}

/// Posts one batch and waits for it.
pub(crate) fn call(
    endpoint: &mut TcpEndpoint,
    target: Target,
    requests: &[WorkRequest],
) -> Result<AtomicOutcome, VerbError> {
    endpoint.post(target, 7, requests).unwrap();
    let done = finish(endpoint, Duration::from_secs(60));
    assert_eq!((done.len(), done[0].token), (1, 7));
    done[0].result
}

/// A memory node of 64 KiB, and compute node 1 that knows it, each in a fabric of its own.
pub(crate) struct Pair {
    pub(crate) there: TcpFabric,
    pub(crate) here: TcpFabric,
    pub(crate) memory: Arc<Region>,
    pub(crate) local: Arc<Region>,
    /// The address at which the memory node listens.
    pub(crate) addr: SocketAddr,
}

pub(crate) const MEMORY: Target = Target::Memory(MemoryNodeId(0));
pub(crate) const MEMORY_NODE: TcpNode = TcpNode::Memory(MemoryNodeId(0));

impl Pair {
    /// The client reaches the node at the address that `reach` returns.
    pub(crate) fn new(
        there: TcpConfig,
        here: TcpConfig,
        reach: impl FnOnce(SocketAddr) -> SocketAddr,
    ) -> Self {
        let there = TcpFabric::new(there).unwrap();
        let memory = Region::zeroed(1 << 21).unwrap();
        let addr = there.serve_memory(MemoryNodeId(0), Arc::clone(&memory), loopback()).unwrap();
        let here = TcpFabric::new(here).unwrap();
        here.serve_compute(node(1), loopback()).unwrap();
        let local = Region::zeroed(1 << 22).unwrap();
        here.register(node(1), Arc::clone(&local)).unwrap();
        here.add_peer(TcpNode::Compute(node(1)), MEMORY_NODE, reach(addr)).unwrap();
        Pair { there, here, memory, local, addr }
    }

    pub(crate) fn endpoint(&self) -> TcpEndpoint {
        self.here.endpoint(node(1)).unwrap()
    }
}
