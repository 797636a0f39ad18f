//! The directory protocols, as pure state machines: ScaleStore (Ziegler et al., SIGMOD 2022) and
//! GAM (Cai et al., VLDB 2018).
//!
//! Each line has a *home*, which knows the nodes that hold it ([`Home`]). Each node has its part of
//! the line ([`Line`]). The machines do no I/O and know no time: a step takes an event, and appends
//! what is to be sent. The two protocols are two [`Rules`] for the same machines.
//!
//! # Tenures
//!
//! Both papers rely on messages that arrive in order. A fabric promises no order between batches,
//! so the machines number what has to be ordered:
//!
//! 1. The home orders the *tenures* of a line. A tenure begins when the home names the node in its
//!    entry, which is before the node has the bytes. The *era* of a tenure is the number of
//!    exclusive tenures up to it. All tenures in the entry are of the present era.
//! 2. A [`Directive`] demands something of one tenure: a copy of the era of the tenure, or its end,
//!    for a requester of the era behind it. So a node knows to which of its tenures a directive
//!    belongs, whatever arrives first.
//! 3. Copies may be served in any order. The end names the number of copies before it.
//! 4. A tenure ends exactly once: by a directive, or by an eviction that the home accepts. The home
//!    declines while a directive is open. Until the answer, the node serves no directive and
//!    requests nothing, so an eviction meets the tenure that it is about.
//! 5. A node that evicts writes its changes into the home's memory at once. When the home declines,
//!    nothing is wrong: the memory is not read while a node has the bytes, and the next writer of
//!    the memory gets the bytes from this node after the answer.

#![forbid(unsafe_code)]

mod event;
mod home;
mod line;
mod message;
mod rules;

pub use event::{Action, Event, LocalCopy};
pub use home::Home;
pub use latchwork_latch::{Hold, NodeSet, Want};
pub use line::Line;
pub use message::{Bytes, Directive, Era, Kind, Message, Party, Reply, Request, Sent, Source};
pub use rules::{Conflicts, ReaderTakes, Rules};
