//! [`Queue`]: the draws of the workload `queue`.

use std::cell::Cell;

use super::kind::Kind;

/// The keys of one queue, a range in the tree. Appends take them in ascending order, and removals
/// follow. After the last key, both go on at the first. The tree is mostly empty there.
///
/// ```text
///   start             removed             appended           start + keys
///     │ were in the queue  │ are in the queue  │ come later, or were  │
///     │                    │                   │ there in the round   │
///     │                    │                   │ before               │
/// ```
pub(super) struct Queue {
    start: u64,
    keys: u64,
    /// The appends of the tasks of this thread so far, in all rounds.
    appended: Cell<u64>,
    /// The removals of the tasks of this thread so far, in all rounds.
    removed: Cell<u64>,
}

/// Where in its queue an operation has its key.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// The next key to append.
    End,
    /// The lowest key of the queue.
    Front,
    /// A key in the queue.
    Within,
    /// A key shortly before the front.
    Gap,
}

/// Of a hundred operations, the number of each kind, and where its key is. The rest is [`REST`].
/// Appends and removals are equal in number, so the queues stay short. What an operation in the gap
/// inserts, another one there removes.
pub(super) const SHARES: [(u64, (Kind, Place)); 14] = [
    (16, (Kind::Insert, Place::End)),
    (6, (Kind::Upsert, Place::End)),
    (22, (Kind::Remove, Place::Front)),
    (5, (Kind::Insert, Place::Gap)),
    (3, (Kind::Upsert, Place::Gap)),
    (8, (Kind::Remove, Place::Gap)),
    (8, (Kind::Get, Place::Gap)),
    (4, (Kind::TryGet, Place::Gap)),
    (4, (Kind::Get, Place::Within)),
    (2, (Kind::Update, Place::Within)),
    (2, (Kind::UpdateRange, Place::Within)),
    (2, (Kind::Modify, Place::Within)),
    (2, (Kind::Replace, Place::Within)),
    (8, (Kind::ScanUp, Place::Gap)),
];
pub(super) const REST: (Kind, Place) = (Kind::ScanDown, Place::Gap);

/// The most keys before the front that count as the gap. They fill about three pages.
const GAP: u64 = 8;

impl Queue {
    /// `count` queues, which share the keys below `keys`.
    pub(super) fn all(keys: u64, count: u64) -> Vec<Queue> {
        let start = |at| keys * at / count;
        let queue = |at| Queue {
            start: start(at),
            keys: start(at + 1) - start(at),
            appended: Cell::new(0),
            removed: Cell::new(0),
        };
        (0..count).map(queue).collect()
    }

    /// Chooses the key of an operation. A removal from an empty queue becomes an append. An append
    /// to a queue that has half of its keys becomes a removal, so that a gap stays.
    pub(super) fn choose(&self, drawn: (Kind, Place), below: impl Fn(u64) -> u64) -> (Kind, u64) {
        let (appended, removed) = (self.appended.get(), self.removed.get());
        let queued = appended - removed;
        let (kind, place) = match drawn {
            (_, Place::End) if queued >= self.keys.div_ceil(2) => (Kind::Remove, Place::Front),
            (_, Place::Front) if queued == 0 => (Kind::Insert, Place::End),
            drawn => drawn,
        };
        let at = match place {
            Place::End => self.appended.replace(appended + 1),
            Place::Front => self.removed.replace(removed + 1),
            Place::Within => removed + below(queued.max(1)),
            Place::Gap => removed + self.keys - 1 - below(GAP.min(self.keys)),
        };
        (kind, self.start + at % self.keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPEND: (Kind, Place) = (Kind::Insert, Place::End);
    const REMOVE: (Kind, Place) = (Kind::Remove, Place::Front);

    fn key(queue: &Queue, drawn: (Kind, Place)) -> u64 {
        queue.choose(drawn, |bound| bound - 1).1
    }

    #[test]
    fn the_queues_share_all_keys() {
        let queues = Queue::all(32, 5);
        let ends = queues.iter().map(|queue| queue.start + queue.keys);
        let starts = queues.iter().map(|queue| queue.start);
        assert!(ends.eq(starts.skip(1).chain([32])));
        assert!(queues.iter().all(|queue| queue.keys >= 6));
    }

    #[test]
    fn keys_leave_a_queue_as_they_came_and_come_again() {
        let queue = &Queue::all(20, 2)[1];
        for round in 0..3 {
            for pair in 0..5 {
                let keys = [10 + 2 * pair, 11 + 2 * pair];
                assert_eq!([APPEND, APPEND].map(|drawn| key(queue, drawn)), keys, "{round}");
                assert_eq!([REMOVE, REMOVE].map(|drawn| key(queue, drawn)), keys, "{round}");
            }
        }
    }

    #[test]
    fn a_queue_is_neither_overfull_nor_less_than_empty() {
        let queue = &Queue::all(10, 1)[0];
        assert!(matches!(queue.choose(REMOVE, |_| 0), (Kind::Insert, 0)), "an empty queue");
        assert!((1..5).all(|next| key(queue, APPEND) == next));
        assert!(matches!(queue.choose(APPEND, |_| 0), (Kind::Remove, 0)), "half of the keys");
        assert_eq!(key(queue, (Kind::Get, Place::Within)), 4, "the last one in the queue");
        assert_eq!(queue.choose((Kind::Get, Place::Gap), |_| 0).1, 0, "the last one removed");
    }
}
