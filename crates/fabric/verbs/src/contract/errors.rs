//! The promises on errors: the post reports an error in a batch, and the completion reports a
//! failure of a target.

use super::{
    COMPUTE_NODES, Harness, INBOX_CAPACITY, MEMORY, MEMORY_BYTES, MEMORY_NODES, REGION_BYTES,
    Script, compute, local, node,
};
use crate::address::{LocalBuffer, MemoryNodeId, RegionKey, Target};
use crate::error::VerbError;
use crate::request::{AtomicOutcome, WorkRequest};

/// Bad batches are refused at once with the right error, and none of their requests takes effect.
pub fn a_bad_batch_is_refused_and_does_nothing(harness: &impl Harness) {
    let script = Script::new(node(1), |worker| async move {
        let size = MEMORY_BYTES as u64;
        let good = WorkRequest::FetchAdd { remote: 0, add: 1 };
        let refused = |target, request: WorkRequest| {
            worker.post(target, &[good, request]).expect_err("a bad batch")
        };

        let beyond = |offset, len| VerbError::OutOfBounds { target: MEMORY, offset, len, size };
        let write = |remote| WorkRequest::WriteWord { remote, value: 1 };
        assert_eq!(refused(MEMORY, write(size)), beyond(size, 8));
        assert_eq!(refused(MEMORY, write((1 << 46) - 8)), beyond((1 << 46) - 8, 8));
        let far = refused(MEMORY, write(u64::MAX - 7));
        assert!(matches!(far, VerbError::OutOfBounds { .. }), "{far}");
        let read = WorkRequest::Read { remote: size - 8, local: local(0, 16) };
        assert_eq!(refused(MEMORY, read), beyond(size - 8, 16));

        let misaligned = |offset, len| VerbError::Misaligned { offset, len };
        assert_eq!(refused(MEMORY, write(4)), misaligned(4, 8));
        let read = |local| WorkRequest::Read { remote: 8, local };
        assert_eq!(refused(MEMORY, read(local(0, 12))), misaligned(8, 12));
        assert_eq!(refused(MEMORY, read(local(3, 8))), misaligned(3, 8));

        let end = REGION_BYTES as u64;
        let region = RegionKey(0);
        assert_eq!(
            refused(MEMORY, read(local(REGION_BYTES - 8, 16))),
            VerbError::LocalOutOfBounds { region, offset: end - 8, len: 16, size: end }
        );
        let region = RegionKey(7);
        let unregistered = LocalBuffer { region, offset: 0, len: 8 };
        assert_eq!(refused(MEMORY, read(unregistered)), VerbError::UnknownRegion { region });

        for target in [
            Target::Memory(MemoryNodeId(MEMORY_NODES)),
            Target::Memory(MemoryNodeId(u16::MAX)),
            Target::Compute(node(COMPUTE_NODES + 1), 0),
            Target::Compute(node(2), 7),
        ] {
            assert_eq!(refused(target, write(8)), VerbError::UnknownTarget { target });
        }
        let target = MEMORY;
        assert_eq!(refused(MEMORY, worker.message(1)), VerbError::SendToMemory { target });

        let post =
            |requests: &[WorkRequest]| worker.post(MEMORY, requests).expect_err("a bad batch");
        assert_eq!(post(&[]), VerbError::BatchLength { len: 0 });
        assert_eq!(post(&[write(8); 5]), VerbError::BatchLength { len: 5 });
        assert_eq!(post(&[good; 3]), VerbError::TooManyAtomics { count: 3 });

        for _ in 0..100 {
            worker.pause().await;
        }
        assert_eq!((worker.in_flight(), worker.results()), (0, 0));
        assert_eq!(worker.call(MEMORY, &[good]).await, [0, 0], "a bad batch did something");

        // A message needs no region. Requests that touch memory need one.
        let token = worker.post(Target::Compute(node(2), 7), &[worker.message(1)]);
        assert!(worker.wait(token.expect("no memory is touched")).await.is_ok());
    });
    harness.run(vec![script]);
}

/// Batches for a node that was cut off complete with an error, also batches that wait for room in
/// an inbox.
pub fn a_disconnected_node_fails_its_batches(harness: &impl Harness) {
    let script = Script::new(node(1), |worker| async move {
        let target = compute(2);
        let post = |value| worker.post(target, &[worker.message(value)]).expect("never full");
        let tokens: Vec<_> = (0..3 * INBOX_CAPACITY as u64).map(post).collect();
        // No worker receives. So the inbox fills, and further messages wait at the sender.
        while worker.results() < INBOX_CAPACITY {
            worker.pause().await;
        }
        worker.cut_off(target);
        let mut delivered = 0;
        for token in tokens {
            match worker.wait(token).await {
                Ok(_) => delivered += 1,
                failed => assert_gone(failed, target),
            }
        }
        assert_eq!(delivered, INBOX_CAPACITY);
        let late = worker.post(target, &[WorkRequest::WriteWord { remote: 0, value: 1 }]);
        assert_gone(worker.wait(late.expect("fails later")).await, target);
        assert_eq!(worker.in_flight(), 0);
    });
    harness.run(vec![script]);
    assert_eq!(harness.region(node(2)).words().u64(0), 0, "written after the cut");
}

/// Asserts that the batch failed because `target` is gone. Two errors are right, because not every
/// fabric knows whether it sent a part of the batch.
pub(super) fn assert_gone(result: Result<AtomicOutcome, VerbError>, target: Target) {
    let gone = [VerbError::Disconnected { target }, VerbError::Unreachable { target }];
    assert!(gone.map(Err).contains(&result), "{result:?}");
}
