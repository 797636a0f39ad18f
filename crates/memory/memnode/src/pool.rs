//! [`Pool`]: the superblocks of all memory nodes, as one object.

use std::sync::Arc;

use latchwork_fabric::Port;
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{GlobalAddr, MemoryNodeId};

use crate::{Catalogue, Geometry, PoolError, layout};

/// "LATCHWRK" in ASCII, first byte first.
const MAGIC: u64 = u64::from_le_bytes(*b"LATCHWRK");
/// In place of the magic number while a memory node is formatted.
const FORMATTING: u64 = u64::from_le_bytes(*b"latchwrk");
const VERSION: u64 = 2;
const _: () = assert!(
    MAGIC != FORMATTING && MAGIC != 0 && FORMATTING != 0,
    "a memory node shows its state by its first word"
);

/// The pool of memory nodes that compute nodes share. A `Pool` has the data of the superblocks,
/// which are equal for all compute nodes and never change. Clones are cheap.
///
/// Each memory node starts with a superblock of eight words:
///
/// ```text
///  | magic | format version | pool id | chunk size | line size | chunks | this node | memory nodes |
/// ```
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: u64,
    geometry: Geometry,
    /// Chunks per memory node.
    chunks: Vec<u32>,
}

/// The words of a superblock after the magic number.
#[derive(Clone, Copy)]
struct Superblock {
    version: u64,
    pool: u64,
    chunk_size: u64,
    line_size: u64,
    chunks: u64,
    node: u64,
    nodes: u64,
}

impl Superblock {
    const WORDS: usize = 8;

    fn to_words(self) -> [u64; Self::WORDS - 1] {
        let Superblock { version, pool, chunk_size, line_size, chunks, node, nodes } = self;
        [version, pool, chunk_size, line_size, chunks, node, nodes]
    }

    async fn read(port: &Port, node: MemoryNodeId) -> Result<Superblock, PoolError> {
        let addr = layout::superblock(node);
        let words = port.read_words(addr, Self::WORDS).await?;
        let words: [u64; Self::WORDS] =
            words.try_into().map_err(|_| PoolError::Corrupt { what: "superblock", addr })?;
        let [magic, version, pool, chunk_size, line_size, chunks, this, nodes] = words;
        if magic != MAGIC {
            return Err(PoolError::NotFormatted { node, found: magic });
        }
        if version != VERSION {
            return Err(PoolError::Version { node, found: version, understood: VERSION });
        }
        let expected = u64::from(node.0);
        if this != expected {
            return Err(PoolError::Mismatch { node, what: "number", found: this, expected });
        }
        Ok(Superblock { version, pool, chunk_size, line_size, chunks, node: this, nodes })
    }
}

impl Pool {
    /// Formats memory nodes as a pool. Each entry is a memory node with its number of bytes of
    /// **zeroed** memory. The memory nodes are numbered from 0. `id` distinguishes this pool from
    /// others. One compute node calls this once; the others join.
    ///
    /// A failure, or a future that is dropped before its end, may leave memory nodes that must be
    /// zeroed again.
    ///
    /// # Errors
    /// [`PoolError::MemoryNodes`], [`PoolError::MemoryNodeTooSmall`],
    /// [`PoolError::MemoryNodeTooLarge`], [`PoolError::AlreadyFormatted`], and failures of the
    /// fabric.
    pub async fn format(
        port: &Port,
        nodes: &[(MemoryNodeId, u64)],
        geometry: Geometry,
        id: u64,
    ) -> Result<Pool, PoolError> {
        if nodes.is_empty() || nodes.iter().enumerate().any(|(i, (node, _))| node.0 as usize != i) {
            return Err(PoolError::MemoryNodes);
        }
        let chunks = nodes
            .iter()
            .map(|&(node, bytes)| chunks_in(geometry, node, bytes))
            .collect::<Result<Vec<u32>, PoolError>>()?;
        strict_assert_eq!(chunks.len(), nodes.len());
        strict_assert!(
            chunks.iter().all(|&chunks| chunks > 0),
            "a memory node without a chunk was accepted"
        );
        for &(node, _) in nodes {
            let found = port.compare_swap(layout::superblock(node), 0, FORMATTING).await?;
            if found != 0 {
                return Err(PoolError::AlreadyFormatted { node, found });
            }
        }
        for (&(node, _), &chunks) in nodes.iter().zip(&chunks) {
            let block = Superblock {
                version: VERSION,
                pool: id,
                chunk_size: geometry.chunk_size(),
                line_size: u64::from(geometry.line_size()),
                chunks: u64::from(chunks),
                node: u64::from(node.0),
                nodes: nodes.len() as u64,
            };
            let behind_magic = GlobalAddr::new(node, 8);
            port.write_words(behind_magic, &block.to_words()).await?;
        }
        port.write_word(layout::EPOCH, 1).await?;
        // Memory node 0 last: a node that finds the magic number there finds the whole pool.
        for &(node, _) in nodes.iter().rev() {
            port.write_word(layout::superblock(node), MAGIC).await?;
        }
        Ok(Pool(Arc::new(Inner { id, geometry, chunks })))
    }

    /// Joins the pool that memory node 0 describes.
    ///
    /// # Errors
    /// [`PoolError::NotFormatted`] also while the pool is being formatted: try again then.
    /// [`PoolError::Version`], [`PoolError::Mismatch`], [`PoolError::LineSize`],
    /// [`PoolError::ChunkSize`] and [`PoolError::Corrupt`] when the memory nodes are not one usable
    /// pool, and failures of the fabric.
    pub async fn join(port: &Port) -> Result<Pool, PoolError> {
        let first = Superblock::read(port, layout::FIRST).await?;
        let addr = layout::superblock(layout::FIRST);
        let corrupt = || PoolError::Corrupt { what: "superblock", addr };
        let line_size = u32::try_from(first.line_size).map_err(|_| corrupt())?;
        let geometry = Geometry::new(first.chunk_size, line_size)?;
        let nodes = u16::try_from(first.nodes).map_err(|_| corrupt())?;
        let mut chunks = Vec::new();
        for node in (0..nodes).map(MemoryNodeId) {
            let block =
                if node == layout::FIRST { first } else { Superblock::read(port, node).await? };
            for (what, found, expected) in [
                ("pool id", block.pool, first.pool),
                ("chunk size", block.chunk_size, first.chunk_size),
                ("line size", block.line_size, first.line_size),
                ("number of memory nodes", block.nodes, first.nodes),
            ] {
                if found != expected {
                    return Err(PoolError::Mismatch { node, what, found, expected });
                }
            }
            let addr = layout::superblock(node);
            let corrupt = |_| PoolError::Corrupt { what: "superblock", addr };
            chunks.push(u32::try_from(block.chunks).map_err(corrupt)?);
        }
        if chunks.is_empty() {
            return Err(corrupt());
        }
        Ok(Pool(Arc::new(Inner { id: first.pool, geometry, chunks })))
    }

    /// The number with which the pool was formatted.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Whether `other` is a clone of this value. Two pools with the same id need not be the same
    /// pool.
    pub fn is_clone_of(&self, other: &Pool) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The sizes of chunks and lines.
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    /// The number of memory nodes; they are numbered from 0.
    pub fn memory_nodes(&self) -> usize {
        self.0.chunks.len()
    }

    /// The number of chunks of `node`; 0 when no such memory node exists.
    pub fn chunks(&self, node: MemoryNodeId) -> u32 {
        self.0.chunks.get(usize::from(node.0)).copied().unwrap_or(0)
    }

    /// The number of chunks of all memory nodes together.
    pub fn total_chunks(&self) -> u64 {
        self.0.chunks.iter().map(|&chunks| u64::from(chunks)).sum()
    }

    /// The number of lines of all memory nodes together.
    pub fn total_lines(&self) -> u64 {
        self.total_chunks() * u64::from(self.geometry().lines_per_chunk())
    }

    /// A new view of the pool's catalogue, which has read no entry yet.
    pub fn catalogue(&self) -> Catalogue {
        Catalogue::new()
    }

    /// Checks that `addr` is the address of a line of this pool.
    ///
    /// # Errors
    /// [`PoolError::BadAddress`].
    #[inline]
    pub fn check_line(&self, addr: GlobalAddr) -> Result<(), PoolError> {
        let geometry = self.geometry();
        let known = geometry
            .chunk_index(addr)
            .is_some_and(|index| index < u64::from(self.chunks(addr.node())));
        if known && geometry.is_line(addr) { Ok(()) } else { Err(PoolError::BadAddress { addr }) }
    }
}

/// The number of chunks of a memory node of `bytes` bytes. Chunk space 0, which has the superblock,
/// does not count.
fn chunks_in(geometry: Geometry, node: MemoryNodeId, bytes: u64) -> Result<u32, PoolError> {
    let chunk_size = geometry.chunk_size();
    let least = 2 * chunk_size;
    if bytes < least {
        return Err(PoolError::MemoryNodeTooSmall { node, bytes, chunk_size, least });
    }
    let chunks = bytes / chunk_size - 1;
    strict_assert!(chunks > 0, "a memory node without a chunk was accepted");
    // Offsets have 48 bits, and every chunk needs an owner word in the superblock's chunk space.
    let most = layout::owners_max(chunk_size).min((1 << 48) / chunk_size - 1);
    if chunks > most {
        let most = (most + 1) * chunk_size;
        return Err(PoolError::MemoryNodeTooLarge { node, bytes, chunk_size, most });
    }
    Ok(chunks as u32)
}
