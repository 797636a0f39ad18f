//! [`Buffer`]: bytes from a socket that have arrived and are not used yet.

use latchwork_strict::strict_assert;

/// In bytes: the first size of a buffer (`FIRST`), and the size to which a buffer grows when reads
/// fill it (`USUAL`). Only a longer frame makes a buffer larger.
const FIRST: usize = 8 << 10;
const USUAL: usize = 64 << 10;
const _: () = assert!(FIRST <= USUAL, "the first room is the usual one at most");

/// Bytes from a socket. The buffer grows with the bytes that arrive, and beyond the usual size only
/// for a longer frame.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(crate) fn new() -> Self {
        Buffer { bytes: Vec::new(), start: 0, end: 0 }
    }

    /// The bytes that are not used yet.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The room behind the unused bytes. While there are fewer than `max` unused bytes, the room
    /// has at least one byte.
    pub(crate) fn room(&mut self, max: usize) -> &mut [u8] {
        if self.start > 0 {
            strict_assert!(
                self.start <= self.end && self.end <= self.bytes.len(),
                "a buffer ends before it begins"
            );
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            let more = (2 * self.bytes.len()).clamp(FIRST, max.max(FIRST));
            self.bytes.resize(more, 0);
        }
        strict_assert!(
            self.start == 0 && self.end <= self.bytes.len(),
            "room before the bytes that wait"
        );
        &mut self.bytes[self.end..]
    }

    /// Marks `count` bytes of the room as arrived.
    pub(crate) fn filled(&mut self, count: usize) {
        self.end += count;
        strict_assert!(self.end <= self.bytes.len(), "more is read than there was room for");
        // The read has filled the room, so the next read gets more room.
        if self.end == self.bytes.len() && self.bytes.len() < USUAL {
            self.bytes.resize((2 * self.bytes.len()).min(USUAL), 0);
        }
    }

    /// Marks `count` bytes at the front as used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Releases the extra memory of a long frame when all bytes are used.
    pub(crate) fn settle(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > USUAL {
                self.bytes.truncate(USUAL);
                self.bytes.shrink_to_fit();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_in_order_while_the_buffer_grows_moves_and_shrinks() {
        let (mut buffer, mut next, mut seen) = (Buffer::new(), 0_u8, 0_u8);
        for step in 1..2000 {
            let room = buffer.room(256 << 10);
            let count = (step * 37 % 9000).min(room.len());
            for byte in &mut room[..count] {
                *byte = next;
                next = next.wrapping_add(1);
            }
            buffer.filled(count);
            let used = if step % 50 == 0 { buffer.bytes().len() } else { buffer.bytes().len() / 2 };
            for &byte in &buffer.bytes()[..used] {
                assert_eq!(byte, seen);
                seen = seen.wrapping_add(1);
            }
            buffer.consume(used);
            buffer.settle();
            assert!(buffer.bytes.len() <= 256 << 10);
        }
        let rest = buffer.bytes().len();
        buffer.consume(rest);
        buffer.settle();
        assert!(buffer.bytes.len() <= USUAL);
    }

    #[test]
    #[should_panic(expected = "more is read than there was room for")]
    fn a_read_beyond_the_room_is_found() {
        let mut buffer = Buffer::new();
        let room = buffer.room(256 << 10).len();
        buffer.filled(room + 1);
    }
}
