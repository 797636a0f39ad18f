//! How batches end that are to or from a node that was fenced, forgotten or cut off.
//!
//! ```text
//!   call about a node D      batch                                   its end
//!   keep_out(at A, D)        D to A: requests that have not begun    never begin; Disconnected
//!   remove_peer(of A, D)     A to D: in flight                       goes no further; Disconnected
//!                            A to D: posted later, or pushed back    never sent; Unreachable if
//!                                                                    tells_unsent, or Disconnected
//!   kill(D), disconnect(D)   any node to D, on a send queue that     never sent; Unreachable
//!                            has had a Disconnected batch            (only if tells_unsent)
//! ```
//!
//! For a lost memory node the row of a disconnected node holds. Each node learns of a death at its
//! own time, so a call of `keep_out` or `remove_peer` is about one pair of nodes.
//! [`SimConfig::tells_unsent`](crate::SimConfig::tells_unsent) decides whether the fabric reports
//! that a batch was never sent, as some real fabrics can.

use std::rc::Rc;
use std::time::Duration;

use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, SetupError, Target, VerbError};

use crate::completions::Completions;
use crate::event::Event;
use crate::fabric::SimFabric;
use crate::flight::Flight;
use crate::node::bit;
use crate::world::World;

/// The longest time, in nanoseconds, until the poster learns that a batch was not sent.
const UNSENT_NS: u64 = 2_000;

impl SimFabric {
    /// Makes compute node `at` fence `node`: requests of `node` that have not begun at `at` never
    /// begin. This holds also in the middle of a batch, and for the second copy of a duplicated
    /// message.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn keep_out(&self, at: ComputeNodeId, node: ComputeNodeId) -> Result<(), SetupError> {
        let at = self.world.node(at).ok_or(SetupError::UnknownNode(at))?;
        at.host.keep_out(node);
        Ok(())
    }

    /// Like [`keep_out`](SimFabric::keep_out), at a memory node.
    ///
    /// # Errors
    /// [`SetupError::UnknownMemoryNode`].
    pub fn fence_memory_node(
        &self,
        at: MemoryNodeId,
        node: ComputeNodeId,
    ) -> Result<(), SetupError> {
        let there = self.world.there(Target::Memory(at));
        there.ok_or(SetupError::UnknownMemoryNode(at))?.host.keep_out(node);
        Ok(())
    }

    /// Makes compute node `of` forget the node `gone`. Requests from `of` to `gone` that have not
    /// begun never begin, and later batches from `of` to `gone` are not sent.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn remove_peer(&self, of: ComputeNodeId, gone: ComputeNodeId) -> Result<(), SetupError> {
        let of = self.world.node(of).ok_or(SetupError::UnknownNode(of))?;
        of.removed.set(of.removed.get() | bit(gone));
        Ok(())
    }
}

impl World {
    /// The error of a batch that is about to be submitted and cannot be sent; `None` when the batch
    /// can be sent.
    fn unsent(&self, flight: &Flight) -> Option<VerbError> {
        let target = flight.batch.target;
        let unsent = || match self.config.tells_unsent {
            true => VerbError::Unreachable { target },
            false => VerbError::Disconnected { target },
        };
        if flight.lane.is_given_up() {
            return Some(unsent());
        }
        // A poster without a failed batch to this target does not know that the target is lost.
        let lost = self.config.tells_unsent && flight.lane.lost.get();
        (lost && flight.lane.there.host.gone.get()).then(unsent)
    }

    /// Returns the flight when it can be sent. Otherwise ends the batch without sending it, and
    /// returns the flight's key as the error.
    pub(crate) fn send_or_end(&self, mut flight: Box<Flight>) -> Result<Box<Flight>, u32> {
        let Some(error) = self.unsent(&flight) else { return Ok(flight) };
        flight.end(error);
        strict_assert!(flight.is_done(), "a batch that ended has open requests");
        let strands = self.strands(&flight);
        let key = u32::try_from(self.flights.borrow_mut().insert(flight)).expect("bounded");
        if !strands {
            let after = Duration::from_nanos(self.kernel.random_below(UNSENT_NS));
            self.schedule(after, key, Event::Complete);
        }
        Err(key)
    }

    /// Whether the poster never learns of the end of this batch; see
    /// [`SimConfig::strands`](crate::SimConfig::strands).
    pub(crate) fn strands(&self, flight: &Flight) -> bool {
        self.config.strands && flight.lane.is_given_up()
    }

    /// Abandons the batches of a dropped endpoint. The submitted batches take effect later with a
    /// copy of their bytes, and the local buffers are not touched any more.
    pub(crate) fn abandon(&self, completions: &Rc<Completions>) {
        // If an event has borrowed the flights, the call does nothing. An endpoint is dropped
        // inside an event only while a panic unwinds.
        if let Ok(mut flights) = self.flights.try_borrow_mut() {
            let own = |flight: &&mut Box<Flight>| Rc::ptr_eq(&flight.lane.completions, completions);
            flights.iter_mut().map(|(_, flight)| flight).filter(own).for_each(|f| f.abandon());
        }
    }
}
