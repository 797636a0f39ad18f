//! [`BoxModel`]: one box that comes, moves and goes.

use latchwork_history::calls::ObjectModel;
use latchwork_rtree::Rect;

/// The dimensions of the tree.
pub(super) const D: usize = 2;

/// A box at a place. Each insert and each move has a place of its own, and the payload names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::workloads) struct Place {
    /// The number of the box.
    pub(super) n: u64,
    /// The number of the insert that brought the box.
    pub(super) insert: u64,
    /// The number of the insert or move that brought the box here.
    pub(super) number: u64,
}

impl Place {
    /// The payload of an entry at this place.
    pub(super) fn payload(&self) -> [u8; 16] {
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&self.insert.to_le_bytes());
        payload[8..].copy_from_slice(&self.number.to_le_bytes());
        payload
    }

    /// The place that an entry names.
    pub(super) fn of(n: u64, payload: &[u8]) -> Place {
        let word = |at: usize| payload.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        let word = |at| word(at).map_or(u64::MAX, u64::from_le_bytes);
        Place { n, insert: word(0), number: word(8) }
    }

    /// The box. Boxes touch, overlap and coincide. Four numbers in a row are near to each other.
    pub(super) fn rect(&self) -> Rect<D> {
        let mixed = (self.n << 32).wrapping_add(self.number / 4 + 1);
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = |shift: u32, below: u64| ((mixed >> shift) % below) as f64;
        let step = (self.number % 4) as f64;
        let low = [at(8, 32) + step, at(20, 32) + step];
        let high = [low[0] + at(32, 5), low[1] + at(44, 5)];
        Rect::new(low, high).unwrap_or(Rect::EVERYTHING)
    }
}

/// The boxes that belong to the answer of a query.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::workloads) enum Window {
    Everything,
    /// Boxes with a common point.
    Meets(Rect<D>),
    /// Boxes inside.
    Holds(Rect<D>),
}

impl Window {
    pub(super) fn belongs(&self, rect: &Rect<D>) -> bool {
        match self {
            Window::Everything => true,
            Window::Meets(window) => window.intersects(rect),
            Window::Holds(window) => window.contains(rect),
        }
    }
}

/// An operation on one box, with its answer.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::workloads) enum BoxOperation {
    /// The box was not there.
    Insert(Place),
    /// A box at the first place goes to the second one.
    Move(Place, Place, bool),
    /// A box at the place is removed.
    Remove(Place, bool),
    /// A query shows the box at a place, or does not show it.
    Look(Window, Option<Place>),
}

/// The model of one box: absent, or at a place.
#[derive(Clone, Copy, Debug)]
pub(in crate::workloads) struct BoxModel;

impl ObjectModel for BoxModel {
    type State = Option<Place>;
    type Operation = BoxOperation;

    fn apply(
        &self,
        state: &Option<Place>,
        operation: &BoxOperation,
        answered: bool,
    ) -> Option<Option<Place>> {
        // The tree compares boxes, not places.
        let is_at = |at: &Place| state.is_some_and(|now| now.rect() == at.rect());
        let (right, after) = match operation {
            BoxOperation::Insert(at) => (state.is_none(), Some(*at)),
            BoxOperation::Move(from, to, moved) => {
                // A move keeps the number of the insert, as its mover knows it.
                (*moved == is_at(from), if is_at(from) { Some(*to) } else { *state })
            }
            BoxOperation::Remove(at, removed) => {
                (*removed == is_at(at), if is_at(at) { None } else { *state })
            }
            BoxOperation::Look(_, Some(found)) => (Some(*found) == *state, *state),
            BoxOperation::Look(window, None) => {
                (state.is_none_or(|now| !window.belongs(&now.rect())), *state)
            }
        };
        (right || !answered).then_some(after)
    }

    fn only_reads(&self, operation: &BoxOperation) -> bool {
        match operation {
            BoxOperation::Insert(_) => false,
            BoxOperation::Move(.., done) | BoxOperation::Remove(_, done) => !done,
            BoxOperation::Look(..) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use latchwork_history::calls::{Call, check_object};
    use latchwork_simulation::Time;

    use super::*;

    fn place(number: u64) -> Place {
        Place { n: 1, insert: 1, number }
    }

    fn explains(calls: &[(BoxOperation, u64, u64)]) -> bool {
        let calls: Vec<_> = calls
            .iter()
            .map(|(operation, from, to)| Call {
                invoked: Time::from_nanos(*from),
                returned: Some(Time::from_nanos(*to)),
                operation: operation.clone(),
            })
            .collect();
        check_object(&BoxModel, None, &calls).is_ok()
    }

    #[test]
    fn a_box_that_moves_is_at_one_of_both_places_and_never_goes_back() {
        let (a, b) = (place(1), place(40));
        let look = |at: Option<Place>| BoxOperation::Look(Window::Everything, at);
        let moves = [(BoxOperation::Insert(a), 0, 1), (BoxOperation::Move(a, b, true), 10, 20)];
        let with = |looks: &[(BoxOperation, u64, u64)]| explains(&[&moves, looks].concat());
        assert!(with(&[(look(Some(a)), 11, 12), (look(Some(b)), 13, 14)]));
        assert!(!with(&[(look(None), 11, 12)]), "nowhere");
        assert!(!with(&[(look(Some(b)), 11, 12), (look(Some(a)), 13, 14)]), "back again");
        assert!(!with(&[(look(Some(a)), 21, 22)]), "still at the old place");
        assert_ne!(a.rect(), b.rect());
        let at_b = BoxOperation::Look(Window::Holds(b.rect()), None);
        assert!(with(&[(at_b.clone(), 11, 12)]) && !with(&[(at_b, 21, 22)]));
    }
}
