//! Nodes of other processes: what they share with this one, and why none of them can hold it up.
//!
//! # What is shared
//!
//! ```text
//!   process A: compute node 1                         process B: compute node 2
//!
//!   page of node 1   active, parked, beds, regions    page of node 2
//!   regions of node 1                                 regions of node 2
//!
//!   ring 1 ─► 2      filled by A, emptied by B        ring 2 ─► 1     filled by B, emptied by A
//! ```
//!
//! Each box is a file that both processes map. A file gets its length and all of its pages before
//! anybody learns its name, and keeps them: no access to a mapping can fail.
//!
//! # A process may be killed between any two instructions
//!
//! So nothing that is shared is ever *held*. There are no locks, no counts that somebody has to
//! take back, no slots that are claimed and filled later by somebody else's leave. In particular:
//!
//! - The [queue](crate::queue) of one process has many senders, each of which claims a slot and
//!   then fills it. One that died in between would block the queue for ever. So each pair of
//!   compute nodes of different processes has a ring of its own, in either direction ([`ring`]).
//!   Threads of the *same* process still claim slots of it in turn, since they die together. What a
//!   dead sender leaves unfinished is the end of its own ring, which its receiver drops when it
//!   learns of the death ([`Fabric::disconnect`](crate::Fabric::disconnect)); until then the ring
//!   reads as empty.
//! - A receiver takes a message by copying it and then moving the ring's `head` by one exchange.
//!   One that dies before has taken nothing. Nobody else would take it then, but nobody else shall:
//!   the ring's receiver is dead.
//! - A word that tells others something (how many workers poll, who is parked) is written by its
//!   own node's process alone.
//!
//! # Parking, and no lost wake
//!
//! Inside a process a sender that finds nobody polling takes a parked worker from a list, counts it
//! active *in its place*, and wakes it. A sender in another process may do none of that: if it died
//! after the counting and before the waking, everybody would leave the inbox to a worker that
//! sleeps. It only *rings a bed*:
//!
//! ```text
//!   sender, elsewhere                        worker that parks
//!   A  message into the ring                 P  parked |= bit of the bed
//!      fence(SeqCst)                         C  active -= 1
//!   B  active = 0?                              fence(SeqCst)
//!      which beds are in `parked`?           D  look at all rings; a message? active += 1, do not park
//!   K  one of them: rung |= bit of sender    S  turn = t; rung = 0? it was not: awake
//!      was not set? turn += 1, futex wake       not notified? futex wait while turn is t
//! ```
//!
//! The fences are ordered one way or the other, as they are for [senders of the same
//! process](crate::inbox). If the sender's is first, D sees A. If the worker's is first, B sees C
//! and P, unless the worker has become active since, and then that one polls or goes through all of
//! this once more. Who sleeps has seen `rung` empty, and taken out all that was in it, after it
//! looked at `turn`. Between that look and the waiting the kernel stands: it compares once more
//! under the lock under which K's wake looks for sleepers. So a wake is either seen or felt.
//!
//! Between K's first step and its last the sender may die, and nobody finishes for it: the message
//! of the dead may wait, which harms nobody. Others must not rely on it, so each node has its own
//! bit in `rung`, and whoever finds its own bit set leaves the waking to another thread of *its
//! own* process, with which it would die. That also keeps a burst from waking the same sleeper
//! twice. (A bit that stays from a ring that something else came before ends the next sleep before
//! it begins.) When a node comes back under an old number, its bit is taken out of all beds before
//! it sends ([`Page::forget`](page::Page::forget)).
//!
//! What a wake costs that nobody needs: the look at `active`, one load of a CPU cache line that
//! changes only when workers park.
//!
//! The worker sleeps in its bed in place of its own parking ([`latchwork_runtime::Bed`]), so that
//! the wake from outside is one system call that wakes the very thread, as inside a process; wakes
//! from inside go by the same word. (A thread that waits for others' rings and passes the wake on
//! would double the time. `futex_waitv` could wait on two words, but is not everywhere.)
//!
//! # Memory order
//!
//! Threads of two processes that map one page are to the hardware what threads of one process are,
//! and a page's atomics are the same atomics through either mapping. The arguments for threads hold
//! as they stand.
//!
//! # Trust
//!
//! Files belong to one user, and nobody else can open them. A peer that writes nonsense can spoil
//! what is in the memory that it shares anyway; it gets wrong answers, and causes neither panics
//! nor loops here: indices are masked, lengths and headers are checked when a file is mapped, and
//! ids when a message is taken.

pub(crate) mod bed;
pub(crate) mod lane;
pub(crate) mod page;
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

/// There is none.
#[cfg(not(all(target_os = "linux", not(loom))))]
pub(crate) mod nowhere;

#[cfg(all(target_os = "linux", not(loom)))]
pub(crate) use directory::Directory;
#[cfg(not(all(target_os = "linux", not(loom))))]
pub(crate) use nowhere::Directory;

#[cfg(all(test, loom))]
mod interleavings;
