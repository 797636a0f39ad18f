//! A node dies in the middle of a write-back, and the fabric tears the WRITE. After
//! [`roll_forward`] memory has the line as before or as after the write-back, and no mix.

use std::time::Duration;

use latchwork_cluster::{ClusterConfig, SimulatedNode, roll_forward};
use latchwork_coherence::AccessMode;
use latchwork_latch::{LatchWord, WordOp};
use latchwork_memnode::journal;
use latchwork_verbs::{GlobalAddr, Target, WORD};
use latchwork_verbs_sim::{Gate, Leg, SimConfig};

use crate::common::small;
use crate::scenarios::stage::*;

/// The words of a line that [`fill`] changes.
const WORDS: usize = (512 - latchwork_cache::LINE_HEADER) / WORD;

/// The requests of a write-back through a slot, by their place in the batch.
const SLOT: usize = 0;
const CHANGES: usize = 1;
const ALL: usize = 4;

/// The three operations with which A gives up what it holds, and what B does to cause them.
#[derive(Clone, Copy, Debug)]
enum Kind {
    HandOver,
    Release,
    Downgrade,
}

const KINDS: [Kind; 3] = [Kind::HandOver, Kind::Release, Kind::Downgrade];

impl Kind {
    fn op(self) -> WordOp {
        match self {
            Kind::HandOver => WordOp::HandOver(id(B)),
            Kind::Release => WordOp::ReleaseExclusive,
            Kind::Downgrade => WordOp::Downgrade,
        }
    }

    fn start(self, stage: &Stage, line: GlobalAddr) {
        match self {
            Kind::HandOver => drop(stage.takes(B, line, AccessMode::Exclusive)),
            Kind::Release => assert!(stage.evict(A, line)),
            Kind::Downgrade => drop(stage.takes(B, line, AccessMode::Shared)),
        }
    }
}

/// The configuration of three nodes whose hand-overs write back, on a fabric that tears WRITEs of
/// more than a word.
fn config(seed: u64, slots: bool) -> (ClusterConfig, SimConfig) {
    let mut config = small(3, 1, 64, seed);
    (config.selcc.survive, config.selcc.journal) = (true, slots);
    let network = if seed.is_multiple_of(2) { SimConfig::default() } else { SimConfig::rough() };
    (config, SimConfig { whole_write: WORD as u32, ..network })
}

fn stage(seed: u64, slots: bool) -> Stage {
    let (config, network) = config(seed, slots);
    Stage::over(config, network)
}

/// Makes the memory node of `line` fence A, and rolls A's slots there forward on B and C at the
/// same time, and again on C.
fn recover(stage: &Stage, line: GlobalAddr) {
    stage.cluster.fence(SimulatedNode::Memory(line.node()), A);
    let rolls = |worker| {
        stage.start(worker, async move |member| {
            let pool = member.memory.node().allocator().pool().clone();
            roll_forward(member.memory.port(), &pool, line.node(), id(A)).await.expect("no faults")
        })
    };
    let both = [rolls(B), rolls(C)];
    let [one, two] = both.map(|roll| stage.end(roll));
    assert_eq!(one, two, "both find the same slots");
    assert_eq!(stage.end(rolls(C)), one, "a repetition finds the same slots");
}

/// The value of all words of the line in memory; `None` for a mix.
fn in_memory(stage: &Stage, line: GlobalAddr) -> Option<u64> {
    let words = stage.memory(line);
    words.iter().all(|word| *word == words[0]).then_some(words[0])
}

/// The number of A's valid slots on the memory node of `line`.
fn valid_slots(stage: &Stage, line: GlobalAddr) -> usize {
    stage.run(C, async move |member| {
        let pool = member.memory.node().allocator().pool().clone();
        let found = journal::entries(member.memory.port(), &pool, line.node(), id(A)).await;
        found.expect("no faults").len()
    })
}

/// Memory has zeros, and A has changed all words to ones. A dies when its operation has taken
/// effect up to the request `cut`, and up to the word `torn` of that request. Returns what memory
/// has of the line after the recovery.
fn dies_at(kind: Kind, (cut, torn): (usize, usize), slots: bool) -> Option<u64> {
    let stage = stage(torn as u64, slots);
    let line = stage.line();
    stage.write(A, line, 1);
    let sent = stage.hold(Leg::There, line, op(A, kind.op()));
    let done = stage.hold(Leg::Back, line, op(A, kind.op()));
    kind.start(&stage, line);
    stage.until("it is posted", || sent.held() == 1);
    sent.look(|passing| assert_eq!(passing.requests.len(), if slots { ALL } else { 2 }));
    assert!(sent.tear(cut, torn));
    stage.until("it has taken effect as far as it does", || done.held() == 1);
    stage.cluster.kill(A);
    let holds = stage.word(line).exclusive() == Some(id(A));
    assert_eq!(holds, cut < if slots { ALL } else { 2 }, "{kind:?}: the atomic comes last");
    recover(&stage, line);
    in_memory(&stage, line)
}

#[test]
fn a_write_back_that_the_death_of_its_node_tears_is_made_whole_or_not_at_all() {
    for kind in KINDS {
        let slot = journal::SLOT_HEAD / WORD + WORDS;
        for torn in 0..=slot {
            let after = u64::from(torn == slot);
            assert_eq!(dies_at(kind, (SLOT, torn), true), Some(after), "{kind:?}: slot, {torn}");
        }
        for torn in 0..=WORDS {
            assert_eq!(dies_at(kind, (CHANGES, torn), true), Some(1), "{kind:?}: changes, {torn}");
        }
        for cut in CHANGES + 1..=ALL {
            assert_eq!(dies_at(kind, (cut, 0), true), Some(1), "{kind:?}: cut {cut}");
        }
    }
}

/// The test above detects a mix.
#[test]
fn without_slots_the_death_of_a_node_leaves_a_mix() {
    for kind in KINDS {
        for torn in 1..WORDS {
            assert_eq!(dies_at(kind, (0, torn), false), None, "{kind:?}: {torn}");
        }
    }
}

/// After the recovery another node may hold the line and write it back. A late call does nothing.
#[test]
fn a_slot_whose_line_has_another_holder_is_left_alone() {
    in_every_world(|seed| {
        let stage = stage(seed, true);
        let line = stage.line();
        stage.write(A, line, 1);
        let sent = stage.hold(Leg::There, line, op(A, WordOp::ReleaseExclusive));
        let done = stage.hold(Leg::Back, line, op(A, WordOp::ReleaseExclusive));
        Kind::Release.start(&stage, line);
        stage.until("it is posted", || sent.held() == 1);
        assert!(sent.tear(CHANGES, 7));
        stage.until("it has taken effect as far as it does", || done.held() == 1);
        stage.cluster.kill(A);
        recover(&stage, line);
        let latch = stage.geometry().latch_addr(line);
        let memory = stage.cluster.fabric().memory(line.node()).expect("it exists");
        memory.words().set_u64(latch.offset() as usize, 0);
        assert_eq!(stage.write(C, line, 2), 1);
        stage.evict_now(C, line);
        assert_eq!(valid_slots(&stage, line), 1);
        recover(&stage, line);
        assert_eq!(in_memory(&stage, line), Some(2));
    });
}

/// A dies at any event behind the post of a hand-over, and the fabric draws how far a WRITE got.
/// Returns the number of worlds in which memory has a mix after the recovery.
fn mixes_of_deaths(slots: bool) -> usize {
    let dies = |seed: u64, events: usize| {
        let stage = stage(seed, slots);
        let line = stage.line();
        stage.write(A, line, 1);
        let sent = stage.hold(Leg::There, line, op(A, WordOp::HandOver(id(B))));
        Kind::HandOver.start(&stage, line);
        stage.until("it is posted", || sent.held() == 1);
        drop(sent);
        stage.steps(events, || false);
        stage.cluster.kill(A);
        stage.pass(A_WHILE);
        recover(&stage, line);
        in_memory(&stage, line)
    };
    let worlds = (0..16).flat_map(|seed| (0..40).map(move |events| (seed, events)));
    worlds.filter(|&(seed, events)| dies(seed, events).is_none()).count()
}

#[test]
fn a_death_at_any_event_leaves_no_mix_behind_the_recovery() {
    assert_eq!(mixes_of_deaths(true), 0);
    assert!(mixes_of_deaths(false) > 0, "no death tore a WRITE");
}

/// A connection fails under the batch of a living node. When the node reports the operation over,
/// its slot is clear.
#[test]
fn the_slot_of_an_operation_that_was_cut_off_is_clear_when_the_operation_is_over() {
    in_every_world(|seed| {
        for (kind, cut) in KINDS.into_iter().flat_map(|kind| (0..=ALL).map(move |cut| (kind, cut)))
        {
            let stage = stage(seed, true);
            let line = stage.line();
            stage.write(A, line, 1);
            let sent = stage.hold(Leg::There, line, op(A, kind.op()));
            let done = stage.hold(Leg::Back, line, op(A, kind.op()));
            kind.start(&stage, line);
            stage.until("it is posted", || sent.held() == 1);
            assert!(sent.tear(cut, 0));
            drop(sent);
            stage.until("it has taken effect as far as it does", || done.held() == 1);
            // The slot is valid while the line may be torn, and clear before the atomic.
            let valid = usize::from((CHANGES..=CHANGES + 1).contains(&cut));
            assert_eq!(valid_slots(&stage, line), valid, "{kind:?}: cut {cut}");
            drop(done);
            stage.until("A is done", || stage.node(A).lines_in_flight() == 0);
            assert_eq!(valid_slots(&stage, line), 0, "{kind:?}: cut {cut}");
            assert_eq!(in_memory(&stage, line), Some(1), "{kind:?}: cut {cut}");
            stage.pass(A_WHILE);
            assert_eq!(stage.write(C, line, 3), 1);
            stage.finish();
        }
    });
}

/// The slots of a worker on one memory node.
const SLOTS: usize = 16;

/// A has more dirty lines than slots, all on one memory node, and evicts them while the gate holds
/// what it posts.
fn evicts_more_than_slots(stage: &Stage) -> (Vec<GlobalAddr>, Gate) {
    let lines: Vec<_> = (0..SLOTS + 4).map(|_| stage.line()).collect();
    let memory = lines[0].node();
    assert!(lines.iter().all(|line| line.node() == memory), "the lines are of one chunk");
    for line in &lines {
        stage.write(A, *line, 1);
    }
    let gate = stage.sim().gate(move |passing| {
        passing.leg == Leg::There
            && passing.from == id(A)
            && passing.target == Target::Memory(memory)
            && passing.requests.len() == ALL
    });
    for line in &lines {
        assert!(stage.evict(A, *line));
    }
    stage.until("all slots are used", || gate.held() == SLOTS);
    stage.pass(A_WHILE);
    assert_eq!(gate.held(), SLOTS, "the others wait");
    let (first, waiting) = lines.split_at(SLOTS);
    assert!(first.iter().all(|line| stage.frame(A, *line).is_none()), "a copied line is evicted");
    assert!(waiting.iter().all(|line| stage.frame(A, *line).is_some()), "a frame is read later");
    (lines, gate)
}

#[test]
fn an_operation_without_a_slot_waits_for_the_end_of_another() {
    in_every_world(|seed| {
        let stage = stage(seed, true);
        let (lines, gate) = evicts_more_than_slots(&stage);
        assert!(gate.release());
        stage.until("one has ended, and its slot is used again", || gate.held() == SLOTS);
        gate.release_all();
        drop(gate);
        stage.until("A is done", || stage.node(A).lines_in_flight() == 0);
        for line in lines {
            assert_eq!(stage.word(line), LatchWord::FREE);
            assert_eq!(in_memory(&stage, line), Some(1));
        }
        stage.finish();
    });
}

/// The connection fails under a release and under all its probes, so whether the release was
/// applied stays unknown. Its slot is not used again: only the slot has all bytes of the line.
#[test]
fn an_operation_without_an_end_keeps_its_slot() {
    in_every_world(|seed| {
        let stage = stage(seed, true);
        let (line, other) = (stage.line(), stage.line());
        stage.write(A, line, 1);
        let gate = stage.hold(Leg::There, line, any_op(A));
        assert!(stage.evict(A, line));
        stage.until("it is posted", || gate.held() == 1);
        assert!(gate.tear(CHANGES, 7));
        stage.pass(A_WHILE);
        while gate.cut_off(0) {
            stage.pass(A_WHILE);
        }
        assert!(
            stage.end(stage.takes(A, line, AccessMode::Shared)).is_err(),
            "the line has failed"
        );
        stage.write(A, other, 1);
        stage.evict_now_beside(other);
        stage.until("the other line is free", || stage.word(other) == LatchWord::FREE);
        assert_eq!((in_memory(&stage, line), valid_slots(&stage, line)), (None, 1));
        stage.cluster.kill(A);
        recover(&stage, line);
        assert_eq!(in_memory(&stage, line), Some(1));
    });
}

/// The memory node dies, so no slot comes back.
#[test]
fn an_operation_that_waits_for_a_slot_in_vain_fails() {
    in_every_world(|seed| {
        let mut stage = stage(seed, true);
        let (lines, gate) = evicts_more_than_slots(&stage);
        stage.cluster.lose_memory_node(lines[0].node()).expect("it exists");
        gate.release_all();
        drop(gate);
        stage.pass(Duration::from_millis(1));
        for line in lines {
            let access = stage.takes(A, line, AccessMode::Shared);
            assert!(stage.end(access).is_err(), "{line} has failed");
        }
        stage.leave(A);
    });
}
