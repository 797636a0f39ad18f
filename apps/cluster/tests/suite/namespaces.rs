//! Nodes in network namespaces. If namespaces are not permitted, the test prints so and ends.

use crate::common;
use crate::common::{Place, script};

/// A program that prints its address, and whether it reaches the other nodes.
const PROGRAM: &str = r#"#!/bin/sh
listen= json= id=
while [ $# -gt 0 ]; do
    case $1 in
        --listen) listen=${2%:0} ;;
        node-id=*) id=${1#*=} ;;
        --json) json=$2 ;;
    esac
    shift
done
ip -4 -o address show | grep -q "eth0.* $listen/24" || { echo "program: $listen is not mine" >&2; exit 1; }
# Its neighbour answers who has that address: the bridge carries frames.
for number in 1 2 3; do
    [ "10.78.0.$number" = "$listen" ] || (echo >/dev/tcp/10.78.0.$number/9) 2>/dev/null
    ip route get "10.78.0.$number" >/dev/null || exit 1
done
if ip route get 192.0.2.1 2>/dev/null; then echo "program: there is a way outside" >&2; exit 1; fi
[ "$id" != 1 ] || echo '{}' >"$json"
"#;

#[test]
fn each_node_has_an_address_of_its_own_and_no_way_outside() {
    let place = Place::new();
    script(&place.path("program"), PROGRAM);
    let ended = place.run("--on namespaces", "");
    if ended.status == Some(2) && ended.err.contains("not permitted here") {
        eprintln!("skipped: {}", ended.err.trim());
        return;
    }
    assert_eq!(ended.status, Some(0), "{}", ended.err);
}

#[test]
fn namespaces_are_removed_with_a_killed_command() {
    let place = Place::new();
    let running = place.start_run("--on namespaces", "hangs");
    let begun = || {
        std::fs::read_to_string(place.path("results/C2.err"))
            .is_ok_and(|text| text.contains("begun"))
    };
    assert!(common::wait_until(|| begun() || running.is_over()));
    if !begun() {
        eprintln!("skipped: {}", running.wait().err.trim());
        return;
    }
    let own = std::fs::read_link("/proc/self/ns/net").expect("a namespace");
    let elsewhere =
        |pid: &u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|of| of != own);
    let inside = running.processes().into_iter().filter(elsewhere).count();
    assert!(inside >= 4, "the holder, a memory node, two programs: {inside}");
    running.signal("KILL");
    assert_eq!(running.wait().status, None, "no process is left, so no namespace is");
}
