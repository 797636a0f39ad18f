//! The promises on early ends: a worker drops its endpoint, or a memory node is cut off.

use super::errors::assert_gone;
use super::{Harness, MEMORY, Script, node};
use crate::address::{MemoryNodeId, Target};
use crate::error::VerbError;
use crate::request::WorkRequest;

/// Dropping an endpoint takes back posted batches that were not rung. Batches that were rung take
/// effect.
pub fn a_dropped_endpoint_takes_back_what_was_not_rung(harness: &impl Harness) {
    // Batches that are rung count in the low half of the word. A batch that was not rung would
    // count in the high half.
    const NOT_RUNG: u64 = 1 << 32;
    let add = |add| [WorkRequest::FetchAdd { remote: 0, add }];
    let rounds = harness.rounds().min(10);
    for round in 1..=rounds {
        let script = Script::new(node(1), move |worker| async move {
            // After this call the connection exists.
            worker.call(MEMORY, &add(1)).await;
            worker.post(MEMORY, &add(1)).expect("a batch that is right");
            worker.pause().await;
            worker.post(MEMORY, &add(NOT_RUNG)).expect("a batch that is right");
            worker.abandon();
        });
        harness.run(vec![script]);
        let script = Script::new(node(1), move |worker| async move {
            while worker.call(MEMORY, &add(0)).await[0] % NOT_RUNG < 2 * round {
                worker.pause().await;
            }
            for _ in 0..20 {
                assert_eq!(worker.call(MEMORY, &add(0)).await[0], 2 * round);
            }
        });
        harness.run(vec![script]);
    }
}

/// Batches for a memory node that was cut off complete with an error. Batches in flight complete,
/// with or without an error. Other nodes can be reached as before.
pub fn a_memory_node_that_vanishes_fails_its_batches(harness: &impl Harness) {
    const POSTED: u64 = 64;
    let memory = harness.memory(MemoryNodeId(0));
    let script = Script::new(node(1), |worker| async move {
        let other = Target::Memory(MemoryNodeId(1));
        let add = [WorkRequest::FetchAdd { remote: 0, add: 1 }];
        worker.call(MEMORY, &add).await;
        let post = |_| worker.post(MEMORY, &add).expect("a batch that is right");
        let mut tokens: Vec<_> = (0..POSTED / 2).map(post).collect();
        worker.pause().await;
        tokens.extend((POSTED / 2..POSTED).map(post));
        worker.cut_off(MEMORY);
        let mut done = 1;
        for token in tokens {
            match worker.wait(token).await {
                Ok(_) => done += 1,
                Err(VerbError::Ambiguous { target }) => assert_eq!(target, MEMORY),
                failed => assert_gone(failed, MEMORY),
            }
        }
        for request in [add[0], WorkRequest::WriteWord { remote: 8, value: done }] {
            match worker.post(MEMORY, &[request]) {
                Ok(token) => assert_gone(worker.wait(token).await, MEMORY),
                Err(error) => panic!("what becomes of a target is told later: {error}"),
            }
        }
        assert_eq!(worker.in_flight(), 0);
        for before in 0..10 {
            assert_eq!(worker.call(other, &add).await, [before, 0]);
        }
        assert!(done <= POSTED);
        worker.call(other, &[WorkRequest::WriteWord { remote: 8, value: done }]).await;
    });
    harness.run(vec![script]);
    let done = harness.memory(MemoryNodeId(1)).words().u64(8);
    let words = memory.words();
    let counted = words.u64(0);
    assert!((done..=1 + POSTED).contains(&counted), "{done} told, {counted} counted");
    assert_eq!(words.u64(8), 0, "written after the end");
}
