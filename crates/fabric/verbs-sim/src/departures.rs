//! Nodes that others know to be gone, and keep out: what becomes of batches to them, and of what
//! they have posted.
//!
//! ```text
//!   about a node D           who posts                                       what becomes of it
//!   keep_out(at A, D)        D, to A: whatever has not begun                 never begins; Disconnected
//!   remove_peer(of A, D)     A, to D: on its way                             goes no further; Disconnected
//!                            A, to D: posted later, or pushed back           never sent; Unreachable, where the fabric can tell
//!   kill(D), disconnect(D)   anybody, to D, once a batch has failed there    the same
//! ```
//!
//! Each node learns of a death at a time of its own, so these are calls for one pair of nodes each.
//! Fabrics differ in what they can tell:
//! [`SimConfig::tells_unsent`](crate::SimConfig::tells_unsent).

use std::rc::Rc;
use std::time::Duration;

use latchwork_verbs::{ComputeNodeId, MemoryNodeId, SetupError, Target, VerbError};

use crate::endpoint::Completions;
use crate::event::Event;
use crate::fabric::{Fabric, World};
use crate::flight::Flight;
use crate::node::bit;

/// How long it takes until it is told that a batch was not sent: up to so many nanoseconds.
const UNSENT_NS: u64 = 2_000;

impl Fabric {
    /// From now on compute node `at` refuses whatever another one has posted and that has not begun
    /// here: in the middle of a batch, too, and messages that would arrive once more.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn keep_out(&self, at: ComputeNodeId, node: ComputeNodeId) -> Result<(), SetupError> {
        let at = self.world.node(at).ok_or(SetupError::UnknownNode(at))?;
        at.host.keep_out(node);
        Ok(())
    }

    /// As [`keep_out`](Fabric::keep_out), at a memory node.
    ///
    /// # Errors
    /// [`SetupError::UnknownMemoryNode`].
    pub fn keep_out_of_memory(
        &self,
        at: MemoryNodeId,
        node: ComputeNodeId,
    ) -> Result<(), SetupError> {
        let there = self.world.there(Target::Memory(at));
        there.ok_or(SetupError::UnknownMemoryNode(at))?.host.keep_out(node);
        Ok(())
    }

    /// Compute node `of` gives up another one, which is gone for it: batches that are on their way
    /// there go no further, and later ones are not sent.
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
    /// Why a batch that is about to be submitted is not sent, if it is not.
    fn unsent(&self, flight: &Flight) -> Option<VerbError> {
        let target = flight.batch.target;
        let unsent = || match self.config.tells_unsent {
            true => VerbError::Unreachable { target },
            false => VerbError::Disconnected { target },
        };
        if flight.lane.is_given_up() {
            return Some(unsent());
        }
        // Who has never failed there does not know that nobody is there.
        let lost = self.config.tells_unsent && flight.lane.lost.get();
        (lost && flight.lane.there.host.gone.get()).then(unsent)
    }

    /// Ends a batch without sending it, if it cannot be sent; else it is given back.
    pub(crate) fn send_or_end(&self, mut flight: Box<Flight>) -> Result<Box<Flight>, u32> {
        let Some(error) = self.unsent(&flight) else { return Ok(flight) };
        flight.end(error);
        let strands = self.strands(&flight);
        let key = u32::try_from(self.flights.borrow_mut().insert(flight)).expect("bounded");
        if !strands {
            let after = Duration::from_nanos(self.kernel.random_below(UNSENT_NS));
            self.schedule(after, key, Event::Complete);
        }
        Err(key)
    }

    /// Whether nobody is ever told of the end of this batch; see
    /// [`SimConfig::strands`](crate::SimConfig::strands).
    pub(crate) fn strands(&self, flight: &Flight) -> bool {
        self.config.strands && flight.lane.is_given_up()
    }

    /// Nobody polls these completions any more: what was submitted goes on with the bytes that it
    /// has, and local buffers are left alone.
    pub(crate) fn abandon(&self, completions: &Rc<Completions>) {
        // Not in the middle of an event: in a panic, for all that is known.
        if let Ok(mut flights) = self.flights.try_borrow_mut() {
            let own = |flight: &&mut Box<Flight>| Rc::ptr_eq(&flight.lane.completions, completions);
            flights.iter_mut().map(|(_, flight)| flight).filter(own).for_each(|f| f.abandon());
        }
    }
}
