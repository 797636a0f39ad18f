//! A watcher sees every step of every batch and every fault, and changes nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_runtime::{ExecutorConfig, VirtualWorker};
use latchwork_simulation::Kernel;
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, Inbox as _, MemoryNodeId, Message, Target, VerbError, WorkRequest,
};
use latchwork_verbs_sim::{
    BatchStep, FaultCounts, Faults, NicProfile, SimConfig, SimFabric, Strike,
};

const A: ComputeNodeId = ComputeNodeId::new(1).unwrap();
const B: ComputeNodeId = ComputeNodeId::new(2).unwrap();
const MEMORY: Target = Target::Memory(MemoryNodeId(0));

/// Posts these batches one after the other. Returns the steps that a watcher saw, the number of
/// messages that B received, the faults, and the event hash.
fn play(
    config: SimConfig,
    watched: bool,
    batches: &[(Target, WorkRequest)],
) -> (Vec<String>, usize, FaultCounts, u64) {
    let kernel = Kernel::new(5);
    let fabric = SimFabric::new(&kernel, config);
    fabric.add_memory_node(64).unwrap();
    [A, B].into_iter().for_each(|node| fabric.add_compute_node(node).unwrap());
    let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
    let mut endpoint = fabric.endpoint(A, &worker.handle()).unwrap();
    let seen: Rc<RefCell<Vec<String>>> = Rc::default();
    if watched {
        let seen = Rc::clone(&seen);
        fabric.watch(move |sight| {
            assert_eq!(sight.from, A);
            let what = match sight.what {
                BatchStep::Posted => format!("posted {:?}", sight.target),
                BatchStep::Struck { request, old, new } => format!("{request}: {old} -> {new}"),
                BatchStep::Delivered(message) => format!("delivered {}", message.body[0]),
                BatchStep::Completed(Ok(outcome)) => format!("completed, was {}", outcome.old[0]),
                BatchStep::Completed(Err(VerbError::Ambiguous { .. })) => "ambiguous".to_owned(),
                BatchStep::Completed(Err(error)) => error.to_string(),
                BatchStep::Fault(Strike::Delayed(_)) => "fault: delayed".to_owned(),
                BatchStep::Fault(Strike::Lost) => "fault: lost".to_owned(),
                BatchStep::Fault(Strike::Duplicated(_)) => "fault: repeated".to_owned(),
                BatchStep::Fault(Strike::CutOff(done)) => format!("fault: cut off behind {done}"),
            };
            seen.borrow_mut().push(what);
        });
    }
    let mut received = 0;
    for (token, (target, request)) in batches.iter().enumerate() {
        endpoint.post(*target, token as u64, &[*request]).unwrap();
        endpoint.ring();
        while kernel.step() {}
        endpoint.poll(&mut |_| {});
        fabric.inbox(B).unwrap().receive(&mut |_| received += 1);
    }
    let seen = seen.borrow().clone();
    (seen, received, fabric.fault_counts(), kernel.event_hash())
}

fn send(word: u64) -> (Target, WorkRequest) {
    (Target::Compute(B, 0), WorkRequest::Send(Message { from: A, body: [word; Message::WORDS] }))
}

fn networks(faults: Faults) -> [SimConfig; 2] {
    let nic = NicProfile::find("connectx5").expect("comes along");
    [SimConfig { faults, ..SimConfig::rough() }, SimConfig { faults, ..SimConfig::nic(nic) }]
}

#[test]
fn every_step_is_seen_in_order() {
    let batches = [
        (MEMORY, WorkRequest::FetchAdd { remote: 8, add: 5 }),
        (MEMORY, WorkRequest::CompareSwap { remote: 8, expected: 5, desired: 9 }),
        (MEMORY, WorkRequest::CompareSwap { remote: 8, expected: 5, desired: 1 }),
        send(7),
    ];
    for config in networks(Faults::NONE) {
        let (seen, received, ..) = play(config, true, &batches);
        let (memory, peer) = ("posted Memory(MemoryNodeId(0))", "posted Compute(C2, 0)");
        let expected = [
            memory,
            "0: 0 -> 5",
            "completed, was 0",
            memory,
            "0: 5 -> 9",
            "completed, was 5",
            memory,
            "0: 9 -> 9",
            "completed, was 9",
            peer,
            "delivered 7",
            "completed, was 0",
        ];
        assert_eq!((seen, received), (expected.map(str::to_owned).to_vec(), 1));
    }
}

#[test]
fn every_fault_that_strikes_is_seen() {
    let batches: Vec<_> = (0..200).map(send).collect();
    let faults = Faults {
        delay_one_in: 5,
        delay: Duration::from_micros(30),
        lose_one_in: 6,
        repeat_one_in: 7,
        fail_one_in: 8,
    };
    for config in networks(faults) {
        let (seen, received, counts, _) = play(config, true, &batches);
        let count = |what: &str| seen.iter().filter(|seen| seen.starts_with(what)).count() as u64;
        assert_eq!(count("fault: delayed"), counts.delayed);
        assert_eq!(count("fault: lost"), counts.lost);
        assert_eq!(count("fault: repeated"), counts.repeated);
        assert_eq!(count("fault: cut off behind 1"), counts.failed_applied);
        assert_eq!(count("fault: cut off behind 0"), counts.failed_unapplied);
        assert_eq!(count("ambiguous"), counts.failed_applied + counts.failed_unapplied);
        assert_eq!(count("delivered"), received as u64, "once more each time it comes again");
        assert!(
            [counts.delayed, counts.lost, counts.repeated].iter().all(|&n| n > 0),
            "{counts:?}"
        );
        assert!(counts.failed_applied > 0 && counts.failed_unapplied > 0, "{counts:?}");
    }
}

#[test]
fn a_watcher_changes_nothing() {
    let batches: Vec<_> = (0..50).map(send).collect();
    let faults = Faults { repeat_one_in: 3, delay: Duration::from_micros(9), ..Faults::NONE };
    for config in networks(faults) {
        let watched = play(config.clone(), true, &batches);
        let alone = play(config, false, &batches);
        assert_eq!((watched.1, watched.2, watched.3), (alone.1, alone.2, alone.3));
    }
}
