//! Tests with correct histories and with histories that have one mistake.

use super::*;

const LINES: usize = 2;

/// A history of two tasks of different writers. Each event ends before the next begins.
struct History(Vec<Event>);

impl History {
    fn add(mut self, task: usize, deed: BufferAction) -> Self {
        let at = self.0.len() as u64 * 10;
        let stamp = |k| (Time::from_nanos(at + k), at + k);
        let who = Some(Who { task, writer: task, node: task });
        self.0.push(Event { who, began: stamp(1), ended: stamp(2), deed });
        self
    }

    fn wrote(self, task: usize, line: usize, number: u64) -> Self {
        let issued = Time::from_nanos(self.0.len() as u64 * 10 + 2);
        let by = issued + std::time::Duration::from_nanos(100);
        self.add(task, BufferAction::Wrote { line, number, issued, by })
    }

    fn saw(self, task: usize, line: usize, slots: [u64; LINES]) -> Self {
        self.add(task, BufferAction::Saw { line, slots: slots.to_vec() })
    }

    fn lost(self, task: usize, line: usize, last: u64) -> Self {
        self.add(task, BufferAction::Lost { line, task, last, from: Time::ZERO })
    }

    fn fence(self, task: usize) -> Self {
        self.add(task, BufferAction::Fenced { left: false })
    }

    fn is_right(&self) -> [bool; 2] {
        [ScenarioStoreOrder::Tso, ScenarioStoreOrder::Pso]
            .map(|order| check(order, &self.events([].into())).is_ok())
    }

    /// As [`History::is_right`], after the death of the node with the first task: behind so many of
    /// the events.
    fn is_right_without(&self, events: u64) -> [bool; 2] {
        let death = Time::from_nanos(events * 10);
        [ScenarioStoreOrder::Tso, ScenarioStoreOrder::Pso]
            .map(|order| check(order, &self.events([(0, death)].into())).is_ok())
    }

    fn events(&self, dead: BTreeMap<usize, Time>) -> Events {
        Events { all: self.0.clone(), dead }
    }
}

fn history() -> History {
    History(Vec::new())
}

#[test]
fn a_later_write_without_the_one_before_it_is_refused_where_all_have_one_order() {
    let seen = |second| history().wrote(0, 0, 1).wrote(0, 1, 2).saw(1, 1, [2, 0]).saw(1, 0, second);
    assert_eq!(seen([1, 0]).is_right(), [true, true]);
    assert_eq!(seen([0, 0]).is_right(), [false, true]);
}

#[test]
fn a_death_takes_what_no_other_node_has_seen_line_by_line() {
    let wrote = || history().wrote(0, 0, 1).wrote(0, 1, 2).fence(0);
    assert_eq!(wrote().saw(1, 0, [0, 0]).saw(1, 1, [0, 0]).is_right_without(3), [true, true]);
    assert_eq!(wrote().saw(1, 1, [2, 0]).saw(1, 0, [0, 0]).is_right_without(3), [true, true]);
    // Before the death, and what another node has seen.
    assert_eq!(wrote().saw(1, 0, [0, 0]).saw(1, 1, [0, 0]).is_right_without(4), [false, false]);
    assert_eq!(wrote().saw(1, 1, [2, 0]).saw(1, 1, [0, 0]).is_right_without(4), [false, false]);
}

#[test]
fn a_line_does_not_go_back_in_either_order() {
    let seen = history().wrote(0, 0, 1).saw(1, 0, [1, 0]).saw(1, 0, [0, 0]);
    assert_eq!(seen.is_right(), [false, false]);
}

#[test]
fn a_fence_ends_when_all_is_visible() {
    assert_eq!(history().wrote(0, 0, 1).saw(1, 0, [0, 0]).fence(0).is_right(), [true, true]);
    let after = history().wrote(0, 0, 1).fence(0).saw(1, 0, [0, 0]);
    assert_eq!(after.is_right(), [false, false]);
    let lost = history().wrote(0, 0, 1).lost(0, 0, 1).fence(0).saw(1, 0, [0, 0]);
    assert_eq!(lost.is_right(), [true, true]);
}

#[test]
fn its_own_write_is_seen_at_once_and_no_lost_one() {
    assert_eq!(history().wrote(0, 0, 1).saw(0, 0, [1, 0]).is_right(), [true, true]);
    assert_eq!(history().wrote(0, 0, 1).saw(0, 0, [0, 0]).is_right(), [false, false]);
    let lost = history().wrote(0, 0, 1).lost(0, 0, 1);
    assert_eq!(lost.saw(1, 0, [1, 0]).is_right(), [false, false]);
    assert_eq!(history().saw(1, 0, [1, 0]).is_right(), [false, false], "nobody issued it");
    let twice = history().wrote(0, 0, 1).lost(0, 0, 1).lost(0, 0, 1);
    assert_eq!(twice.is_right(), [false, false]);
    assert_eq!(history().lost(0, 0, 1).is_right(), [false, false]);
}

#[test]
fn a_write_is_visible_by_its_deadline_unless_its_node_died() {
    let late = |left| {
        let mut all = history().wrote(0, 0, 1);
        if left {
            // The writer leaves later. The deadline decides when the write is visible.
            all = all.saw(1, 1, [0, 0]);
        }
        for _ in 0..12 {
            all = all.saw(1, 1, [0, 0]);
        }
        all = all.saw(1, 0, [0, 0]);
        if left { all.add(0, BufferAction::Fenced { left }) } else { all }
    };
    assert_eq!(late(false).is_right(), [true, true]);
    assert_eq!(late(true).is_right(), [false, false]);
}
