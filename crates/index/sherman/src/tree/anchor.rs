//! The anchor: the line that identifies a tree, with its lengths and the address of its root.

use std::rc::Rc;

use latchwork_runtime::sync::Arc;
use latchwork_verbs::{GlobalAddr, LINE_HEADER, MemoryNodeId};

use super::lock::Piece;
use super::{Cells, Inner, Resources, Shared, Tree};
use crate::config::LockMemory;
use crate::node::{Check, Content};
use crate::{Config, ShermanError};

/// "SHERMAN" and a version, in ASCII.
const MAGIC: u64 = u64::from_le_bytes(*b"SHERMAN1");

/// The settings that all handles must agree on.
const NAMES: [&str; 7] =
    ["format", "key length", "value length", "node size", "check", "lock memory", "locks"];
/// The offset of the root's address, behind these settings.
const ROOT: u64 = (LINE_HEADER + NAMES.len() * 8) as u64;

/// The buffers of a worker. Each has room for two nodes, for a split.
const BUFFERS: u16 = 64;

fn settings(config: &Config, node_bytes: usize) -> [u64; NAMES.len()] {
    let check = match config.check {
        Check::Words => 0,
        Check::Published => 1,
        Check::Checksum => 2,
    };
    let (memory, words) = match config.lock_memory {
        LockMemory::Node => (0, 0),
        LockMemory::Host => (1, config.locks),
        LockMemory::Chip => (2, config.locks),
    };
    let (key_len, value_len) = (config.key_len as u64, config.value_len as u64);
    [MAGIC, key_len, value_len, node_bytes as u64, check, memory, words]
}

impl Tree {
    /// Makes an empty tree. Other handles open it at its [`anchor`](Tree::anchor).
    ///
    /// # Errors
    /// [`ShermanError::KeyLength`], [`ShermanError::ValueLength`], and failures of the fabric and
    /// of the memory pool.
    pub async fn create(
        resources: Resources,
        shared: &Arc<Shared>,
        config: Config,
    ) -> Result<Tree, ShermanError> {
        let (lines, port) = (resources.lines.clone(), resources.port.clone());
        let handle = resources.handle.clone();
        let anchor = lines.allocate(&port, &handle).await?;
        let root = lines.allocate(&port, &handle).await?;
        let inner = Inner::new(resources, shared, config, anchor)?;
        let leaf = Content::empty(&inner.layout, 0, inner.tag);
        inner.write_new(&inner.node_piece(root, &leaf)).await?;
        let line_size = lines.pool().geometry().line_size() as usize;
        let words = settings(&inner.config, line_size).into_iter().chain([root.bits()]).collect();
        let addr = GlobalAddr::new(anchor.node(), anchor.offset() + LINE_HEADER as u64);
        inner.write_new(&Piece { addr, words }).await?;
        inner.set_root(root);
        Ok(Tree(Rc::new(inner)))
    }

    /// Opens the tree at `anchor`.
    ///
    /// # Errors
    /// [`ShermanError::Mismatch`] when the tree was made with other settings,
    /// [`ShermanError::Corrupt`] when no tree is there, and failures of the fabric.
    pub async fn open(
        resources: Resources,
        shared: &Arc<Shared>,
        config: Config,
        anchor: GlobalAddr,
    ) -> Result<Tree, ShermanError> {
        resources.lines.pool().check_line(anchor)?;
        let node_bytes = resources.lines.pool().geometry().line_size() as usize;
        let inner = Inner::new(resources, shared, config, anchor)?;
        let words = GlobalAddr::new(anchor.node(), anchor.offset() + LINE_HEADER as u64);
        let found = inner.resources.port.read_words(words, NAMES.len()).await?;
        if found[0] != MAGIC {
            return Err(Inner::corrupt(anchor, "no tree begins there"));
        }
        for ((what, &found), wanted) in
            NAMES.iter().zip(&found).zip(settings(&inner.config, node_bytes))
        {
            if found != wanted {
                return Err(ShermanError::Mismatch { what, found, wanted });
            }
        }
        let inner = Rc::new(inner);
        let root = inner.read_root().await?;
        inner.set_root(root);
        Ok(Tree(inner))
    }
}

/// The words of the smallest on-chip memory.
fn chip_words(resources: &Resources) -> Result<u64, ShermanError> {
    let nodes = 0..resources.lines.pool().memory_nodes() as u16;
    let mut least = u64::MAX;
    for node in nodes {
        let extent = resources.port.extent(MemoryNodeId(node));
        match extent.map_or(0, |extent| extent.chip_bytes / 8) {
            0 => return Err(ShermanError::NoChip { node }),
            words => least = least.min(words),
        }
    }
    Ok(least)
}

impl Inner {
    fn new(
        resources: Resources,
        shared: &Arc<Shared>,
        mut config: Config,
        anchor: GlobalAddr,
    ) -> Result<Inner, ShermanError> {
        let line_size = resources.lines.pool().geometry().line_size() as usize;
        let layout = config.layout(line_size)?;
        if config.lock_memory == LockMemory::Chip {
            config.locks = config.locks.min(chip_words(&resources)?);
        }
        let buffers = resources.port.buffers(BUFFERS, 2 * line_size)?;
        // Never 0, so that zeroed memory is no node.
        let tag = (anchor.bits() >> 9) as u32 ^ (anchor.bits() >> 41) as u32 | 1 << 31;
        let (shared, counters) = (Arc::clone(shared), Cells::default());
        Ok(Inner { resources, shared, buffers, layout, config, anchor, tag, counters })
    }

    fn root_addr(&self) -> GlobalAddr {
        GlobalAddr::new(self.anchor.node(), self.anchor.offset() + ROOT)
    }

    /// The address of the root. Roots become children, and stay the first nodes of their levels.
    pub(super) async fn read_root(&self) -> Result<GlobalAddr, ShermanError> {
        let root = self.resources.port.read_word(self.root_addr()).await?;
        let root = GlobalAddr::from_bits(root);
        self.resources.lines.pool().check_line(root)?;
        Ok(root)
    }

    pub(super) fn root_piece(&self, root: GlobalAddr) -> Piece {
        Piece { addr: self.root_addr(), words: vec![root.bits()] }
    }
}
