//! The cache of a compute node: frames with their state words, the index from address to frame, and
//! replacement. The cache contains no protocol: the layer above decides the ownership of each line,
//! and publishes the ownership in the frame. This layer is called *the protocol* below.
//!
//! ```text
//!   address ──► Index ──► Frame header (128 B)            Arena (registered with the fabric)
//!                         ┌──────────────────────────┐    ┌───────────────┐
//!                         │ state | addr | use | hints ─┐ │ line of frame │  LINE_HEADER bytes of
//!                         ├──────────────────────────┤  │ │               │  the pool, then payload
//!                         │ dirty | reservations     │  │ └───────────────┘
//!                         └──────────────────────────┘  └► frames of the lines that this one leads to
//! ```
//!
//! Invariants:
//!
//! - A read hit writes no shared memory except the time of the last use. [`OptimisticRead`] loads
//!   the state, reads, and loads the state again. The replacement policy notes a use once in a
//!   replacement epoch, or with LRU at every hit: see [`ReplacementPolicy`].
//! - The bytes of a frame change only while its state is latched (a local writer) or invalid (a
//!   verb fills the frame). The counter in the state changes with every change of the bytes and
//!   every loss of the right to read them. So equal states mean the same copy.
//! - Frames, headers, index, hints and free lists together stay within the limit given to
//!   [`Cache::with_memory`].
//!
//! ```
//! use latchwork_cache::{Cache, Ownership};
//! use latchwork_verbs::{GlobalAddr, MemoryNodeId};
//!
//! let cache = Cache::with_memory(1 << 20, 2048, 2)?;
//! let addr = GlobalAddr::new(MemoryNodeId(0), 1 << 20);
//! let id = cache.attach(addr).expect("a new cache has free frames");
//! assert!(cache.try_read(addr).is_none(), "no right to read it yet");
//! cache.frame(id).publish(Ownership::Exclusive);
//! let mut guard = cache.try_write(addr).expect("owned exclusively");
//! guard.words().set_u64(0, 7);
//! guard.mark_dirty(0..8);
//! drop(guard);
//! let read = cache.try_read(addr).expect("owned");
//! assert_eq!(read.words().u64(0), 7);
//! assert!(read.validate());
//! # Ok::<(), latchwork_cache::CacheError>(())
//! ```

#![forbid(unsafe_code)]

mod cache;
mod dirty;
mod frame;
mod free;
mod guard;
mod hint;
mod index;
mod lock;
mod replacement;
mod state;

pub use cache::{Cache, CacheError};
pub use dirty::DirtyBounds;
pub use frame::{Frame, FrameId, FrameWatch};
pub use guard::{OptimisticRead, ReadVersion, WriteGuard};
pub use hint::Hint;
pub use latchwork_verbs::LINE_HEADER;
pub use lock::{TryLock, Unlocked};
pub use replacement::ReplacementPolicy;
pub use state::{FrameState, Ownership};
