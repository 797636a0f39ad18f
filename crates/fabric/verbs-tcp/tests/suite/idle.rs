//! An idle thread uses no CPU time.
#![cfg(target_os = "linux")]

use std::fs;
use std::thread;
use std::time::Duration;

use latchwork_runtime::{Clock, Time};
use latchwork_verbs::contract::alone;
use latchwork_verbs::contract::parking::Servers;
use latchwork_verbs::{Endpoint as _, Message, Target, WorkRequest};

use crate::common::{Cluster, MEMORY, Mode, finish, node};

const PATIENCE: Duration = Duration::from_secs(60);

#[allow(clippy::disallowed_methods, reason = "the other side of a socket is a matter of real time")]
fn wait(time: Duration) {
    thread::sleep(time);
}

/// The CPU time and the number of voluntary sleeps of all threads of this process whose names begin
/// with `name`. The unit of the time is a tick, mostly 10 ms.
fn used(name: &str) -> (u64, u64) {
    let (mut ticks, mut sleeps) = (0, 0);
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        // A thread may end during the search, so a missing file counts as empty.
        let read = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
        if !read("comm").starts_with(name) {
            continue;
        }
        let stat = read("stat");
        let after = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<u64> = after.split(' ').map(|field| field.parse().unwrap_or(0)).collect();
        // utime and stime are fields 14 and 15. Two fields and a blank stand before these.
        ticks += fields.get(12).unwrap_or(&0) + fields.get(13).unwrap_or(&0);
        let status = read("status");
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
        sleeps +=
            line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0);
    }
    (ticks, sleeps)
}

#[test]
fn messages_wake_a_parked_worker_and_no_other_thread_uses_cpu() {
    if !alone("idle::messages_wake_a_parked_worker_and_no_other_thread_uses_cpu") {
        return;
    }
    let cluster = Cluster::new(Mode::Apart);
    thread::scope(|scope| {
        let servers = Servers::start(scope, &cluster, 1);
        let mut endpoint = cluster.of(node(2)).endpoint(node(2)).unwrap();
        let message = WorkRequest::Send(Message { from: node(2), body: [7; Message::WORDS] });
        let clock = Clock::start();
        for sent in 1..=50 {
            endpoint.post(Target::Compute(node(1), 0), sent, &[message]).unwrap();
            assert!(finish(&mut endpoint, PATIENCE)[0].result.is_ok());
            while servers.received() < sent {
                assert!(clock.now() - Time::ZERO < 10 * PATIENCE, "message {sent} wakes nobody");
                thread::yield_now();
            }
        }
        // Also an established, unused connection to a memory node.
        endpoint.post(MEMORY, 0, &[WorkRequest::FetchAdd { remote: 0, add: 1 }]).unwrap();
        assert!(finish(&mut endpoint, PATIENCE)[0].result.is_ok());
        assert!(endpoint.may_park());

        // On a busy machine the threads need some time to become idle. A thread with periodic wakes
        // never becomes idle.
        let mut seen = Vec::new();
        let is_calm = (0..20).any(|_| {
            wait(Duration::from_millis(100));
            let before = [used("tcp-agent"), used("server")];
            assert!(before[0].1 > 0 && before[1].1 > 0, "the threads are there: {before:?}");
            wait(Duration::from_secs(1));
            let after = [used("tcp-agent"), used("server")];
            seen.push((before, after));
            // The threads use no CPU time and do not wake, within one tick and two sleeps.
            before
                .iter()
                .zip(after)
                .all(|(before, after)| after.0 <= before.0 + 1 && after.1 <= before.1 + 2)
        });
        assert!(is_calm, "{seen:?}");
        assert!(servers.stop() > 10, "it was parked between the messages");
    });
}
