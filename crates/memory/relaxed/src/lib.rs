//! Relaxed consistency: writes that return at once and become visible later (SELCC 6.2).
//!
//! Coherent memory is sequentially consistent: a write waits until its node has the line and every
//! other copy is invalid. A [`WriteBuffer`] stands between a worker and that memory. A blind write,
//! which reads nothing, enters the buffer and returns. The buffer requests the lines of a batch of
//! writes in parallel, so their invalidations and transfers overlap. Several writes to one line
//! become one access.
//!
//! ```text
//!   write ──► buffer ──(batch full, batch delay, flush, no room)──► drain tasks: ensure ─► applied
//!               ▲                                                                   visible to all
//!   read ───────┴─ bytes of own buffered writes; all other bytes from coherent memory
//! ```
//!
//! # Levels
//!
//! | can this be seen? | [`Sequential`](Consistency::Sequential) | [`Tso`](Consistency::Tso) | [`Pso`](Consistency::Pso) |
//! | --- | --- | --- | --- |
//! | a worker reads before its earlier write to another line is visible (SB, R) | never | yes | yes |
//! | a worker's later write is visible before its earlier write to another line (MP, S, 2+2W) | never | never | yes |
//! | a worker's later write is visible before its earlier write to the same line | never | never | never |
//! | a part of a write is visible before the rest | never | never | never |
//! | two readers see two writes in different orders (IRIW, WRC) | never | never | never |
//! | a reader sees an older value of a line after a newer one (CoRR) | never | never | never |
//! | a worker does not see its own earlier write | never | never | never |
//! | a worker reads a value that depends on its own later write (LB) | never | never | never |
//! | a write whose deadline has passed is not visible | never | only if it was lost | only if it was lost |
//!
//! `Tso` is total store order and `Pso` partial store order (SPARC Architecture Manual 8, appendix
//! K; Owens, Sarkar and Sewell, "A Better x86 Memory Model: x86-TSO", 2009), with a line as the
//! location. Writes are multi-copy atomic at every level, because they become visible by an
//! exclusive access to the coherent line. [`WriteBuffer::flush`] is a full memory fence.
//! [`WriteBuffer::update`] is an atomic operation that no write passes. The names of the litmus
//! tests are those of Alglave, Maranget and Tautschnig, "Herding Cats", 2014;
//! `tests/suite/litmus.rs` has all of them.
//!
//! # When writes are merged
//!
//! - `Pso`: with any write in the buffer to the same line.
//! - `Tso`, in the buffer: with the previous write, if that write is to the same line. Take writes
//!   to the lines A, B and A. A merge of the first and the third would show the third before B, or
//!   the first after B.
//! - `Tso`, as writes become visible: a group of the oldest writes is applied at one instant, while
//!   the latches of all its lines are held. Within a group, all writes to one line are one access
//!   (as in the atomic groups of stores of Ros and Kaxiras, "Non-Speculative Store Coalescing in
//!   Total Store Order", 2018). The latches are taken without a wait. A write to a further line
//!   ends the group if that write is not due, if the line is not at the node, or if another task
//!   holds the latch. A group has at most 32 lines.
//!
//! # What holds
//!
//! - A write is visible to all nodes at most [`WriteBufferSettings::deadline`] after it was issued,
//!   or it is lost. A loss is reported exactly once, with its line and its bytes: by the next call
//!   that can fail, or by the function given to [`WriteBuffer::new`]. With `Tso`, the writes after
//!   a lost one are lost too, so the visible writes are always a prefix of the issued ones. With
//!   `Pso`, only the writes that were merged into the same access are lost. The buffer refuses new
//!   writes until the loss is reported.
//! - After a dropped future, a write was issued or not, and a flush continues by itself. At
//!   `Sequential`, a dropped write may have taken effect or not.
//! - A dropped buffer still carries out its writes, as long as the executor of its worker runs.
//! - The buffer is bounded: a write to a full buffer waits for room. A write during an update waits
//!   for the end of that update. The next update waits until the buffer has taken that write. Both
//!   of these waits end at a deadline.
//! - No drain task waits for a line while it keeps another line. A line that arrives before its
//!   turn stays in the cache, and other nodes may take the line before the turn comes. SEL releases
//!   a line after each access. So with SEL the drain task of an early line keeps the line for its
//!   turn. The drain task releases the line when no write has become visible for
//!   [`WriteBufferSettings::hold`] or longer.
//! - A line that is freed while the buffer has writes to it is not reused before these writes are
//!   applied or lost.
//!
//! The buffer works over any [`CoherentMemory`](latchwork_coherence::CoherentMemory). A reader that
//! does not use the buffer does not see the writes in it.
//!
//! # Example
//!
//! ```
//! use latchwork_cluster::{ClusterConfig, Member, Simulated};
//! use latchwork_coherence::CoherentMemory;
//! use latchwork_relaxed::{Consistency, RelaxedError, WriteBuffer, WriteBufferSettings};
//!
//! async fn fill(member: Member) -> Result<(), RelaxedError> {
//!     let consistency = Consistency::Tso;
//!     let settings = WriteBufferSettings { consistency, ..WriteBufferSettings::default() };
//!     let buffer = WriteBuffer::new(member.memory.clone(), settings, |lost| eprintln!("{lost}"))
//!         .expect("good settings");
//!     let line = member.memory.allocate().await?;
//!     buffer.write(line, 0, b"hello").await?;
//!     let mut seen = [0; 5];
//!     buffer.read(line, 0, &mut seen).await?; // its own write, visible or not
//!     assert_eq!(&seen, b"hello");
//!     buffer.leave().await
//! }
//!
//! let config = ClusterConfig { cache_bytes: 1 << 20, memory_bytes: 32 << 20, ..Default::default() };
//! let cluster = Simulated::start(config, Default::default()).expect("a cluster");
//! let limit = std::time::Duration::from_secs(1);
//! for end in cluster.run(limit, fill).expect("no worker fails") {
//!     end.expect("nothing is lost");
//! }
//! ```

#![forbid(unsafe_code)]

mod buffer;
mod counts;
mod drain;
mod error;
mod pieces;
mod queue;
mod settings;
mod shared;
mod signal;
mod updates;

pub use buffer::WriteBuffer;
pub use counts::WriteBufferCounts;
pub use error::{LossCause, LostWrite, LostWrites, RelaxedError};
pub use settings::{Consistency, WriteBufferSettings, WriteBufferSettingsError};
