//! Nodes of other processes: the memory that they share with this process, and the argument that no
//! other process can block this one.
//!
//! # The shared memory
//!
//! ```text
//!   process A: compute node 1                         process B: compute node 2
//!
//!   page of node 1   active, parked, spots, regions   page of node 2
//!   regions of node 1                                 regions of node 2
//!
//!   ring 1 ─► 2      filled by A, emptied by B        ring 2 ─► 1     filled by B, emptied by A
//! ```
//!
//! Each entry of the picture is one file or several files, which both processes map. A file gets
//! its length and all of its memory before another process learns the file's name, and keeps both.
//! While all processes keep this rule, no access to a mapping fails. The files of memory nodes are
//! shared in the same way.
//!
//! # A process may be killed between any two instructions
//!
//! So no process *holds* state in the shared memory for which another process waits. There are no
//! locks, no counts that another process has to reset, and no slots that one process claims and
//! another process waits for. In particular:
//!
//! - The [queue](crate::queue) inside one process has many senders. Each sender claims a slot and
//!   then fills the slot. A sender that died between these two steps would block the queue
//!   permanently. Across processes, each pair of compute nodes therefore has its own ring, one for
//!   each direction ([`ring`]). Threads of the *same* process still claim slots of a ring one after
//!   another, because these threads die together. A slot that a dead sender left unfinished is in
//!   the dead sender's own ring. From this slot on, the ring reads as empty. The receiver drops the
//!   ring when the receiver learns of the death
//!   ([`ShmFabric::disconnect`](crate::ShmFabric::disconnect)).
//! - A receiver copies a message, and then takes the message by moving the ring's `head` with one
//!   compare-and-swap. A receiver that dies before the compare-and-swap has taken nothing. The
//!   message then stays in the dead node's ring, and no other node reads this ring.
//! - A word that informs other processes (how many workers poll, which workers are parked) is
//!   written only by the process of its own node.
//!
//! # Parking, and no lost wake
//!
//! Inside a process, a sender that finds no polling worker takes three steps. The sender takes a
//! parked worker from a list, counts the worker active *on the worker's behalf*, and wakes the
//! worker. A sender in another process must not take these steps. If the sender died between the
//! counting and the waking, all later senders would leave the inbox to a worker that sleeps. So a
//! sender in another process only *rings a parking spot*, the word on which a parked worker sleeps:
//!
//! ```text
//!   sender, elsewhere                      worker that parks
//!   A  message into the ring               P  parked |= bit of its spot
//!      fence(SeqCst)                       C  active -= 1
//!   B  active = 0?                            fence(SeqCst)
//!      which spots are in `parked`?        D  look at all rings; a message? active += 1, stay
//!   K  one of them: rung |= bit of sender  S  turn = t; rung = 0? it was not: awake
//!      was not set? turn += 1, futex wake     not notified? futex wait while turn is t
//! ```
//!
//! Why no wake is lost:
//!
//! 1. One of the two memory fences comes first, as with [senders of the same
//!    process](crate::inbox).
//! 2. If the sender's memory fence is first, D sees A, and the worker does not park. (D does not
//!    see a message that stands behind an unfinished message of another thread of the sender. The
//!    other thread's own A and B are still to come.)
//! 3. If the worker's memory fence is first, the sender's later reads see P and C, or later changes
//!    of these words. If the worker itself made a later change, the worker has become active again.
//!    Such a worker polls, takes all of these steps again, or checks the rings when it leaves.
//! 4. If B reads more than 0, some worker is active. That worker polls, takes all of these steps,
//!    or checks the rings when it leaves. If B reads 0, the sender executes K for a spot in
//!    `parked`, unless `parked` is empty.
//! 5. In S the worker reads `turn`, and then takes all bits out of `rung`. So a worker that sleeps
//!    has found `rung` empty after it read `turn`.
//! 6. If K sets its bit before this check of `rung`, the worker stays awake. If K sets its bit
//!    after the check, the bit was clear before. So K changes `turn`, and this change comes after
//!    the worker's read of `turn`.
//! 7. Before the sleep, the kernel compares `turn` once more. The kernel compares under the lock
//!    under which K's wake looks for sleepers. Either the kernel sees the change of `turn` and
//!    refuses the sleep, or K's wake finds the sleeping worker.
//!
//! The sender may die between K's first step and K's last step, and no other process finishes K.
//! The dead sender's message may then wait, which harms no node. Other senders must not rely on an
//! unfinished K, so each node has its own bit in `rung`. A sender that finds its own bit set leaves
//! the wake to another thread of *its own* process, and the two threads would die together. The
//! bits also keep a burst of messages of one node from waking the same sleeper twice. (If another
//! event wakes the worker first, the bit stays. Then the bit ends the worker's next sleep before
//! the sleep begins.)
//!
//! A node may come back under an old id, and its earlier life may have left a bit. When a process
//! adds the node, the process first removes the node's bit from all its own parking spots
//! ([`Page::forget`](page::Page::forget)).
//!
//! A message that needs no wake costs a memory fence and one read of `active`, in a CPU cache line
//! that changes only when workers park, become active or leave.
//!
//! The worker sleeps on its parking spot ([`latchwork_runtime::ParkingSpot`]) and not in the usual
//! parking of its thread. So a wake from another process is one system call that wakes the thread
//! directly, as inside a process. Wakes from the same process use the same word. (A helper thread
//! that waits for other processes and passes each wake on would add a second wake. `futex_waitv`
//! could wait on two words, but not every kernel has it.)
//!
//! # Memory order
//!
//! For the hardware, threads of two processes that map one page are like threads of one process.
//! The atomics of a page are the same atomics through either mapping. So the arguments for threads
//! of one process hold for processes, too.
//!
//! # Trust
//!
//! The files belong to one user, and no other user except root can open them. A peer that writes
//! garbage can corrupt the memory that it shares, and other nodes may read wrong data. Garbage in
//! pages and rings causes neither panics nor endless loops in this process. Indices are masked.
//! Lengths and headers are checked when a file is mapped. A message with an impossible sender
//! counts as sent by the ring's node. No check protects against a peer that shortens a mapped file:
//! the next access beyond the file's end ends this process.

pub(crate) mod page;
pub(crate) mod parking_spot;
pub(crate) mod peer_ring;
pub(crate) mod ring;

#[cfg(all(target_os = "linux", not(loom)))]
pub(crate) mod clean;
#[cfg(all(target_os = "linux", not(loom)))]
pub(crate) mod contact;
#[cfg(all(target_os = "linux", not(loom)))]
pub(crate) mod directory;
#[cfg(all(target_os = "linux", not(loom)))]
pub(crate) mod owner;
#[cfg(all(target_os = "linux", not(loom)))]
mod room;

/// The stand-in for [`Directory`] on systems without shared directories.
#[cfg(not(all(target_os = "linux", not(loom))))]
pub(crate) mod nowhere;

#[cfg(all(target_os = "linux", not(loom)))]
pub(crate) use directory::Directory;
#[cfg(not(all(target_os = "linux", not(loom))))]
pub(crate) use nowhere::Directory;

#[cfg(all(test, loom))]
mod interleavings;
