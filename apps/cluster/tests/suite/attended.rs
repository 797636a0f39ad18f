//! What `cluster attend` does when its process is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::thread::park_timeout;
use std::time::Duration;

use latchwork_membership::{Joining, MemberState, Membership, NodeName, Role};
use tempfile::TempDir;

use crate::common::CLUSTER;

/// Far longer than the test.
const LEASE: Duration = Duration::from_secs(300);
const JOINED: &str = "node: joined";

fn join(endpoint: &str) -> Membership {
    let (store, cluster) = latchwork_membership::open(endpoint).expect("a store");
    let joining = Joining { ttl: LEASE, ..Joining::new(Role::Compute) };
    Membership::join(store, &cluster, joining).expect("an id")
}

#[test]
#[ignore = "what the other test starts as a process of its own"]
fn what_a_node_does() {
    let Some(endpoint) = std::env::args().skip_while(|word| word != "--join").nth(1) else {
        return;
    };
    let _node = join(&endpoint);
    eprintln!("{JOINED}");
    park_timeout(LEASE);
}

#[test]
fn the_lease_of_a_killed_process_is_ended_where_no_other_node_sees_it() {
    let directory = TempDir::new().expect("a directory");
    let endpoint = format!("file:{}/store", directory.path().display());
    let own = std::env::current_exe().expect("this program");
    let node = ["attended::what_a_node_does", "--exact", "--ignored", "--nocapture"];
    let mut attend = Command::new(CLUSTER)
        .args(["attend", "--"])
        .arg(own)
        .args(node)
        .args(["--", "--join", &endpoint])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(attend.stderr.take().expect("a pipe")).lines();
    assert!(said.any(|line| line.expect("text").contains(JOINED)), "it has not joined");
    writeln!(attend.stdin.as_mut().expect("a pipe"), "9").expect("it reads");
    assert_eq!(attend.wait().expect("it ends").code(), Some(128 + 9));
    let view = join(&endpoint).view();
    let node: NodeName = "C1".parse().expect("a name");
    assert_eq!(view.state(node), Some(MemberState::Dead));
}
