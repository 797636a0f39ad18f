//! The errors of programs, as a `main` that returns them prints them.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use latchwork::cluster::Transport;
use latchwork::membership::{Joining, Membership, MemoryStore, Role};
use latchwork::verbs_tcp::{Secret, Security, TcpConfig};
use latchwork::{Cluster, ClusterConfig, Error, Result};

use crate::ends_with;
use crate::examples::{LONG, this_test, two_processes};

#[test]
fn a_process_whose_peers_do_not_come_ends_with_a_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let endpoint = |name: &str| format!("file:{}/{name}", directory.path().display());
    let short = Duration::from_millis(100);
    ends_with(
        two_processes::compute(&endpoint("one"), short),
        &["0 memory nodes, and 1 are wanted"],
    );
    // Again in the same directory: a process that gave up has left.
    for _ in 0..2 {
        let alone = two_processes::memory_and_compute(&endpoint("two"), short);
        ends_with(alone, &["1 of 2 compute nodes came within 100ms (C1)"]);
    }
    let mut second = this_test("examples::second");
    let ended = two_processes::both(&endpoint("three"), second.stdout(Stdio::null()), short);
    ends_with(ended, &["1 of 2 compute nodes came within 100ms (C1)"]);
}

#[test]
fn an_address_that_cannot_be_ends_a_program_with_a_sentence() {
    let store = "write etcd://HOST:PORT/CLUSTER or file:/DIRECTORY/CLUSTER";
    ends_with(two_processes::compute("nowhere", LONG), &[store]);
    ends_with(two_processes::compute("file:/not-there/two", LONG), &["/not-there is not there"]);
    let at = |listen: &str| -> Result<Cluster> {
        let store = Arc::new(MemoryStore::new());
        let membership = Membership::join(store, "test", Joining::new(Role::Compute))?;
        let config = TcpConfig::new(Security::Secret(Secret::random()?));
        let listen = listen.parse().map_err(Error::program)?;
        let transport = Transport::Tcp { config: Box::new(config), listen, advertise: None };
        Cluster::join(ClusterConfig::default(), &transport, membership, LONG)
    };
    ends_with(at("localhost"), &["invalid socket address"]);
    ends_with(at("0.0.0.0:0"), &["0.0.0.0:0 must say under which address others reach it"]);
    // An address for documentation, which no machine has.
    ends_with(at("192.0.2.1:0"), &["cannot listen at 192.0.2.1:0"]);
}

#[test]
fn settings_that_cannot_be_end_a_program_with_a_sentence() {
    let set = |name, value| -> Result<Cluster> {
        let mut config = ClusterConfig::default();
        config.set(name, value)?;
        config.check()?;
        Cluster::start(config)
    };
    ends_with(set("nonsense", "1"), &["there is no setting nonsense"]);
    let none = Cluster::start(ClusterConfig { compute_nodes: 0, ..ClusterConfig::default() });
    ends_with(none, &["compute nodes"]);
    ends_with(std::fs::read("/not-there").map_err(Error::from), &["No such file"]);
}
