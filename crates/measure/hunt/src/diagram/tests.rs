//! Tests with diagrams of small fixed traces.

use latchwork_simulation::Time;
use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

use super::*;

fn c(id: u8) -> TraceParty {
    TraceParty::Compute(ComputeNodeId::new(id).expect("a valid id"))
}

const M0: TraceParty = TraceParty::Memory(MemoryNodeId(0));

fn entry(nanos: u64, what: TraceKind, text: &str, result: &str) -> TraceEntry {
    let at = Time::from_nanos(nanos);
    let (text, result) = (text.to_owned(), result.to_owned());
    TraceEntry { at, event: 0, what, line: None, text, result }
}

fn picture(entries: &[TraceEntry]) -> Diagram {
    let entries: Vec<&TraceEntry> = entries.iter().collect();
    let steps = draw(&entries, &|_| String::new());
    let parties: BTreeSet<TraceParty> = steps.iter().flat_map(Step::parties).collect();
    Diagram { title: "line 3".to_owned(), parties: parties.into_iter().collect(), steps }
}

/// A trace in which a reader requests a line from its writer. The request is lost once, and another
/// message arrives twice.
fn story() -> Vec<TraceEntry> {
    let (reader, writer) = (c(1), c(2));
    let read = (1, reader, M0);
    let ask = (2, reader, writer);
    let settled = (3, writer, reader);
    let posted = |(batch, from, to)| TraceKind::Posted { batch, from, to };
    let struck = |(batch, from, to)| TraceKind::Struck { batch, from, to };
    let delivered = |(batch, from, to)| TraceKind::Delivered { batch, from, to };
    let completed = |(batch, from, to), ok| TraceKind::Completed { batch, from, to, ok };
    vec![
        entry(1_000, TraceKind::Local { who: reader, worker: Some(0) }, "reads", ""),
        entry(1_000, posted(read), "AcquireShared + READ line", ""),
        entry(2_000, struck(read), "AcquireShared + READ line", "X=C2 -> X=C2 S={C1}"),
        entry(3_000, completed(read, true), "AcquireShared + READ line", "was X=C2"),
        entry(3_000, posted(ask), "ask Read #1", ""),
        entry(
            3_000,
            TraceKind::Fault { batch: 2, from: reader, to: writer, lost: true },
            "ask Read #1",
            "FAULT: lost",
        ),
        entry(4_000, completed(ask, true), "ask Read #1", "done"),
        entry(5_000, posted(settled), "settled #1", ""),
        entry(6_000, delivered(settled), "settled #1", ""),
        entry(7_000, delivered((0, writer, reader)), "settled #1", "once more"),
        entry(8_000, TraceKind::World, "starvation: C1 does not end its work", ""),
    ]
}

#[test]
fn a_ladder_has_an_arrow_per_batch_in_the_order_of_effects() {
    let expected = "\
line 3, time in us
               C1                                     C2                                     M0
        1.000   ● worker 0 reads                       │                                      │
        2.000   ├─── AcquireShared + READ line ────────┼─────────────────────────────────────►│ X=C2 -> X=C2 S={C1}
        3.000   │◄╌╌ was X=C2 ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┤
        3.000   ├─── ask Read #1 ────────x             │                                      │
        6.000   │◄── settled #1 ───────────────────────┤                                      │
        7.000   │◄── settled #1 ───────────────────────┤                                      │
                │ (once more)                          │                                      │
                │                                      │                                      │
        8.000   ═══ starvation: C1 does not end its work
               C1                                     C2                                     M0
";
    let drawn = picture(&story()).to_string();
    assert_eq!(drawn, expected, "\n{drawn}\n{expected}");
}

#[test]
fn what_took_long_says_when_it_was_posted_and_what_is_under_way_is_dashed() {
    let (from, to) = (c(1), c(2));
    let entries = [
        entry(1_000, TraceKind::Posted { batch: 1, from, to }, "ask Write #1", ""),
        entry(1_500, TraceKind::Posted { batch: 2, from: to, to: from }, "ask Write #9", ""),
        entry(2_000, TraceKind::Local { who: to, worker: None }, "its copy: none -> shared", ""),
        entry(3_000, TraceKind::Delivered { batch: 1, from, to }, "ask Write #1", ""),
    ];
    let expected = "\
line 3, time in us
               C1                                     C2
        1.500   │◄╌╌ ask Write #9 ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┤
                │ (not there yet)                      │
        2.000   │                                      ● its copy: none -> shared
        3.000   ├─── ask Write #1 ────────────────────►│ posted 1.000
               C1                                     C2
";
    let drawn = picture(&entries).to_string();
    assert_eq!(drawn, expected, "\n{drawn}\n{expected}");
}

#[test]
fn long_words_stand_above_their_arrow() {
    let (from, to) = (c(1), c(2));
    let text = "WRITE line, grant Exclusive #7 dirty 32..40 with C3 Read #9";
    let entries = [entry(1_000, TraceKind::Delivered { batch: 1, from, to }, text, "")];
    let drawn = picture(&entries).to_string();
    let rows: Vec<&str> = drawn.lines().collect();
    assert_eq!(rows.len(), 5, "{drawn}");
    assert!(rows[2].contains("│   WRITE line, grant Exclusive"), "{drawn}");
    assert!(rows[3].contains("►│"), "{drawn}");
    let width = |row: &str| row.chars().count();
    assert!(rows.iter().all(|row| width(row) <= width(rows[3])), "nothing stands out: {drawn}");
}

#[test]
fn failures_come_back_as_arrows() {
    let (from, to) = (c(1), M0);
    let posted = entry(1_000, TraceKind::Posted { batch: 1, from, to }, "ReleaseShared", "");
    let failed = TraceKind::Completed { batch: 1, from, to, ok: false };
    let failed = entry(2_000, failed, "ReleaseShared", "FAILED: may have taken effect");
    let drawn = picture(&[posted, failed]).to_string();
    assert!(drawn.contains("FAILED"), "{drawn}");
    assert!(drawn.contains("◄"), "{drawn}");
}

#[test]
fn mermaid_has_the_same_steps() {
    let expected = "\
sequenceDiagram
    participant C1
    participant C2
    participant M0
    Note over C1,M0: line 3
    Note over C1: 1.000 worker 0 reads
    C1->>M0: 2.000 AcquireShared + READ line | X=C2 -> X=C2 S={C1}
    M0-->>C1: 3.000 was X=C2
    C1-xC2: 3.000 ask Read #35;1
    C2->>C1: 6.000 settled #35;1
    C2->>C1: 7.000 settled #35;1 | once more
    Note over C1,M0: 8.000 starvation: C1 does not end its work
";
    assert_eq!(picture(&story()).mermaid(), expected);
}

#[test]
fn the_last_steps_are_kept() {
    let trace = Trace::new();
    for i in 0..10 {
        trace.note(Time::from_nanos(i), 0, 0, format!("step {i}"));
    }
    let drawn = Diagram::of(&trace, None, 2).to_string();
    assert!(drawn.contains("step 9") && drawn.contains("step 8") && !drawn.contains("step 7"));
    assert!(Diagram::of(&Trace::new(), None, 2).is_empty());
}
