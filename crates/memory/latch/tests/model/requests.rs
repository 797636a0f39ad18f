//! Scenarios of one machine: its reaction to a request in each of its states.

use latchwork_latch::{
    Action, Answer, Event, GrantMode, Hold, InvalidationRequest, LatchMessage, LatchWord, Line,
    LocalCopy, QueuedRequests, REMEMBERED_MAX, RequestKind, Rules, Seq, TRAVELLING_MAX, Want,
    WordOp,
};
use latchwork_verbs::ComputeNodeId;

use crate::script::node;

const ME: u8 = 10;

/// A frame that local code has reserved, or not.
#[derive(Default)]
struct Copy {
    reserved: bool,
}

impl LocalCopy for Copy {
    fn publish(&mut self, _: Hold) {}
    fn restore(&mut self) {}
    fn lose(&mut self) {}
    fn try_suspend(&mut self) -> bool {
        !self.reserved
    }
    fn promote(&mut self) {}
    fn try_invalidate(&mut self) -> bool {
        !self.reserved
    }
    fn try_demote(&mut self) -> bool {
        !self.reserved
    }
}

struct Machine {
    line: Line,
    copy: Copy,
}

impl Machine {
    fn holding(hold: Hold) -> Self {
        Machine { line: Line::at_rest(node(ME), hold, Seq(7)), copy: Copy::default() }
    }

    fn reserved(mut self) -> Self {
        self.copy.reserved = true;
        self
    }

    fn after(mut self, event: Event) -> Self {
        self.take(event);
        self
    }

    fn take(&mut self, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        self.line.step(&Rules::DISCIPLINE, event, &mut self.copy, &mut out);
        out
    }

    fn takes_request(&mut self, request: InvalidationRequest) -> Vec<Action> {
        self.take(Event::Received(LatchMessage::Request(request)))
    }
}

fn request(from: u8, kind: RequestKind) -> InvalidationRequest {
    InvalidationRequest {
        from: node(from),
        asked: node(ME),
        kind,
        seq: Seq(1),
        priority: 0,
        buffer: 0,
    }
}

fn completed(op: WordOp, old: LatchWord) -> Event {
    Event::Completed { op, old }
}

fn answer_to(request: &InvalidationRequest, answer: Answer) -> Action {
    let message = LatchMessage::Answer { asked: request.asked, seq: request.seq, answer };
    Action::Send { to: request.from, message }
}

fn answer(to: u8, answer: Answer) -> Action {
    let message = LatchMessage::Answer { asked: node(ME), seq: Seq(1), answer };
    Action::Send { to: node(to), message }
}

/// The machine's answer to a request, final or not, and the operation that it posts at once, if
/// any.
fn reaction(mut machine: Machine, kind: RequestKind) -> (Option<Answer>, Option<WordOp>) {
    let actions = machine.takes_request(request(2, kind));
    let said = actions.iter().find_map(|action| match action {
        Action::Send { message: LatchMessage::Answer { answer, .. }, .. } => Some(*answer),
        _ => None,
    });
    let posted = actions.iter().find_map(|action| match action {
        Action::Post(op) => Some(*op),
        _ => None,
    });
    (said, posted)
}

fn held_by(id: u8) -> LatchWord {
    LatchWord::exclusively(node(id))
}

#[test]
fn every_phase_has_its_reaction_to_a_writer() {
    use Hold::{Exclusive, Nothing, Shared};
    let rest = Machine::holding;
    let want_to_write = |hold| rest(hold).after(Event::Want(Want::Exclusive));
    let acquiring = || want_to_write(Nothing);
    let asking = || acquiring().after(completed(WordOp::AcquireExclusive, held_by(3)));
    let dropped = |by: ComputeNodeId| {
        Event::Received(LatchMessage::Answer { asked: by, seq: Seq(8), answer: Answer::Dropped })
    };
    let upgrading = || want_to_write(Shared);
    let read_by_all = LatchWord::shared_by(node(ME)).plus(LatchWord::shared_by(node(3)).bits());
    let upgrade_asking = || upgrading().after(completed(WordOp::Upgrade, read_by_all));
    let releasing = |hold| rest(hold).after(Event::Evict);
    let downgrading = || {
        rest(Exclusive).after(Event::Received(LatchMessage::Request(request(4, RequestKind::Read))))
    };
    let handing_over = || {
        rest(Exclusive)
            .after(Event::Received(LatchMessage::Request(request(4, RequestKind::Write))))
    };
    let queued = (Some(Answer::Queued), None);
    let dropped_at_once = (Some(Answer::Dropped), None);

    let cases = [
        ("at rest, nothing", rest(Nothing), dropped_at_once),
        ("at rest, shared", rest(Shared), (Some(Answer::Queued), Some(WordOp::ReleaseShared))),
        ("at rest, exclusive", rest(Exclusive), (None, Some(WordOp::HandOver(node(2))))),
        ("in use, shared", rest(Shared).reserved(), queued),
        ("in use, exclusive", rest(Exclusive).reserved(), queued),
        ("acquiring", acquiring(), dropped_at_once),
        ("asking", asking(), dropped_at_once),
        ("pausing", asking().after(dropped(node(3))), dropped_at_once),
        ("upgrading", upgrading(), dropped_at_once),
        ("asking for an upgrade", upgrade_asking(), dropped_at_once),
        ("pausing in an upgrade", upgrade_asking().after(dropped(node(3))), dropped_at_once),
        ("releasing, was shared", releasing(Shared), queued),
        ("releasing, was exclusive", releasing(Exclusive), queued),
        ("downgrading", downgrading(), queued),
        ("handing over", handing_over(), queued),
    ];
    for (phase, machine, expected) in cases {
        assert_eq!(reaction(machine, RequestKind::Write), expected, "{phase}");
    }
}

#[test]
fn a_reader_that_sends_a_reader_a_request_has_missed_a_downgrade() {
    let machine = Machine::holding(Hold::Shared);
    assert_eq!(reaction(machine, RequestKind::Read), (Some(Answer::Released), None));
}

#[test]
fn the_highest_priority_is_served_first_and_then_the_first_that_came() {
    let mut machine = Machine::holding(Hold::Exclusive).reserved();
    for (from, priority) in [(2, 1), (3, 4), (4, 4), (5, 0)] {
        machine
            .takes_request(InvalidationRequest { priority, ..request(from, RequestKind::Write) });
    }
    machine.copy.reserved = false;
    let actions = machine.take(Event::Serve);
    let Some(Action::Forward { request, message }) = actions.first() else {
        panic!("no forward: {actions:?}")
    };
    assert_eq!(request.from, node(3));
    let LatchMessage::Grant { mode: GrantMode::Exclusive, travelling, .. } = message else {
        panic!("not a grant: {message:?}")
    };
    let left: Vec<u8> = travelling.iter().map(|request| request.from.get()).collect();
    assert_eq!(left, [2, 4, 5]);
}

#[test]
fn a_full_memory_refuses_and_keeps_what_it_has() {
    let mut machine = Machine::holding(Hold::Exclusive).reserved();
    // A node that sent requests to several nodes may be queued more than once.
    let ask = |n: usize| InvalidationRequest {
        seq: Seq(n as u16),
        ..request(if n % 57 < 9 { n % 57 + 1 } else { n % 57 + 2 } as u8, RequestKind::Read)
    };
    for n in 0..REMEMBERED_MAX {
        let actions = machine.takes_request(ask(n));
        assert_eq!(actions, [answer_to(&ask(n), Answer::Queued)]);
    }
    let late = ask(REMEMBERED_MAX);
    assert_eq!(machine.takes_request(late), [answer_to(&late, Answer::Dropped)]);
    machine.copy.reserved = false;
    let forwards = machine.take(Event::Serve);
    let forwards = forwards.iter().filter(|action| matches!(action, Action::Forward { .. }));
    assert_eq!(forwards.count(), REMEMBERED_MAX);
}

/// Twelve writers wait. Bug: writers without room in a grant were refused, however long they had
/// waited. Fix: their requests are sent on after the hand-over, each once.
#[test]
fn requests_that_a_grant_has_no_room_for_are_sent_on_behind_it() {
    let mut machine = Machine::holding(Hold::Exclusive).reserved();
    let others = TRAVELLING_MAX as u8 + 3;
    for from in 11..=10 + others {
        let priority = from % 3;
        machine
            .takes_request(InvalidationRequest { priority, ..request(from, RequestKind::Write) });
    }
    machine.copy.reserved = false;
    let mut actions = machine.take(Event::Serve);
    let posted = WordOp::HandOver(node(11));
    assert_eq!(actions.last(), Some(&Action::Post(posted)), "they are sent when that is complete");
    actions.extend(machine.take(completed(posted, held_by(ME))));
    let Some(Action::Forward { message: LatchMessage::Grant { travelling, .. }, .. }) =
        actions.first()
    else {
        panic!("no forward: {actions:?}")
    };
    assert_eq!(travelling.len(), TRAVELLING_MAX);
    let new_owner = node(11);
    let sent_on: Vec<InvalidationRequest> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Send { to, message: LatchMessage::Request(request) } if *to == new_owner => {
                Some(*request)
            }
            _ => None,
        })
        .collect();
    assert_eq!(sent_on.len(), 2);
    let lowest = travelling.iter().map(|request| request.priority).min();
    assert!(sent_on.iter().all(|request| Some(request.priority) <= lowest), "{sent_on:?}");
    let mut all: Vec<u8> = travelling.iter().chain(&sent_on).map(|r| r.from.get()).collect();
    all.sort_unstable();
    assert_eq!(all, (12..=10 + others).collect::<Vec<_>>(), "each once, and not the new owner");
    assert!(
        !actions
            .iter()
            .any(|a| matches!(a, Action::Send { message: LatchMessage::Answer { .. }, .. }))
    );
}

#[test]
fn a_request_that_overtakes_the_grant_is_sent_away() {
    let mut machine = Machine::holding(Hold::Nothing).after(Event::Want(Want::Exclusive));
    machine.take(completed(WordOp::AcquireExclusive, held_by(3)));
    let sent_on = InvalidationRequest { asked: node(3), ..request(4, RequestKind::Write) };
    assert_eq!(machine.takes_request(sent_on), [answer_to(&sent_on, Answer::Dropped)]);
}

#[test]
fn a_node_that_receives_a_line_queues_the_travelling_requests() {
    let mut machine = Machine::holding(Hold::Nothing).after(Event::Want(Want::Exclusive));
    machine.take(completed(WordOp::AcquireExclusive, held_by(3)));
    machine.copy.reserved = true;
    let travelling: QueuedRequests =
        (4..=7).map(|from| request(from, RequestKind::Write)).collect();
    let grant = |travelling| LatchMessage::Grant {
        asked: node(3),
        seq: Seq(8),
        mode: GrantMode::Exclusive,
        travelling,
    };
    machine.take(Event::Received(grant(travelling)));
    assert_eq!(machine.line.hold(), Hold::Exclusive);
    assert!(!machine.line.is_blocked(), "not before it is settled");
    let queued = machine.takes_request(request(2, RequestKind::Write));
    assert_eq!(queued, [answer(2, Answer::Queued)]);
    machine.take(Event::Received(LatchMessage::Settled { seq: Seq(8) }));
    assert!(machine.line.is_blocked());
}

#[test]
fn an_answer_to_another_request_changes_nothing() {
    let mut machine = Machine::holding(Hold::Nothing).after(Event::Want(Want::Exclusive));
    machine.take(completed(WordOp::AcquireExclusive, held_by(3)));
    let before = machine.line.clone();
    let stale = LatchMessage::Answer { asked: node(3), seq: Seq(7), answer: Answer::Dropped };
    assert_eq!(machine.take(Event::Received(stale)), []);
    let other = LatchMessage::Answer { asked: node(4), seq: Seq(8), answer: Answer::Dropped };
    assert_eq!(machine.take(Event::Received(other)), []);
    assert_eq!(machine.take(Event::Received(LatchMessage::Settled { seq: Seq(7) })), []);
    assert_eq!(machine.line, before);
}

#[test]
fn an_upgrade_sends_those_away_that_come_behind_it() {
    let mut machine = Machine::holding(Hold::Shared).reserved();
    assert_eq!(machine.takes_request(request(2, RequestKind::Write)), [answer(2, Answer::Queued)]);
    let actions = machine.take(Event::Want(Want::Exclusive));
    assert_eq!(actions, [answer(2, Answer::Dropped), Action::Post(WordOp::Upgrade)]);
}

#[test]
fn an_upgrade_waits_for_those_that_come_before_it() {
    let mut machine = Machine::holding(Hold::Shared).reserved();
    let before = InvalidationRequest { priority: 1, ..request(2, RequestKind::Write) };
    machine.takes_request(before);
    assert_eq!(machine.take(Event::Want(Want::Exclusive)), []);
    machine.copy.reserved = false;
    let actions = machine.take(Event::Serve);
    assert_eq!(actions, [Action::HoldOff { priority: 1 }, Action::Post(WordOp::ReleaseShared)]);
}

/// An owner evicts the line, and its own code wants the line again before the release is complete.
/// Bug: the owner acquired the word at once, each time before the nodes that it had just answered.
/// Fix: the owner holds off if one of these nodes was refused before.
#[test]
fn an_owner_that_evicts_holds_off_for_nodes_that_were_refused() {
    let released = |priority| {
        let mut machine = Machine::holding(Hold::Exclusive);
        assert_eq!(machine.take(Event::Evict), [Action::Post(WordOp::ReleaseExclusive)]);
        machine.take(Event::Want(Want::Exclusive));
        let waits = InvalidationRequest { priority, ..request(2, RequestKind::Write) };
        assert_eq!(machine.takes_request(waits), [answer(2, Answer::Queued)]);
        let actions = machine.take(completed(WordOp::ReleaseExclusive, held_by(ME)));
        (machine, actions)
    };
    let (_, actions) = released(0);
    let acquire = Action::Post(WordOp::AcquireExclusive);
    assert_eq!(actions, [answer(2, Answer::Released), acquire.clone()]);
    let (mut machine, actions) = released(3);
    let hold_off = Action::ReleaseHoldOff { priority: 3 };
    assert_eq!(actions, [hold_off, answer(2, Answer::Released)]);
    assert_eq!(machine.take(Event::Want(Want::Exclusive)), [], "the hold-off is not over");
    assert_eq!(machine.take(Event::Retry), [acquire]);
}

#[test]
fn a_want_that_is_met_already_requests_nothing() {
    for (hold, want) in [
        (Hold::Shared, Want::Shared),
        (Hold::Exclusive, Want::Shared),
        (Hold::Exclusive, Want::Exclusive),
    ] {
        let mut machine = Machine::holding(hold);
        assert_eq!(machine.take(Event::Want(want)), []);
        assert!(machine.line.is_at_rest());
    }
}
