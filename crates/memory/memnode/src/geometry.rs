//! [`Geometry`]: the addresses of lines and of their latch words.

use std::fmt;

use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, MemoryNodeId, WORD};

use crate::PoolError;

/// Sizes of chunks and lines, one pair for the whole pool, and the arithmetic that follows from
/// them.
///
/// A memory node is an array of spaces of `chunk_size` bytes. Space 0 has the superblock and no
/// lines. Each other space is a chunk, so the base of a chunk is any address in the chunk with its
/// low bits cleared. A chunk starts with the **latch table**: word `k` is the latch word of line
/// `k`. The table is rounded up to whole lines, so every line is aligned to its size.
///
/// ```text
///  chunk base
///  |w0|w1|w2| .. |w(n-1)| pad | line 0 | line 1 | .. | line n-1 |
///  <--- latch table, t lines -><--------- n lines -------------->      (t + n) * line_size = chunk_size
/// ```
///
/// ```
/// use latchwork_memnode::Geometry;
/// use latchwork_verbs::{GlobalAddr, MemoryNodeId};
///
/// let geometry = Geometry::new(64 << 10, 512)?;
/// let chunk = geometry.chunk_addr(MemoryNodeId(2), 0);
/// let line = geometry.line_addr(chunk, 5);
/// assert_eq!(geometry.lines_per_chunk(), 126);
/// assert_eq!(geometry.latch_addr(line), GlobalAddr::new(MemoryNodeId(2), chunk.offset() + 5 * 8));
/// # Ok::<(), latchwork_memnode::PoolError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    chunk_shift: u8,
    line_shift: u8,
    table_lines: u32,
    lines: u32,
}

impl Geometry {
    /// Default bytes in a chunk: 8 MiB.
    pub const DEFAULT_CHUNK: u64 = 8 << 20;
    /// Default bytes in a line: 2 KiB (SELCC 8).
    pub const DEFAULT_LINE: u32 = 2 << 10;
    /// Smallest chunk in bytes; the superblock of a memory node fits into it.
    pub const MIN_CHUNK: u64 = 64 << 10;
    /// Largest chunk in bytes.
    pub(crate) const MAX_CHUNK: u64 = 1 << 30;
    /// Smallest line in bytes.
    pub const MIN_LINE: u32 = 512;
    /// Largest line in bytes.
    pub const MAX_LINE: u32 = 64 << 10;
    /// The size of a chunk, its latch table included, is at least this many times the line size.
    const MIN_LINES: u64 = 4;

    const _SIZES: () = assert!(
        Self::MIN_CHUNK.is_power_of_two()
            && Self::MAX_CHUNK.is_power_of_two()
            && Self::MIN_CHUNK <= Self::DEFAULT_CHUNK
            && Self::DEFAULT_CHUNK <= Self::MAX_CHUNK
    );
    const _LINES: () = assert!(
        Self::MIN_LINE <= Self::DEFAULT_LINE
            && Self::DEFAULT_LINE <= Self::MAX_LINE
            && Self::DEFAULT_LINE.is_power_of_two()
    );
    /// The geometry with chunks of `chunk_size` and lines of `line_size` bytes.
    ///
    /// # Errors
    /// [`PoolError::LineSize`] or [`PoolError::ChunkSize`] when a size is not a power of two within
    /// its limits, or the chunk is too small for its lines. The message names a possible size.
    pub fn new(chunk_size: u64, line_size: u32) -> Result<Geometry, PoolError> {
        if !line_size.is_power_of_two() || !(Self::MIN_LINE..=Self::MAX_LINE).contains(&line_size) {
            let wanted = line_size.clamp(Self::MIN_LINE, Self::MAX_LINE).next_power_of_two();
            return Err(PoolError::LineSize { line_size, would_do: wanted });
        }
        let least = Self::MIN_CHUNK.max(Self::MIN_LINES * u64::from(line_size));
        if !chunk_size.is_power_of_two() || !(least..=Self::MAX_CHUNK).contains(&chunk_size) {
            let wanted = chunk_size.clamp(least, Self::MAX_CHUNK).next_power_of_two();
            return Err(PoolError::ChunkSize { chunk_size, line_size, least, would_do: wanted });
        }
        let slots = chunk_size / u64::from(line_size);
        let word = WORD as u64;
        // The smallest t with word * (slots - t) <= t * line_size.
        let table_lines = (word * slots).div_ceil(u64::from(line_size) + word);
        strict_assert!(table_lines > 0 && table_lines < slots, "a chunk has a table and lines");
        strict_assert!(
            (slots - table_lines) * word <= table_lines * u64::from(line_size),
            "each line has a latch word in the table"
        );
        strict_assert!(
            (slots - table_lines + 1) * word > (table_lines - 1) * u64::from(line_size),
            "the table is no longer than needed"
        );
        Ok(Geometry {
            chunk_shift: chunk_size.trailing_zeros() as u8,
            line_shift: line_size.trailing_zeros() as u8,
            table_lines: table_lines as u32,
            lines: (slots - table_lines) as u32,
        })
    }

    /// Bytes in a chunk, a power of two.
    pub const fn chunk_size(self) -> u64 {
        1 << self.chunk_shift
    }

    /// Bytes in a line with its header, a power of two.
    pub const fn line_size(self) -> u32 {
        1 << self.line_shift
    }

    /// Lines in a chunk.
    pub const fn lines_per_chunk(self) -> u32 {
        self.lines
    }

    /// Bytes of the latch words of a chunk; they start at the chunk's base.
    pub const fn latch_table_bytes(self) -> u64 {
        self.lines as u64 * WORD as u64
    }

    /// The base of chunk `index` (counted from 0, without the superblock) of `node`.
    ///
    /// # Panics
    /// When the chunk lies beyond the 48 bits of an offset; [`Pool`](crate::Pool) admits no such
    /// memory node.
    pub const fn chunk_addr(self, node: MemoryNodeId, index: u32) -> GlobalAddr {
        debug_assert!(index < u32::MAX, "the index of no chunk");
        GlobalAddr::new(node, (index as u64 + 1) << self.chunk_shift)
    }

    /// The base of the chunk that `addr` is in.
    pub const fn chunk_of(self, addr: GlobalAddr) -> GlobalAddr {
        GlobalAddr::from_bits(addr.bits() & !(self.chunk_size() - 1))
    }

    /// The index on its memory node of the chunk that `addr` is in; `None` in the superblock.
    pub const fn chunk_index(self, addr: GlobalAddr) -> Option<u64> {
        (addr.offset() >> self.chunk_shift).checked_sub(1)
    }

    /// The address of line `k` of the chunk at base `chunk`.
    pub const fn line_addr(self, chunk: GlobalAddr, k: u32) -> GlobalAddr {
        debug_assert!(k < self.lines, "line index beyond its chunk");
        let within = ((self.table_lines + k) as u64) << self.line_shift;
        GlobalAddr::from_bits(chunk.bits() + within)
    }

    /// The index of `line` in its chunk. `line` must be a line address ([`Geometry::is_line`]).
    pub const fn line_index(self, line: GlobalAddr) -> u32 {
        debug_assert!(self.is_line(line), "not the address of a line");
        self.slot(line) - self.table_lines
    }

    /// The address of the latch word of `line`, which must be a line address
    /// ([`Geometry::is_line`]).
    pub const fn latch_addr(self, line: GlobalAddr) -> GlobalAddr {
        let word = self.line_index(line) as u64 * WORD as u64;
        GlobalAddr::from_bits(self.chunk_of(line).bits() + word)
    }

    /// Whether a line can start at `addr`: aligned, after the latch table, outside the superblock.
    /// [`Pool::check_line`](crate::Pool::check_line) also checks the number and the sizes of the
    /// memory nodes.
    pub const fn is_line(self, addr: GlobalAddr) -> bool {
        addr.offset() >= self.chunk_size()
            && addr.bits() & (self.line_size() as u64 - 1) == 0
            && self.slot(addr) >= self.table_lines
    }

    const fn slot(self, addr: GlobalAddr) -> u32 {
        ((addr.bits() & (self.chunk_size() - 1)) >> self.line_shift) as u32
    }
}

impl Default for Geometry {
    fn default() -> Self {
        match Geometry::new(Self::DEFAULT_CHUNK, Self::DEFAULT_LINE) {
            Ok(geometry) => geometry,
            Err(_) => unreachable!("the default sizes are valid"),
        }
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (chunk, line) = (self.chunk_size() >> 10, self.line_size());
        write!(f, "chunks of {chunk} KiB with {} lines of {line} bytes", self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Geometry> {
        (16..=30u32)
            .flat_map(|c| (9..=16u32).map(move |l| Geometry::new(1 << c, 1 << l)))
            .filter_map(Result::ok)
    }

    #[test]
    fn the_latch_table_ends_before_the_first_line_and_lines_fill_the_chunk() {
        assert!(all().count() > 100);
        for g in all() {
            let chunk = g.chunk_addr(MemoryNodeId(3), 7);
            let first = g.line_addr(chunk, 0);
            let last = g.line_addr(chunk, g.lines_per_chunk() - 1);
            assert!(chunk.offset() + g.latch_table_bytes() <= first.offset(), "{g}");
            let end = last.offset() + u64::from(g.line_size());
            assert_eq!(end, chunk.offset() + g.chunk_size(), "{g}");
            // A table that is one line smaller would not be enough.
            let spare = first.offset() - chunk.offset() - u64::from(g.line_size());
            assert!(spare < g.latch_table_bytes() + WORD as u64, "{g}");
        }
    }

    #[test]
    fn every_line_has_its_own_latch_word_in_its_own_chunk() {
        let g = Geometry::new(64 << 10, 512).unwrap();
        for index in [0, 1, 9] {
            let chunk = g.chunk_addr(MemoryNodeId(1), index);
            for k in 0..g.lines_per_chunk() {
                let line = g.line_addr(chunk, k);
                assert!(g.is_line(line));
                assert_eq!(g.line_index(line), k);
                assert_eq!(g.chunk_of(line), chunk);
                assert_eq!(g.chunk_index(line), Some(u64::from(index)));
                assert_eq!(g.latch_addr(line).offset(), chunk.offset() + u64::from(k) * 8);
                assert_eq!(g.latch_addr(line).node(), MemoryNodeId(1));
            }
        }
    }

    #[test]
    fn addresses_that_are_no_line_are_distinguished() {
        let g = Geometry::new(64 << 10, 512).unwrap();
        let node = MemoryNodeId(4);
        let chunk = g.chunk_addr(node, 0);
        assert!(!g.is_line(GlobalAddr::NULL));
        assert!(!g.is_line(GlobalAddr::new(node, 4096)), "superblock");
        assert!(!g.is_line(chunk), "latch table");
        assert!(
            !g.is_line(GlobalAddr::new(node, chunk.offset() + 512)),
            "second line of the table"
        );
        assert!(g.is_line(GlobalAddr::new(node, chunk.offset() + 1024)));
        assert!(!g.is_line(GlobalAddr::new(node, chunk.offset() + 1032)), "unaligned");
        assert_eq!(g.chunk_index(GlobalAddr::new(node, 4096)), None);
    }

    #[test]
    fn impossible_sizes_are_refused_with_sizes_that_would_do() {
        for (chunk, line) in [
            (0, 0),
            (1 << 20, 511),
            (1 << 20, 768),
            (1 << 20, 1 << 17),
            (100_000, 512),
            (4096, 512),
            (64 << 10, 64 << 10),
            (1 << 40, 2048),
            (u64::MAX, u32::MAX),
        ] {
            let (mut chunk, mut line) = (chunk, line);
            // Following the advice leads to a valid geometry.
            for attempt in 0.. {
                match Geometry::new(chunk, line) {
                    Ok(_) if attempt > 0 => break,
                    Err(PoolError::LineSize { would_do, .. }) => line = would_do,
                    Err(PoolError::ChunkSize { would_do, .. }) => chunk = would_do,
                    other => panic!("{chunk} {line}: {other:?}"),
                }
                assert!(attempt < 2);
            }
        }
    }
}
