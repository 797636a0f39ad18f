//! The promises on the on-chip memory of a memory node's NIC.

use super::{CHIP_BYTES, Harness, MEMORY, MEMORY_BYTES, Script, local, node};
use crate::address::{CHIP_BASE, MemoryNodeId, Target};
use crate::error::VerbError;
use crate::request::WorkRequest;

/// A batch reads, writes and changes words in both ranges, and each request reaches the range that
/// it addresses, up to the last word. A request beyond the end of a range is refused, also where
/// the on-chip memory has no byte.
pub fn requests_reach_the_range_that_they_address(harness: &impl Harness) {
    if !harness.has_chip() {
        return;
    }
    let region = harness.region(node(1));
    let script = Script::new(node(1), move |worker| async move {
        let words = region.words();
        for (word, value) in [(0, 11), (1, 12), (8, 21), (9, 22)] {
            words.set_word(word, value);
        }
        let write = |remote, offset| WorkRequest::Write { remote, local: local(offset, 16) };
        let read = |remote, offset| WorkRequest::Read { remote, local: local(offset, 16) };
        let end = CHIP_BASE + CHIP_BYTES as u64 - 16;
        // The last words of the other memory are the neighbours of the first words on chip, where
        // one region has both.
        let last = MEMORY_BYTES as u64 - 16;
        let both = [write(last, 0), write(CHIP_BASE, 64), read(CHIP_BASE, 128), read(last, 192)];
        worker.call(MEMORY, &both).await;
        let found = |offset| [words.u64(offset), words.u64(offset + 8)];
        assert_eq!([found(128), found(192)], [[21, 22], [11, 12]]);

        let swap = |remote, expected| WorkRequest::CompareSwap { remote, expected, desired: 5 };
        let add = |remote| WorkRequest::FetchAdd { remote, add: 7 };
        assert_eq!(worker.call(MEMORY, &[swap(CHIP_BASE, 21)]).await[0], 21);
        assert_eq!(worker.call(MEMORY, &[add(CHIP_BASE)]).await[0], 5);
        assert_eq!(worker.call(MEMORY, &[swap(CHIP_BASE, 5), add(last)]).await, [12, 11]);
        let word = |remote, value| WorkRequest::WriteWord { remote, value };
        let all = [word(end + 8, 9), add(end + 8), read(end, 128), read(CHIP_BASE, 192)];
        assert_eq!(worker.call(MEMORY, &all).await, [9, 0]);
        assert_eq!([found(128), found(192)], [[0, 16], [12, 22]]);
        worker.call(MEMORY, &[read(0, 128), read(last, 192)]).await;
        assert_eq!([found(128), found(192)], [[0, 0], [18, 12]]);

        let refused = |target, request| worker.post(target, &[add(0), request]).expect_err("bad");
        let target = MEMORY;
        for (offset, len) in [(end + 16, 8), (end + 8, 16), (u64::MAX - 7, 8)] {
            let size = CHIP_BYTES as u64;
            let request = if len == 8 { add(offset) } else { read(offset, 0) };
            let error = VerbError::OutOfBounds { target, offset, len, size };
            assert_eq!(refused(target, request), error);
        }
        let (offset, len) = (CHIP_BASE - 8, 8);
        let error = VerbError::OutOfBounds { target, offset, len, size: MEMORY_BYTES as u64 };
        assert_eq!(refused(target, add(offset)), error);
        let target = Target::Memory(MemoryNodeId(1));
        let (offset, size) = (CHIP_BASE, 0);
        let error = VerbError::OutOfBounds { target, offset, len, size };
        assert_eq!(refused(target, add(offset)), error);
        assert!(error.to_string().starts_with("bytes 0+8 are beyond the 0 bytes of on-chip"));
        assert_eq!(worker.call(MEMORY, &[add(0)]).await[0], 0, "a refused batch did something");
    });
    harness.run(vec![script]);
}
