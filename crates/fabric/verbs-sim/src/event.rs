//! [`Event`]: a step of a batch, encoded in the 64-bit payload of a kernel event.

use latchwork_strict::strict_assert;

/// An event of a flight or of a message.
///
/// ```text
///   63      40 39        8 7  6 5    3 2    0
///   ┌─────────┬───────────┬────┬──────┬──────┐
///   │    0    │    key    │ rq │ piece│ what │
///   └─────────┴───────────┴────┴──────┴──────┘
/// ```
///
/// The key identifies a flight (a batch in flight). For [`Event::Again`] the key identifies a
/// message. The field `rq` is the request of the batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The batch arrives at its target.
    Arrive,
    /// A request begins. Requests that are not cut into pieces also take effect at this event.
    Begin { request: usize },
    /// A piece of a READ or WRITE is placed.
    Place { request: usize, piece: usize },
    /// All remaining requests of the batch take effect, in order.
    Apply,
    /// The completion arrives.
    Complete,
    /// A message arrives a second time.
    Again,
}

impl Event {
    pub(crate) fn payload(self, key: u32) -> u64 {
        let low = match self {
            Event::Arrive => 0,
            Event::Begin { request } => request << 6 | 1,
            Event::Place { request, piece } => request << 6 | piece << 3 | 2,
            Event::Apply => 3,
            Event::Complete => 4,
            Event::Again => 5,
        };
        strict_assert!(
            Event::from_payload(u64::from(key) << 8 | low as u64).0 == key,
            "an event loses its flight"
        );
        strict_assert!(low < 1 << 8, "an event runs into the number of its flight");
        u64::from(key) << 8 | low as u64
    }

    pub(crate) fn from_payload(payload: u64) -> (u32, Event) {
        let (request, piece) = ((payload >> 6 & 3) as usize, (payload >> 3 & 7) as usize);
        let event = match payload & 7 {
            0 => Event::Arrive,
            1 => Event::Begin { request },
            2 => Event::Place { request, piece },
            3 => Event::Apply,
            4 => Event::Complete,
            _ => Event::Again,
        };
        ((payload >> 8) as u32, event)
    }
}

#[cfg(test)]
mod tests {
    use latchwork_verbs::BATCH_MAX;

    use super::*;
    use crate::drawn::PIECES_MAX;

    #[test]
    fn every_event_comes_back_from_its_payload() {
        let mut events = vec![Event::Arrive, Event::Apply, Event::Complete, Event::Again];
        for request in 0..BATCH_MAX {
            events.push(Event::Begin { request });
            events.extend((0..PIECES_MAX).map(|piece| Event::Place { request, piece }));
        }
        for event in events {
            for key in [0, 1, u32::MAX] {
                assert_eq!(Event::from_payload(event.payload(key)), (key, event));
            }
        }
    }
}
