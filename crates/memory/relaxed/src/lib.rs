//! Relaxed consistency: writes that return at once and become visible later (SELCC 6.2).
//!
//! Coherent memory is sequentially consistent: a write waits until the line is here and every other
//! copy is invalid. A [`WriteBuffer`] stands between a worker and that memory. A blind write enters
//! the buffer and returns. The lines of a batch of writes are obtained in parallel, so
//! invalidations and transfers overlap. Several writes to one line become one access.
//!
//! ```text
//!   write ──► buffer ──(batch full, batch delay, flush, no room)──► drain tasks: ensure ─► applied
//!               ▲                                                                   visible to all
//!   read ───────┴─ own writes first; what is not here comes from coherent memory
//! ```
//!
//! # Levels
//!
//! | may a reader see ... | [`Sequential`](Consistency::Sequential) | [`Tso`](Consistency::Tso) | [`Pso`](Consistency::Pso) |
//! | --- | --- | --- | --- |
//! | that a worker read before its earlier write to another line was visible (SB, R) | never | yes | yes |
//! | a later write of a worker, and not its earlier one to another line (MP, S, 2+2W) | never | never | yes |
//! | a later write of a worker, and not its earlier one to the same line | never | never | never |
//! | a part of a write | never | never | never |
//! | two writes in one order, while another reader sees them in the other (IRIW, WRC) | never | never | never |
//! | a line go back in time (CoRR) | never | never | never |
//! | its own worker's write not yet | never | never | never |
//! | a worker's read after its own later write (LB) | never | never | never |
//! | that a write is not there, later than the deadline after it was issued | never | only if it was lost | only if it was lost |
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
//! - `Tso`, in the buffer: with the previous write, if that write is to the same line. A merge
//!   across a write to another line would show one of the two too early, or the other too late.
//! - `Tso`, as writes become visible: the first writes of the buffer whose lines are all here are
//!   applied at one instant, under all their latches together. Within such a group, writes to one
//!   line are one access, wherever they stand (like the atomic groups of stores of Ros and Kaxiras,
//!   "Non-Speculative Store Coalescing in Total Store Order", 2018). Latches are taken without
//!   waiting. The group ends at the first write that needs a further latch and is not due or cannot
//!   get the latch. A group has at most 32 lines.
//!
//! # What holds
//!
//! - A write is visible to all nodes at most [`WriteBufferSettings::deadline`] after it was issued,
//!   or it is lost. A loss is reported exactly once, with its line and its bytes: by the next call
//!   that can fail, or by the function given to [`WriteBuffer::new`]. With `Tso`, the writes after
//!   a lost one are lost too, so the visible writes are always a prefix of the issued ones. With
//!   `Pso`, only the writes of the same access are lost. No new write is taken before the loss is
//!   reported.
//! - A dropped future leaves nothing half done: a write was issued or not, and a flush continues by
//!   itself. At `Sequential`, a dropped write may have taken effect or not.
//! - A dropped buffer still carries out its writes, as long as the executor of its worker runs.
//! - The buffer is bounded: a write to a full buffer waits for room. A write during an update waits
//!   for the end of that update, and the next update waits for that write. Both of these waits end
//!   at a deadline.
//! - No drain task waits for a line while it keeps another line. Where nodes keep lines, a line
//!   that arrives before its turn is not kept from other nodes. Where the line would be released at
//!   once (SEL), its own drain task keeps it until nothing has become visible for a while, at least
//!   [`WriteBufferSettings::hold`].
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
