//! A fabric hosts each node once, also when two threads add the node at the same time.

use std::net::{SocketAddr, TcpListener};
use std::sync::Barrier;

use latchwork_verbs::{MemoryNodeId, Region};
use latchwork_verbs_tcp::{TcpConfig, TcpError, TcpFabric};

use crate::common::{loopback, secret};

const MEMORY: MemoryNodeId = MemoryNodeId(0);

/// An address at which a listener was just now, and is no more. On Linux it is one that no other
/// test uses: the kernel gives the free ports of the usual one to listeners and connections of
/// other tests at any time.
fn free_addr() -> SocketAddr {
    let any_port = if cfg!(target_os = "linux") { ([127, 0, 0, 2], 0).into() } else { loopback() };
    TcpListener::bind(any_port).unwrap().local_addr().unwrap()
}

/// Bug: of two threads that add one node, the loser kept its port, and answered there. Mechanism:
/// the agent began to listen before the node was entered, and nothing stopped the agent. Fix: the
/// agent starts after the node is entered, and a refused entry closes the listener.
#[test]
fn a_refused_second_host_of_a_node_leaves_no_listener() {
    for _ in 0..50 {
        let fabric = TcpFabric::new(TcpConfig::new(secret())).unwrap();
        let barrier = Barrier::new(2);
        let host = |addr: SocketAddr| {
            let region = Region::zeroed(4096).unwrap();
            barrier.wait();
            fabric.serve_memory(MEMORY, region, addr)
        };
        let addrs = [free_addr(), free_addr()];
        let hosts = std::thread::scope(|scope| {
            let host = &host;
            addrs.map(|addr| scope.spawn(move || host(addr))).map(|host| host.join().unwrap())
        });
        assert_eq!(hosts.iter().filter(|host| host.is_ok()).count(), 1, "{hosts:?}");
        for (host, addr) in hosts.iter().zip(addrs) {
            let Err(error) = host else { continue };
            assert!(matches!(error, TcpError::KnownPeer { .. }), "{error}");
            TcpListener::bind(addr).expect("the port of the refused host is free");
        }
        assert_eq!(fabric.connections(), 0);
    }
}
