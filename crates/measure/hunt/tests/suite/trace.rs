//! Tests of a trace of a world: its entries, and that the trace does not change the world.

use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Member, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_hunt::{Diagram, Trace};
use latchwork_memnode::ObjectKind;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;

/// Runs a world in which three nodes add to one line. Returns the event hash.
fn world(trace: Option<&Trace>) -> u64 {
    let config = ClusterConfig {
        compute_nodes: 3,
        memory_bytes: 1 << 20,
        cache_bytes: latchwork_cache::Cache::footprint(8, 512),
        line_size: 512,
        chunk_size: 64 << 10,
        seed: 11,
        ..ClusterConfig::default()
    };
    let cluster = Simulated::start(config, SimConfig::rough()).expect("a good configuration");
    if let Some(trace) = trace {
        trace.attach(&cluster);
    }
    let trace = trace.cloned();
    let trace = Rc::new(trace);
    let body = move |member: Member| {
        let trace = Rc::clone(&trace);
        async move {
            let _operation = member.memory.enter().await.expect("a pool at rest");
            let line = shared_line(&member, trace.as_ref().as_ref()).await;
            for _ in 0..4 {
                let add = member.memory.write(line, |guard| {
                    let old = guard.words().u64(64);
                    guard.words().set_u64(64, old + 1);
                    guard.mark_dirty(64..72);
                    old + 1
                });
                let new = add.await.expect("no fault, no error");
                if let Some(trace) = trace.as_ref() {
                    let (now, node) = (member.handle.now(), member.node);
                    trace.note(now, node, 0, format!("adds: the counter is {new}"));
                }
            }
        }
    };
    cluster.run(Duration::from_secs(1), body).expect("everybody ends");
    cluster.kernel().event_hash()
}

async fn shared_line(member: &Member, trace: Option<&Trace>) -> GlobalAddr {
    let memory = &member.memory;
    if member.index == 0 {
        let line = memory.allocate().await.expect("a pool with room");
        if let Some(trace) = trace {
            trace.name(line, "the counter".to_owned());
        }
        let clear = memory.write(line, |guard| {
            guard.words().clear(0..480);
            guard.mark_dirty(0..480);
        });
        clear.await.expect("a new line");
        let name = member.catalogue.register(memory.port(), "counter", ObjectKind(1), line.bits());
        name.await.expect("a new name");
    }
    let deadline = member.handle.now() + Duration::from_millis(100);
    let found = member.catalogue.wait_for(memory.port(), &member.handle, "counter", deadline);
    GlobalAddr::from_bits(found.await.expect("the counter").value)
}

#[test]
fn a_trace_changes_nothing_and_shows_how_a_line_travels() {
    let trace = Trace::new();
    assert_eq!(world(Some(&trace)), world(None), "the same events with a trace and without");
    let line = trace.line_named_in("the counter").expect("named");
    let log = trace.log(Some(line), 1000);
    for words in [
        "post  #",
        "AcquireExclusive + READ",
        "free -> X=C1",
        "inbox #",
        "ask Write #",
        "grant Exclusive #",
        "HandOver(C",
        "settled #",
        "copy: exclusive -> none",
        "adds: the counter is 12",
    ] {
        assert!(log.contains(words), "{words} is missing:\n{log}");
    }
    let diagram = Diagram::of(&trace, Some(line), 60);
    let (ladder, mermaid) = (diagram.to_string(), diagram.mermaid());
    assert!(ladder.lines().count() > 25, "{ladder}");
    for party in ["C1", "C2", "C3", "M0"] {
        assert!(ladder.contains(party), "{ladder}");
        assert!(mermaid.contains(&format!("participant {party}\n")), "{mermaid}");
    }
}
