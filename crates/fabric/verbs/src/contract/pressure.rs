//! The promises on full queues: batches wait for room, and none fails.

use std::sync::{Arc, Mutex};

use super::{COMPUTE_NODES, Harness, MEMORY, Script, compute, local, node};
use crate::address::{MemoryNodeId, Target};
use crate::request::WorkRequest;

/// Thousands of batches are posted at once, far more than a NIC can have in flight: all complete.
pub fn full_send_queues_push_back(harness: &impl Harness) {
    const BATCHES: u64 = 2_000;
    let script = Script::new(node(1), |worker| async move {
        let targets = [MEMORY, Target::Memory(MemoryNodeId(1)), compute(2)];
        let mut tokens = Vec::new();
        for i in 0..BATCHES {
            let requests = [
                WorkRequest::FetchAdd { remote: 0, add: 1 },
                WorkRequest::Read { remote: 64, local: local(64 * (i % 512) as usize, 64) },
                WorkRequest::WriteWord { remote: 8, value: i },
            ];
            let len = 1 + (i % 3) as usize;
            tokens.push(worker.post(targets[(i % 2 + i % 7 / 6) as usize], &requests[..len]));
        }
        for token in tokens {
            assert!(worker.wait(token.expect("never full")).await.is_ok());
        }
        assert_eq!(worker.in_flight(), 0);
        let mut sum = 0;
        for target in targets {
            sum += worker.call(target, &[WorkRequest::FetchAdd { remote: 0, add: 0 }]).await[0];
        }
        assert_eq!(sum, BATCHES);
    });
    harness.run(vec![script]);
}

/// Many senders and one small inbox: every message arrives once and whole, and every batch
/// completes.
pub fn full_inboxes_push_back(harness: &impl Harness) {
    const EACH: u64 = 300;
    let got = Arc::new(Mutex::new(Vec::new()));
    let mut scripts = Vec::new();
    for id in 2..=COMPUTE_NODES {
        scripts.push(Script::new(node(id), move |worker| async move {
            let mut tokens = Vec::new();
            for i in 0..EACH {
                let value = u64::from(id) * EACH + i;
                let write = WorkRequest::WriteWord { remote: 8 * value, value };
                tokens.push(worker.post(compute(1), &[write, worker.message(value)]));
            }
            for token in tokens {
                assert!(worker.wait(token.expect("never full")).await.is_ok());
            }
        }));
    }
    let total = scripts.len() * EACH as usize;
    // Two receivers of one node: any worker may receive any message.
    for _ in 0..2 {
        let (got, region) = (Arc::clone(&got), harness.region(node(1)));
        scripts.push(Script::new(node(1), move |worker| async move {
            while got.lock().expect("no script panicked").len() < total {
                worker.receive(|message| {
                    let value = message.body[0];
                    assert_eq!(message.body[13], !value);
                    assert_eq!(region.words().u64(8 * value as usize), value);
                    got.lock().expect("no script panicked").push(value);
                });
                // Slowly, so that the inbox fills.
                for _ in 0..50 {
                    worker.pause().await;
                }
            }
        }));
    }
    harness.run(scripts);
    let mut got = std::mem::take(&mut *got.lock().expect("no script panicked"));
    got.sort_unstable();
    assert!(got.into_iter().eq(2 * EACH..2 * EACH + total as u64));
}
