//! The freedoms of the contract really happen, and only the seed decides them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork_verbs::contract::{Harness, Script, Worker};
use latchwork_verbs::{
    ComputeNodeId, LocalBuffer, MemoryNodeId, Region, RegionKey, Target, WorkRequest,
};
use latchwork_verbs_sim::{Drawn, SimConfig};

use crate::world::World;

const MEMORY: Target = Target::Memory(MemoryNodeId(0));
const SEEDS: u64 = 200;

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

fn local(offset: u64, len: u32) -> LocalBuffer {
    LocalBuffer { region: RegionKey(0), offset, len }
}

/// The number of worlds in which a script of node 1 returns true.
fn sightings<F>(
    config: &SimConfig,
    script: impl Fn(Arc<Region>, Worker) -> F + Copy + Send + 'static,
) -> u64
where
    F: Future<Output = bool> + 'static,
{
    let count = Arc::new(AtomicU64::new(0));
    for seed in 0..SEEDS {
        let world = World::new(seed, config.clone());
        let count = Arc::clone(&count);
        let region = world.region(node(1));
        world.run(vec![Script::new(node(1), move |worker| async move {
            count.fetch_add(script(region, worker).await.into(), Ordering::Relaxed);
        })]);
    }
    count.load(Ordering::Relaxed)
}

/// Reads while another node writes. Returns two numbers: the copies with an older word behind a
/// newer word, and the copies with a newer word behind an older word.
fn torn(config: &SimConfig) -> (u64, u64) {
    const LEN: u32 = 256;
    let found = Arc::new(Mutex::new((0, 0)));
    for seed in 0..SEEDS / 4 {
        let world = World::new(seed, config.clone());
        let region = world.region(node(1));
        let writer = Script::new(node(1), move |worker| async move {
            for value in 1..40 {
                let words = region.words().slice(0..LEN as usize);
                (0..LEN as usize / 8).for_each(|i| words.set_word(i, value));
                worker
                    .call(MEMORY, &[WorkRequest::Write { remote: 0, local: local(0, LEN) }])
                    .await;
            }
        });
        let region = world.region(node(2));
        let found = Arc::clone(&found);
        let reader = Script::new(node(2), move |worker| async move {
            for _ in 0..40 {
                worker.call(MEMORY, &[WorkRequest::Read { remote: 0, local: local(0, LEN) }]).await;
                let words = region.words().slice(0..LEN as usize);
                let steps = || (1..LEN as usize / 8).map(|i| (words.word(i - 1), words.word(i)));
                let mut found = found.lock().unwrap();
                found.0 += u64::from(steps().any(|(before, behind)| behind < before));
                found.1 += u64::from(steps().any(|(before, behind)| behind > before));
            }
        });
        world.run(vec![writer, reader]);
    }
    *found.lock().unwrap()
}

#[test]
fn reads_are_torn_and_not_in_address_order() {
    let (older_behind, newer_behind) = torn(&SimConfig::default());
    assert!(older_behind > 0 && newer_behind > 0, "{older_behind} and {newer_behind}");
}

#[test]
fn nothing_is_torn_with_one_piece() {
    assert_eq!(torn(&SimConfig::drawn(Drawn { pieces_max: 1, ..Drawn::default() })), (0, 0));
}

#[test]
fn batches_of_one_endpoint_overtake_each_other_unless_they_share_a_queue_pair() {
    let overtaken = |_, worker: Worker| async move {
        let write = |value| [WorkRequest::WriteWord { remote: 0, value }];
        let tokens = [1, 2].map(|value| worker.post(MEMORY, &write(value)).unwrap());
        for token in tokens {
            worker.wait(token).await.unwrap();
        }
        worker.call(MEMORY, &[WorkRequest::FetchAdd { remote: 0, add: 0 }]).await[0] == 1
    };
    let count = sightings(&SimConfig::default(), overtaken);
    assert!(count > SEEDS / 8 && count < SEEDS, "{count} of {SEEDS}");
    let queue_pair = SimConfig::drawn(Drawn { reorder_batches: false, ..Drawn::default() });
    assert_eq!(sightings(&queue_pair, overtaken), 0);
}

#[test]
fn a_read_may_be_later_than_the_write_behind_it() {
    let late = |region: Arc<Region>, worker: Worker| async move {
        let read = WorkRequest::Read { remote: 0, local: local(0, 8) };
        worker.call(MEMORY, &[read, WorkRequest::WriteWord { remote: 0, value: 1 }]).await;
        region.words().u64(0) == 1
    };
    let count = sightings(&SimConfig::default(), late);
    assert!(count > SEEDS / 8 && count < SEEDS, "{count} of {SEEDS}");
}

#[test]
fn an_atomic_may_be_later_than_the_write_or_atomic_behind_it() {
    let late = |_, worker: Worker| async move {
        let add = WorkRequest::FetchAdd { remote: 0, add: 1 };
        worker.call(MEMORY, &[add, WorkRequest::WriteWord { remote: 0, value: 100 }]).await[0]
            == 100
    };
    let count = sightings(&SimConfig::default(), late);
    assert!(count > SEEDS / 8 && count < SEEDS, "{count} of {SEEDS}");

    let late = |_, worker: Worker| async move {
        let add = |add| WorkRequest::FetchAdd { remote: 0, add };
        worker.call(MEMORY, &[add(1), add(100)]).await == [100, 0]
    };
    let count = sightings(&SimConfig::default(), late);
    assert!(count > SEEDS / 8 && count < SEEDS, "{count} of {SEEDS}");
}

#[test]
fn now_and_then_a_batch_takes_much_longer_than_usual() {
    let time = |tail_one_in| {
        let world = World::new(1, SimConfig::drawn(Drawn { tail_one_in, ..Drawn::default() }));
        let start = world.kernel.now();
        world.run(vec![Script::new(node(1), |worker| async move {
            let add = [WorkRequest::FetchAdd { remote: 0, add: 1 }];
            let tokens: Vec<_> = (0..16).map(|_| worker.post(MEMORY, &add).unwrap()).collect();
            for token in tokens {
                worker.wait(token).await.unwrap();
            }
        })]);
        world.kernel.now() - start
    };
    assert!(time(0) < Duration::from_micros(4), "{:?}", time(0));
    assert!(time(4) > Duration::from_micros(8), "{:?}", time(4));
}

#[test]
fn no_more_reads_are_outstanding_than_the_nic_allows() {
    let time = |reads_max| {
        let one_way = Duration::from_micros(1)..=Duration::from_micros(1);
        let drawn = Drawn { one_way, tail_one_in: 0, ..Drawn::default() };
        let exact = SimConfig { reads_max, ..SimConfig::drawn(drawn) };
        let world = World::new(3, exact);
        let start = world.kernel.now();
        world.run(vec![Script::new(node(1), |worker| async move {
            let read = WorkRequest::Read { remote: 0, local: local(0, 8) };
            let tokens: Vec<_> = (0..64).map(|_| worker.post(MEMORY, &[read]).unwrap()).collect();
            for token in tokens {
                worker.wait(token).await.unwrap();
            }
        })]);
        world.kernel.now() - start
    };
    assert!(time(4) >= Duration::from_micros(2 * 64 / 4), "{:?}", time(4));
    assert!(time(64) < Duration::from_micros(3), "{:?}", time(64));
}

/// A busy world with verbs of all kinds.
fn busy(seed: u64) -> (u64, u64) {
    let world = World::new(seed, SimConfig::default());
    let mut scripts = Vec::new();
    for id in 1..=3 {
        scripts.push(Script::new(node(id), move |worker| async move {
            let peer = Target::Compute(node(id % 3 + 1), 0);
            let mut got = 0;
            for i in 0..30 {
                let write =
                    WorkRequest::Write { remote: 512 * u64::from(id), local: local(512, 256) };
                let write = worker.post(peer, &[write, worker.message(i)]).unwrap();
                let add = WorkRequest::FetchAdd { remote: 0, add: 1 };
                let read = WorkRequest::Read { remote: 0, local: local(0, 512) };
                worker.call(MEMORY, &[add, read]).await;
                worker.receive(|_| got += 1);
                worker.wait(write).await.unwrap();
            }
            while got < 30 {
                worker.receive(|_| got += 1);
                worker.pause().await;
            }
        }));
    }
    world.run(scripts);
    (world.kernel.event_hash(), world.kernel.events())
}

#[test]
fn the_same_seed_is_the_same_run_and_another_seed_is_another() {
    let runs: Vec<_> = (0..10).map(busy).collect();
    assert_eq!(runs, (0..10).map(busy).collect::<Vec<_>>());
    let hashes: std::collections::BTreeSet<_> = runs.iter().map(|run| run.0).collect();
    assert_eq!(hashes.len(), runs.len());
}
