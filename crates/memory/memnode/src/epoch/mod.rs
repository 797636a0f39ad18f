//! Epochs: when a freed line may be used again.
//!
//! An operation learns the address of a line from another line, and goes there later. In between
//! the line may be freed. So a freed line rests until every operation that might know its address
//! is over, on all compute nodes, and without asking any of them: each publishes a lower bound on
//! how long ago its oldest operation began.
//!
//! ```text
//!  memory node 0              compute node i
//!  ┌──────────────┐           current ≤ E          a copy, read by `tick`
//!  │ E            │◄─ read ── seat[w]              per worker: ≤ E when its oldest operation began
//!  │ slot 1       │
//!  │ slot i ..58  │◄─ CAS ─── min(current, seats)  by `tick`, about every millisecond while active
//!  └──────────────┘           IDLE when no worker has an operation; no verbs at all then
//! ```
//!
//! # Rules
//!
//! - **Begin.** `E(t)` is the value of `E` at time `t`; it never decreases. An operation *begins*
//!   when [`EpochWorker::enter`] returns, and is in progress until its [`EpochGuard`] is dropped.
//!   It may use only addresses that it read since it began, or that are never freed (roots,
//!   catalogue values).
//! - **Free.** First the line is made unreachable, coherently, for every node; only then is it
//!   retired. The node posts a fetch-and-add of 1 on `E` after that, and stamps the line with the
//!   value `e` that it returns.
//! - **Reuse.** After the stamp the node reads all slots. If each is empty, IDLE or above `e`, the
//!   line is ready. The slots may be read at different times.
//! - **Invariant (I).** While operation `o` of node `i` is in progress, slot `i` is neither empty
//!   nor IDLE, and at most `E(begin(o))`.
//!
//! # Why no operation meets a reused line
//!
//! Let a line become unreachable at time `u`, and be stamped `e`. An operation that begins after
//! `u` cannot find it. One that began before has `E(begin(o)) ≤ E(u) ≤ e`, since the fetch-and-add
//! took effect after `u` and returned the value it met. By (I) its slot is at most `e`, and not
//! IDLE, as long as it is in progress. The reuse rule read that slot after `u` and found something
//! else, so the operation was over by then, and it does not come back. This holds for each
//! operation by itself, so it does not matter when the other slots were read.
//!
//! # Why (I) holds: the node
//!
//! All writers of slot `i` are tasks of node `i`, one at a time, by compare-and-swap from the exact
//! word that was there, and no word repeats (it carries a sequence number). So when a future is
//! dropped in the middle of a write, the write either lands before the next one succeeds, and is
//! seen then, or never. Therefore a claim that is written must be true for as long as it may stand
//! or still land:
//!
//! - *A bound `p`* is computed as: read `E`, giving `v`; then look at all seats; `p = min(v,
//!   seats)`. Operations in progress began with `E ≥` their seat `≥ p`, or began after the look,
//!   with `E ≥ v ≥ p` (next section). So the claim stays true for ever, whenever it lands; and it
//!   is written only when it is above the one that stands.
//! - *IDLE* is claimed with `phase = idle` set before. Operations begin only in phase active, which
//!   is set only after a later compare-and-swap of a bound has succeeded; from then on the IDLE
//!   cannot land any more. That bound is an old `current`, hence at most `E` of any later
//!   beginning.
//!
//! # Why (I) holds: the worker
//!
//! A worker is *online* or resting; its seat is a bound, or RESTING. A resting worker comes online
//! by storing `current` in its seat, a SeqCst fence, and loading `phase`; if that is not active it
//! takes its seat back and activates the node first. Against it stand
//!
//! - *going idle*: store `phase = idle`; SeqCst fence; look at the seats; back to active if one is
//!   online. Of the two fences one comes first: either the worker sees `idle`, or its seat is seen.
//! - *publishing*: `v` was read before; SeqCst fence; look at the seats. If the worker's seat is
//!   not seen, its fence comes second, so its operation begins after `v` was read: `E(begin) ≥ v`.
//!
//! An online worker keeps its operations in two groups, each with a bound that was `current` before
//! any of the group began. New operations join the newer group. When the older is empty and
//! `current` has advanced, the newer becomes the older and a new one starts. The seat is the bound
//! of the older group, or of the newer if the older is empty. It only grows while online, by a
//! release store made after the accesses of the operations that it stops counting; whoever reads it
//! does so with acquire. So entering and leaving costs two loads and a private counter: no fence,
//! no shared write.
//!
//! # Progress
//!
//! `E` moves only when somebody has lines to stamp. An active node reads it at a bounded rate, so
//! the others' lines are ready about three ticks later, unless an operation lasts longer. A worker
//! without operations rests when it parks, or after a while; when all rest the node goes idle, does
//! nothing, and holds nobody back. Whoever may have left a bound behind, also by being dropped half
//! way, has a deadline armed at which it tries that, until it is done.
//!
//! An operation that waits for lines to become ready waits in vain for those freed since it began;
//! so it waits for a bounded time.
//!
//! # A node that died
//!
//! A node that ends without [`Epochs::unregister`] leaves a bound behind that never advances, and
//! all lines that anybody frees later would rest for ever. [`Epochs::retire`] empties the slot in
//! its place. The reuse rule takes an empty slot for "no operation in progress", which is true of
//! the dead only once they cannot do anything with an address: not before
//!
//! - every memory node of the pool keeps the node out: what it posts, or posted and is still on its
//!   way, takes no effect there any more. So it reads no address, changes no word, and writes no
//!   slot;
//! - every compute node keeps it out, too: nothing that it sends reaches anybody's inbox or frames
//!   any more. A request that lies in an inbox already may still be answered with a line, which
//!   then names the dead, like those that it died with.
//!
//! Whether it still runs does then not matter: its operations go on among its own copies, all of
//! which are lines whose words name it, and no such line is ever freed by another. It follows that
//! the order is: dead for membership, kept out by everybody, emptied; and that it does not matter
//! who empties it, nor how often, since the id is not given again.
//!
//! What stays lost of a dead node: lines whose words name it; lines that it had freed and that
//! rested with it, or were ready there; and what it had not given out of the chunks that it took,
//! one for each of its [`stripes`](crate::PoolSettings::stripes). The last two are no more than it
//! had at hand when it died, and they do not grow afterwards.

mod node;
mod slot;
mod worker;

pub use node::Epochs;
pub use slot::Epoch;
pub(crate) use slot::SlotWord;
pub use worker::{EpochGuard, EpochWorker};
