//! Each fault happens at its rate, and has its documented effect and no other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork_runtime::{ExecutorConfig, VirtualWorker};
use latchwork_simulation::Kernel;
use latchwork_verbs::contract::{Harness, Script};
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, LocalBuffer, MemoryNodeId, Region, Target, VerbError, WorkRequest,
};
use latchwork_verbs_sim::{Drawn, FaultCounts, Faults, NicProfile, SimConfig, SimFabric};

use crate::world::{World, profile};

const MEMORY: Target = Target::Memory(MemoryNodeId(0));

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

/// Drawn times and the times of a NIC: faults happen with both.
fn networks(faults: Faults) -> impl Iterator<Item = SimConfig> {
    let nic = |queue_pairs| NicProfile { queue_pairs, ..profile() };
    let all = [SimConfig::default(), SimConfig::rough(), SimConfig::nic(nic(1))];
    all.into_iter()
        .chain([SimConfig::nic(nic(4))])
        .map(move |config| SimConfig { faults, ..config })
}

/// Sends `count` messages from node 1 to node 2. Returns the number of times that each message
/// arrived.
fn arrivals(config: SimConfig, count: u64) -> (Vec<u64>, FaultCounts) {
    let world = World::new(5, config);
    let arrived = Arc::new(Mutex::new(vec![0; count as usize]));
    let seen = Arc::clone(&arrived);
    let sender = Script::new(node(1), move |worker| async move {
        for i in 0..count {
            let token = worker.post(Target::Compute(node(2), 0), &[worker.message(i)]).unwrap();
            worker.wait(token).await.expect("a lost message completes, too");
        }
    });
    let receiver = Script::new(node(2), move |worker| async move {
        // The last message arrives long before this loop ends.
        for _ in 0..40 * count {
            worker.receive(|message| seen.lock().unwrap()[message.body[0] as usize] += 1);
            worker.pause().await;
        }
    });
    world.run(vec![sender, receiver]);
    let arrived = arrived.lock().unwrap().clone();
    (arrived, world.fabric.fault_counts())
}

#[test]
fn lost_messages_complete_and_never_arrive() {
    for config in networks(Faults { lose_one_in: 4, ..Faults::NONE }) {
        let (arrived, counts) = arrivals(config, 400);
        let lost = arrived.iter().filter(|&&times| times == 0).count() as u64;
        assert!(arrived.iter().all(|&times| times <= 1));
        assert_eq!(lost, counts.lost);
        assert!((60..140).contains(&lost), "{lost} of 400 lost, at one in four");
    }
}

#[test]
fn duplicated_messages_arrive_twice() {
    let faults = Faults { repeat_one_in: 4, delay: Duration::from_micros(20), ..Faults::NONE };
    for config in networks(faults) {
        let (arrived, counts) = arrivals(config, 400);
        let twice = arrived.iter().filter(|&&times| times == 2).count() as u64;
        assert!(arrived.iter().all(|&times| times == 1 || times == 2));
        assert_eq!(twice, counts.repeated);
        assert!((60..140).contains(&twice), "{twice} of 400 repeated, at one in four");
    }
}

/// Detects a fabric on which a failed batch takes effect after its completion, or in an order that
/// the contract forbids.
#[test]
fn a_failed_batch_has_taken_effect_up_to_some_point_and_never_goes_on() {
    let (mut whole, mut none, mut part) = (0, 0, 0);
    for (seed, config) in networks(Faults { fail_one_in: 3, ..Faults::NONE }).enumerate() {
        let world = World::new(seed as u64, config);
        let memory = world.memory(MemoryNodeId(0));
        let at_failure = Arc::new(Mutex::new(Vec::new()));
        let (seen, looked) = (Arc::clone(&at_failure), Arc::clone(&memory));
        world.run(vec![Script::new(node(1), move |worker| async move {
            for i in 0..300u64 {
                let word = i * 24;
                let batch = [
                    WorkRequest::WriteWord { remote: word, value: 1 },
                    WorkRequest::FetchAdd { remote: word + 8, add: 1 },
                    WorkRequest::WriteWord { remote: word + 16, value: 1 },
                ];
                let token = worker.post(MEMORY, &batch).unwrap();
                let result = worker.wait(token).await;
                let now = [0, 8, 16].map(|at| looked.words().u64(word as usize + at));
                match result {
                    Ok(_) => assert_eq!(now, [1; 3], "a batch that completed"),
                    Err(error) => {
                        assert_eq!(error, VerbError::Ambiguous { target: MEMORY });
                        seen.lock().unwrap().push((word, now));
                    }
                }
            }
        })]);
        let failures = at_failure.lock().unwrap();
        let counts = world.fabric.fault_counts();
        let failed = counts.failed_applied + counts.failed_unapplied;
        assert_eq!(failures.len() as u64, failed);
        assert!((60..140).contains(&failed), "{failed} of 300 failed, at one in three");
        for (word, then) in failures.iter() {
            assert!([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]].contains(then), "{then:?}");
            let now = [0, 8, 16].map(|at| memory.words().u64(*word as usize + at));
            assert_eq!(now, *then, "what had not taken effect when the batch failed never does");
            match then.iter().sum() {
                3u64 => whole += 1,
                0 => none += 1,
                _ => part += 1,
            }
        }
    }
    assert!(whole > 20 && none > 20 && part > 20, "{whole} whole, {none} none, {part} in part");
}

#[test]
fn delays_make_batches_late_and_change_nothing_else() {
    let delay = Duration::from_millis(1);
    for config in networks(Faults { delay_one_in: 10, delay, ..Faults::NONE }) {
        let world = World::new(1, config);
        world.run(vec![Script::new(node(1), |worker| async move {
            for i in 0..200 {
                let old = worker.call(MEMORY, &[WorkRequest::FetchAdd { remote: 0, add: 1 }]).await;
                assert_eq!(old[0], i);
            }
        })]);
        let delayed = world.fabric.fault_counts().delayed;
        assert!((8..40).contains(&delayed), "{delayed} of 200 delayed, at one in ten");
        assert!(world.kernel.now() - latchwork_simulation::Time::ZERO > delay);
    }
}

/// Detects a fabric on which a dead node goes on writing.
#[test]
fn a_dead_node_does_nothing_more_not_even_the_rest_of_a_batch() {
    let (mut cut_short, mut went_through) = (0, 0);
    for seed in 0..60 {
        for config in networks(Faults::NONE) {
            let world = World::new(seed, config);
            let memory = world.memory(MemoryNodeId(0));
            let posted = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&posted);
            let script = Script::new(node(1), move |worker| async move {
                for i in 0..50u64 {
                    let add = |k: u64| WorkRequest::FetchAdd { remote: 16 * i + 8 * k, add: 1 };
                    worker.post(MEMORY, &[add(0), add(1)]).unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                    worker.pause().await;
                }
            });
            world.run_turns(vec![script], 20 + seed);
            world.fabric.kill(node(1)).unwrap();
            let words = || (0..100).map(|word| memory.words().u64(8 * word)).collect::<Vec<_>>();
            let at_death = words();
            while world.kernel.step() {}
            assert_eq!(words(), at_death);
            let done: u64 = at_death.iter().sum();
            let batches = posted.load(Ordering::Relaxed);
            cut_short += u64::from(done < 2 * batches);
            went_through += u64::from(done > 0);
        }
    }
    assert!(cut_short > 100 && went_through > 100, "{cut_short} {went_through}");
}

#[test]
fn verbs_to_the_dead_and_to_lost_memory_fail() {
    for config in networks(Faults::NONE) {
        let world = World::new(1, config);
        world.fabric.kill(node(2)).unwrap();
        world.fabric.lose_memory_node(MemoryNodeId(1)).unwrap();
        world.run(vec![Script::new(node(1), |worker| async move {
            for target in [Target::Compute(node(2), 0), Target::Memory(MemoryNodeId(1))] {
                let word = WorkRequest::WriteWord { remote: 0, value: 1 };
                let token = worker.post(target, &[word]).unwrap();
                let result = worker.wait(token).await;
                assert_eq!(result, Err(VerbError::Disconnected { target }));
            }
            worker.call(MEMORY, &[WorkRequest::WriteWord { remote: 0, value: 1 }]).await;
        })]);
        assert_eq!(world.memory(MemoryNodeId(1)).words().u64(0), 0);
    }
    let world = World::new(1, SimConfig::default());
    assert!(world.fabric.lose_memory_node(MemoryNodeId(9)).is_err());
}

#[test]
fn a_slow_node_is_slow_until_it_is_healed() {
    let drawn = Drawn { tail_one_in: 0, ..Drawn::default() };
    for config in [SimConfig::drawn(drawn), SimConfig::nic(profile())] {
        let time = |slowness: &[u32]| {
            let world = World::new(1, config.clone());
            for times in slowness {
                world.fabric.slow_down(node(1), *times).unwrap();
            }
            world.run(vec![Script::new(node(1), |worker| async move {
                for _ in 0..50 {
                    worker.call(MEMORY, &[WorkRequest::FetchAdd { remote: 0, add: 1 }]).await;
                }
            })]);
            world.kernel.now() - latchwork_simulation::Time::ZERO
        };
        let usual = time(&[]);
        assert!(time(&[10]) > 6 * usual, "{:?} {usual:?}", time(&[10]));
        assert_eq!(time(&[10, 1]), usual);
    }
}

/// The number of words that memory has of a WRITE of eight words whose poster dies after `events`
/// events, and is fenced at once if `fenced`.
fn words_after_a_death(config: SimConfig, seed: u64, events: usize, fenced: bool) -> usize {
    let kernel = Kernel::new(seed);
    let fabric = SimFabric::new(&kernel, config);
    fabric.add_memory_node(128).unwrap();
    fabric.add_compute_node(node(1)).unwrap();
    let region = Region::zeroed(64).unwrap();
    (0..8).for_each(|word| region.words().set_word(word, 1));
    let local =
        LocalBuffer { region: fabric.register(node(1), region).unwrap(), offset: 0, len: 64 };
    let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
    let mut endpoint = fabric.endpoint(node(1), &worker.handle()).unwrap();
    let after = WorkRequest::WriteWord { remote: 64, value: 1 };
    endpoint.post(MEMORY, 1, &[WorkRequest::Write { remote: 0, local }, after]).unwrap();
    endpoint.ring();
    (0..events).for_each(|_| _ = kernel.step());
    fabric.kill(node(1)).unwrap();
    if fenced {
        fabric.fence_memory_node(MemoryNodeId(0), node(1)).unwrap();
    }
    while kernel.step() {}
    let memory = fabric.memory(MemoryNodeId(0)).unwrap();
    let words = (0..8).take_while(|&word| memory.words().word(word) == 1).count();
    assert!((words..8).all(|word| memory.words().word(word) == 0), "a gap");
    assert!(words == 8 || memory.words().word(8) == 0, "the next WRITE came first");
    words
}

#[test]
fn a_death_tears_a_write_above_the_whole_length_and_no_other() {
    for network in networks(Faults::NONE) {
        let seen = |whole_write, fenced| {
            let config = SimConfig { whole_write, ..network.clone() };
            let worlds = (0..200).flat_map(|seed| (0..6).map(move |events| (seed, events)));
            let words = worlds
                .map(|(seed, events)| words_after_a_death(config.clone(), seed, events, fenced));
            words.collect::<BTreeSet<_>>()
        };
        let whole = BTreeSet::from([0, 8]);
        assert_eq!(seen(8, false), (0..=8).collect(), "every number of words");
        assert_eq!(seen(64, false), whole);
        assert_eq!(seen(u32::MAX, false), whole);
        assert_eq!(seen(8, true), whole, "a WRITE began behind the fence");
    }
}
