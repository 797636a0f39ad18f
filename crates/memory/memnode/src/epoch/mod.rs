//! Epochs: the rule for when a freed line may be used again.
//!
//! An operation reads the address of a line in another line, and accesses the line later. Between
//! these two steps the line may be freed. So a freed line is not reused before every operation that
//! may know its address has ended, on all compute nodes. The freeing node sends no requests for
//! this: each node publishes a lower bound on the epoch in which its oldest operation began.
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
//!   when [`EpochWorker::enter`] returns. The operation is in progress until its [`EpochGuard`] is
//!   dropped. The operation may use only addresses that it read since it began, and addresses that
//!   are never freed (roots, catalogue values). A user that goes to any other address must tell by
//!   the content of the line whether it is still the line that it means.
//! - **Free.** First the line is made unreachable, coherently, for every node. Only then the line
//!   is retired. After that the node posts a fetch-and-add of 1 on `E`. It marks the line with the
//!   returned value `e`.
//! - **Reuse.** After the mark the node reads all slots. The line is ready if each slot is empty,
//!   IDLE or above `e`. The slots may be read at different times.
//! - **Invariant (I).** While operation `o` of node `i` is in progress, slot `i` is neither empty
//!   nor IDLE, and at most `E(begin(o))`.
//!
//! # Why no operation accesses a reused line
//!
//! Let a line become unreachable at time `u` and be marked with `e`. Let `o` be an operation of
//! node `i`.
//!
//! 1. If `o` begins after `u`, it cannot find the line.
//! 2. If `o` began before `u`, then `E(begin(o)) ≤ E(u) ≤ e`: the fetch-and-add took effect after
//!    `u` and returned the value that it found.
//! 3. By (I), slot `i` is at most `e` and neither empty nor IDLE while `o` is in progress.
//! 4. The reuse rule read slot `i` after `u` and found another value. So `o` had ended by then, and
//!    it does not begin again.
//! 5. Steps 1 to 4 hold for each operation separately. So the other slots may be read at other
//!    times.
//!
//! # Why (I) holds: the node
//!
//! While node `i` lives, all writers of slot `i` are tasks of node `i`, one at a time. Each write
//! is a compare-and-swap from the exact word that was in the slot. No word with a bound or IDLE
//! repeats, because each such word has a sequence number. A future can be dropped in the middle of
//! a write. Then either that write lands before the next write succeeds, and the next write finds
//! its word; or the write never lands. So each value that a node writes must be a true claim for as
//! long as the value is in the slot or may still land:
//!
//! - *A bound `p`*:
//!   1. The node reads `E`, giving `v`. Then the node reads all seats (next section).
//!      `p = min(v, seats)`.
//!   2. An operation that is in progress at that time began with `E ≥` its seat `≥ p`.
//!   3. An operation that begins later begins with `E ≥ v ≥ p` (next section).
//!   4. So the claim stays true, whenever it lands. The node writes `p` only if `p` is above the
//!      bound in the slot.
//! - *IDLE*:
//!   1. The node sets `phase = idle` before it claims IDLE.
//!   2. Operations begin only in phase active. The node sets phase active only after a later
//!      compare-and-swap of a bound has succeeded.
//!   3. After that success the IDLE cannot land any more.
//!   4. That bound is an earlier value of `current`, hence at most `E` at any later begin.
//!
//! # Why (I) holds: the worker
//!
//! A worker is *online* or *resting*. The seat of an online worker has a bound, and the seat of a
//! resting worker has RESTING. A resting worker comes online in three steps: it stores `current` in
//! its seat, executes a SeqCst memory fence, and loads `phase`. If `phase` is not active, the
//! worker resets its seat and activates the node first. Two other procedures run concurrently:
//!
//! - *Going idle*: the node stores `phase = idle`, executes a SeqCst memory fence, and reads the
//!   seats. If a worker is online, the node sets phase active again and claims no IDLE. One of the
//!   two memory fences comes first: either the worker sees `idle`, or the node sees the worker's
//!   seat.
//! - *Publishing*: the node has read `v`, executes a SeqCst memory fence, and reads the seats. If
//!   the node does not see the worker's bound, the worker's memory fence comes second. So the
//!   worker's operation begins after `v` was read: `E(begin) ≥ v`.
//!
//! An online worker keeps its operations in two groups. The bound of a group was `current` before
//! any operation of the group began.
//!
//! 1. New operations join the newer group. When the older group is empty and `current` has
//!    advanced, the newer group becomes the older one and a new group starts.
//! 2. The seat is the bound of the older group, or of the newer group if the older one is empty.
//! 3. While the worker is online, the seat only grows. Each change is a release store after the
//!    accesses of the operations that the seat no longer counts. Every reader of the seat loads it
//!    with acquire.
//!
//! So most operations begin with two loads, end without a load, and change only a private counter.
//! They need no memory fence and write nothing shared. The seat is stored when a new group starts
//! or the older group becomes empty.
//!
//! # Progress
//!
//! `E` advances when a node has lines to mark, when a node registers, in [`Epochs::mark`] and in
//! [`Epochs::outlast`]. An active node reads `E` at a bounded rate. So the lines of the other nodes
//! are ready about three ticks later, unless an operation takes longer. A worker without operations
//! rests when it parks, or after [`idle_after`](crate::PoolSettings::idle_after). When all workers
//! of a node rest, one of them makes the node idle: the node ticks no more and delays no other
//! node. A worker may leave a bound in the slot, for example when a future is dropped. Such a
//! worker sets itself a time at which it tries to publish IDLE, and tries again until it succeeds.
//!
//! Lines that were freed since an operation began cannot become ready before that operation ends.
//! So an operation waits only for a bounded time for lines to become ready.
//!
//! # A dead node
//!
//! A node that ends without [`Epochs::unregister`] can leave a bound in its slot. That bound never
//! advances, so no line that is freed later would ever be ready. [`Epochs::retire`] reclaims the
//! dead node: the call empties the slot. By the reuse rule an empty slot means that no operation is
//! in progress. For a dead node this is true only when the node can do nothing with an address any
//! more. That requires two conditions:
//!
//! 1. Every memory node of the pool fences the dead node. Requests of the dead node take no effect
//!    there any more, including requests in flight. So the dead node reads no address, changes no
//!    word and writes no slot.
//! 2. Every compute node fences the dead node too. No message of the dead node reaches an inbox or
//!    a frame any more. A request that is already in an inbox may still be answered with a line.
//!    The word of that line then names the dead node, like the words of the lines that it owned
//!    when it died.
//!
//! Then it does not matter whether the node still runs. Its operations use only its own copies. The
//! words of those lines name the dead node, and no other node ever frees such a line. So the order
//! is: dead for membership, fenced by all nodes, slot emptied. Any node may empty the slot, any
//! number of times, until another node may get the id.
//!
//! The following resources of a dead node are not reclaimed:
//!
//! - lines whose words name the dead node,
//! - lines that the dead node had freed and not allocated again,
//! - the unallocated rests of its chunks, one for each of its
//!   [`stripes`](crate::PoolSettings::stripes), or of them what is
//!   [before the mark](crate::free_chunks).
//!
//! The last two are bounded by the node's state at its death, and do not grow afterwards.

mod node;
mod seat;
mod slot;
mod worker;

pub use node::Epochs;
pub use slot::Epoch;
pub(crate) use slot::SlotWord;
pub use worker::{EpochGuard, EpochWorker};
