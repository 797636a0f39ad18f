//! Rule R5 as a property of a world.

use latchwork_latch::{InvalidationRequest, LatchMessage};
use latchwork_verbs::ComputeNodeId;

use crate::round::Round;
use crate::world::{Packet, World};

/// R5: every request without a final answer exists exactly once. The request is in flight, is
/// queued, travels with a grant, or its answer is in flight. No other request exists.
pub(crate) fn questions_are_one(world: &World) -> bool {
    world.nodes.iter().filter(|node| !node.dead).all(|node| {
        let (mut found, mut once) = (0u64, true);
        let mut find = |asked: ComputeNodeId| {
            let bit = 1 << asked.index();
            once &= found & bit == 0;
            found |= bit;
        };
        let own = |request: &&InvalidationRequest| request.from == node.id;
        for other in &world.nodes {
            other.line.remembered().iter().filter(own).for_each(|request| find(request.asked));
        }
        for Packet { to, message, .. } in &world.wire {
            match message {
                LatchMessage::Request(request) if own(&request) => find(request.asked),
                LatchMessage::Grant { travelling, .. } => {
                    travelling.iter().filter(own).for_each(|request| find(request.asked));
                }
                _ => {}
            }
            match message {
                LatchMessage::Grant { asked, .. }
                | LatchMessage::Answer { asked, .. }
                | LatchMessage::Pledged { asked, .. }
                    if *to == node.id =>
                {
                    find(*asked);
                }
                _ => {}
            }
        }
        let lost = world.spoilt || (world.is_recovering() && node.round < Round::Closed);
        once && (found == node.awaited || (lost && found & !node.awaited == 0))
    })
}
