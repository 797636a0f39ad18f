//! [`NicFlight`]: the times of one batch in flight.

use super::times::Ps;

/// The times of one batch in flight, with the times of a NIC.
#[derive(Clone, Copy, Default)]
pub(crate) struct NicFlight {
    pub(super) queue_pair: usize,
    /// The arrival at the responder's NIC; `None` until the batch is sent.
    pub(super) arrived: Option<Ps>,
    /// The time at which the last byte of the response leaves the responder.
    pub(super) responded: Ps,
}
