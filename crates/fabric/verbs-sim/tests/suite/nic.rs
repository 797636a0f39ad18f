//! The times of a NIC: the parts that add up, the queues, and the order of batches.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use latchwork_verbs::contract::{Harness, Script};
use latchwork_verbs::{
    CHIP_BASE, ComputeNodeId, LocalBuffer, MemoryNodeId, Message, RegionKey, SetupError, Target,
    VerbError, WorkRequest,
};
use latchwork_verbs_sim::{CpuProfile, NicProfile, SimConfig};

use crate::world::{World, profile};

const MEMORY: Target = Target::Memory(MemoryNodeId(0));

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

fn read(len: u32) -> WorkRequest {
    let local = LocalBuffer { region: RegionKey(0), offset: 0, len };
    WorkRequest::Read { remote: 0, local }
}

fn write(len: u32) -> WorkRequest {
    let local = LocalBuffer { region: RegionKey(0), offset: 0, len };
    WorkRequest::Write { remote: 0, local }
}

fn add(remote: u64) -> WorkRequest {
    WorkRequest::FetchAdd { remote, add: 1 }
}

/// Nanoseconds until all of `batches` (a list for each worker) have completed, all posted at once.
fn time(profile: NicProfile, workers: Vec<(u8, Vec<Vec<WorkRequest>>)>) -> u64 {
    let to_memory = |batch| (MEMORY, batch);
    let workers = workers.into_iter();
    time_to(
        profile,
        workers.map(|(id, batches)| (id, batches.into_iter().map(to_memory).collect())).collect(),
    )
}

/// A batch and its target.
type Sent = (Target, Vec<WorkRequest>);

/// Like `time`, with a target for each batch.
fn time_to(profile: NicProfile, workers: Vec<(u8, Vec<Sent>)>) -> u64 {
    // CPU times are zero in this profile, so the world's clock shows only the times of the NICs.
    let profile = NicProfile { cpu: CpuProfile::default(), ..profile };
    let world = World::new(
        1,
        SimConfig { reads_max: 1 << 20, requests_max: 1 << 20, ..SimConfig::nic(profile) },
    );
    let script = |(id, batches): (u8, Vec<Sent>)| {
        Script::new(node(id), move |worker| async move {
            let posted = batches.iter().map(|(to, batch)| worker.post(*to, batch).unwrap());
            for token in posted.collect::<Vec<_>>() {
                worker.wait(token).await.unwrap();
            }
        })
    };
    world.run(workers.into_iter().map(script).collect());
    world.kernel.now().as_nanos()
}

fn one(request: WorkRequest) -> u64 {
    time(profile(), vec![(1, vec![vec![request]])])
}

#[test]
fn an_unloaded_verb_takes_the_sum_of_its_parts() {
    // The profile: 10 ns a request, 8 Gbit/s = 1 ns a byte, 1000 ns each way, completion 100 ns.
    let way = |effect: u64| 10 + 1000 + 10 + effect + 1000 + 100;
    // Bytes pass a NIC while they arrive. The bytes of a response count once, although they leave
    // one NIC and pass the other.
    assert_eq!(one(read(8)), way(500) + 8);
    assert_eq!(one(read(1024)), way(500) + 1024);
    assert_eq!(one(write(8)), way(300) + 8);
    assert_eq!(one(write(1024)), way(300) + 1024);
    assert_eq!(one(add(0)), way(200 + 400) + 8 + 8);
    // In one batch a READ waits for the atomic before it, but not for another READ.
    let batch = |requests| time(profile(), vec![(1, vec![requests])]);
    let [alone, behind] = [vec![read(8)], vec![add(0), read(8)]].map(batch);
    assert!((590..650).contains(&(behind - alone)), "{alone} {behind}");
    assert!(batch(vec![read(8), read(8)]) - alone < 50);
}

#[test]
fn each_nic_has_a_whole_packet_before_it_passes_it_on_and_what_is_not_inline_is_gathered() {
    // A byte takes 2 ns between wire and memory.
    let packets = |packet_bytes: u32, request| {
        let profile = NicProfile { packet_gbit_s: 4.0, packet_bytes, ..profile() };
        time(profile, vec![(1, vec![vec![request]])])
    };
    assert_eq!(packets(256, read(1024)), one(read(1024)) + 2 * 2 * 256);
    assert_eq!(packets(4096, read(1024)), one(read(1024)) + 2 * 2 * 1024);
    assert_eq!(packets(256, write(1024)), one(write(1024)) + 2 * 2 * 256);
    let gathered = |len| {
        let profile = NicProfile { inline_max_bytes: 512, gather_ns: 70, ..profile() };
        time(profile, vec![(1, vec![vec![write(len)]])])
    };
    assert_eq!(gathered(512), one(write(512)));
    assert_eq!(gathered(520), one(write(520)) + 70);
}

#[test]
fn what_a_nic_issues_and_what_it_serves_share_its_time() {
    // A READ costs 20 ns to issue and 30 ns to serve.
    let shared =
        || NicProfile { send_read_rate_mops: 50.0, serve_read_rate_mops: 1e3 / 30.0, ..profile() };
    let reads = |target: Target| (0..500).map(move |_| (target, vec![read(8)])).collect::<Vec<_>>();
    let to = |id: u8| Target::Compute(node(id), 0);
    let alone = time_to(shared(), vec![(1, reads(to(2)))]);
    assert!((500 * 30..500 * 30 + 4_000).contains(&alone), "{alone}");
    let both = time_to(shared(), vec![(1, reads(to(2))), (2, reads(to(1)))]);
    assert!((500 * 50..500 * 50 + 4_000).contains(&both), "{both}");
    let two = NicProfile { engines: 2, ..shared() };
    let both = time_to(two, vec![(1, reads(to(2))), (2, reads(to(1)))]);
    assert!((500 * 30..500 * 30 + 4_000).contains(&both), "{both}");
}

#[test]
fn atomics_of_one_bucket_wait_for_each_other_and_others_do_not() {
    let profile = || NicProfile { queue_pairs: 32, ..profile() };
    let many =
        |stride: u64| time(profile(), vec![(1, (0..32).map(|i| vec![add(i * stride)]).collect())]);
    let one_address = many(0);
    assert!(one_address >= 32 * 400, "{one_address}");
    // 6 bits of the address choose the bucket.
    assert!(many(64) >= 32 * 400, "the same bucket: {}", many(64));
    let cold = NicProfile { atomic_cold_ns: 50, ..profile() };
    let batches = (0..32).map(|i| vec![add(i * 64)]).collect();
    assert_eq!(time(cold, vec![(1, batches)]), many(64) + 32 * 50, "each its word from memory");
    let spread = many(8);
    assert!(spread <= 4 * 400 + 3_000, "eight buckets: {spread}");
}

#[test]
fn on_chip_memory_takes_no_time_of_host_memory_and_its_atomics_exclude_each_other() {
    let way = |effect: u64| 10 + 1000 + 10 + effect + 1000 + 100;
    let local = LocalBuffer { region: RegionKey(0), offset: 0, len: 8 };
    assert_eq!(one(WorkRequest::Read { remote: CHIP_BASE, local }), way(0) + 8);
    assert_eq!(one(WorkRequest::Write { remote: CHIP_BASE, local }), way(0) + 8);
    // 100 M/s: 10 ns at the engine, and 10 ns in the bucket.
    assert_eq!(one(add(CHIP_BASE)), way(10) + 8 + 8);
    let rate = |chip_atomic_rate_mops, stride: u64| {
        let profile = NicProfile { queue_pairs: 32, chip_atomic_rate_mops, ..profile() };
        time(profile, vec![(1, (0..32).map(|i| vec![add(CHIP_BASE + i * stride)]).collect())])
    };
    // With 2 M/s an atomic takes 500 ns at the engine, which all share.
    assert_eq!(rate(2.0, 8), rate(2.0, 0));
    assert!((32 * 500..32 * 500 + 4_000).contains(&rate(2.0, 8)), "{}", rate(2.0, 8));
    // Atomics on host memory hold one on chip up, which comes later, only in its bucket.
    let both = |word| {
        let profile = NicProfile { queue_pairs: 32, ..profile() };
        let late = vec![vec![write(2048), add(CHIP_BASE)]];
        time(profile, vec![(1, (0..32).map(|_| vec![add(word)]).collect()), (2, late)])
    };
    assert_eq!(both(0), both(8) + 10, "the last of its bucket, and not in it");
}

#[test]
fn while_waiting_atomics_have_all_places_a_responder_takes_in_nothing() {
    let limited = |atomics_waiting_max| NicProfile { atomics_waiting_max, ..profile() };
    // Three atomics on one word, and then a READ, each on its own queue pair. They arrive at 1018,
    // 1028, 1038 and 1040 ns, and the READ is so long that it ends last.
    let read_behind = |atomics_waiting_max| {
        let profile = NicProfile { queue_pairs: 4, ..limited(atomics_waiting_max) };
        let batches = [add(0), add(0), add(0), read(4096)].map(|request| vec![request]);
        time(profile, vec![(1, batches.into())])
    };
    // The bucket takes the atomics at 1228, 1628 and 2028. The second and the third wait. With two
    // places the READ waits until 1628, when the second leaves its place: it is served at 1638. On
    // a free NIC it is served at 1058, behind the third. With one place the third is taken in at
    // 1628, and the READ at 2028: served at 2038. Its response has 4096 bytes, and then come the
    // responses of `later` atomics, of 8 bytes each. `first` are those of atomics before it.
    let end = |served: u64, first: u64, later: u64| {
        served + 500 + 8 * first + 4096 + 8 * later + 1000 + 100
    };
    let free = read_behind(1000);
    assert_eq!(free, end(1058, 1, 3));
    assert_eq!(read_behind(3), free);
    assert_eq!(read_behind(2), end(1638, 1, 1));
    assert_eq!(read_behind(1), end(2038, 0, 0));
    // Without waiting atomics the limit changes nothing.
    for request in [read(1024), write(1024), add(0), add(CHIP_BASE)] {
        assert_eq!(time(limited(1), vec![(1, vec![vec![request]])]), one(request));
    }
    let others = |profile| time(profile, vec![(1, (0..8).map(|i| vec![add(i * 8)]).collect())]);
    assert_eq!(others(limited(1)), others(limited(0)), "each in a bucket of its own");
}

#[test]
fn bandwidth_and_message_rate_bound_many_requests() {
    let reads = time(profile(), vec![(1, (0..50).map(|_| vec![read(1024)]).collect())]);
    assert!((50 * 1024..50 * 1024 + 4_000).contains(&reads), "{reads}");
    let small = time(profile(), vec![(1, (0..1000).map(|_| vec![read(8)]).collect())]);
    assert!((1000 * 10..1000 * 10 + 4_000).contains(&small), "{small}");
    // Two nodes send at full rate; the responder is the bottleneck.
    let two = |id| (id, (0..1000).map(|_| vec![read(8)]).collect::<Vec<_>>());
    let served = time(profile(), vec![two(1), two(2)]);
    assert!((2000 * 10..2000 * 10 + 4_000).contains(&served), "{served}");
}

#[test]
fn on_one_queue_pair_nothing_overtakes_and_on_several_batches_do() {
    let overtaken = |queue_pairs| {
        let jittery = NicProfile { queue_pairs, jitter_ns: 2_000, ..profile() };
        let world = World::new(3, SimConfig::nic(jittery));
        let count = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&count);
        world.run(vec![Script::new(node(1), move |worker| async move {
            let tokens: Vec<_> =
                (0..100).map(|_| worker.post(MEMORY, &[add(0)]).unwrap()).collect();
            let mut last = 0;
            for token in tokens {
                let old = worker.wait(token).await.unwrap().old[0];
                seen.fetch_add(u64::from(old < last), Ordering::Relaxed);
                last = old;
            }
        })]);
        count.load(Ordering::Relaxed)
    };
    assert_eq!(overtaken(1), 0);
    assert!(overtaken(4) > 5, "{}", overtaken(4));
}

#[test]
fn posting_and_polling_cost_the_worker_time() {
    let world = World::new(1, SimConfig::nic(profile()));
    let handle = world.worker_handle();
    let spent = Rc::new(Cell::new(Duration::ZERO));
    let fabric = world.fabric.clone();
    let mut endpoint = fabric.endpoint(node(1), &handle).unwrap();
    use latchwork_verbs::Endpoint as _;
    let before = handle.now();
    // Two batches go to one memory node behind one doorbell, one batch to the other node.
    endpoint.post(MEMORY, 1, &[add(0), add(8)]).unwrap();
    endpoint.post(MEMORY, 2, &[add(0)]).unwrap();
    endpoint.post(Target::Memory(MemoryNodeId(1)), 3, &[add(0)]).unwrap();
    assert_eq!(handle.now(), before);
    endpoint.ring();
    let cpu = profile().cpu;
    let posting = 4 * cpu.post_ns + 2 * cpu.doorbell_ns;
    assert_eq!(handle.now() - before, Duration::from_nanos(posting));
    while world.kernel.step() {}
    let before = handle.now();
    let mut completions = 0;
    endpoint.poll(&mut |_| completions += 1);
    spent.set(handle.now() - before);
    assert_eq!(completions, 3);
    assert_eq!(spent.get(), Duration::from_nanos(3 * cpu.poll_ns));
}

#[test]
fn a_node_at_a_memory_node_shares_its_nic_and_its_fate() {
    // A READ costs 20 ns to issue and 30 ns to serve.
    let profile =
        NicProfile { send_read_rate_mops: 50.0, serve_read_rate_mops: 1e3 / 30.0, ..profile() };
    let profile = NicProfile { cpu: CpuProfile::default(), ..profile };
    let config = SimConfig { reads_max: 1 << 20, requests_max: 1 << 20, ..SimConfig::nic(profile) };
    // The time while node 1 reads the first memory node, and node 9 reads node 2.
    let both = |is_shared: bool| {
        let world = World::new(1, config.clone());
        let (agent, first) = (node(9), MemoryNodeId(0));
        match is_shared {
            true => world.fabric.add_compute_node_at(agent, first).unwrap(),
            false => world.fabric.add_compute_node(agent).unwrap(),
        }
        world.fabric.register(agent, world.fabric.memory(first).unwrap()).unwrap();
        let reads = |from: u8, to: Target| {
            Script::new(node(from), move |worker| async move {
                let posted = (0..500).map(|_| worker.post(to, &[read(8)]).unwrap());
                for token in posted.collect::<Vec<_>>() {
                    worker.wait(token).await.unwrap();
                }
            })
        };
        world.run(vec![reads(1, MEMORY), reads(9, Target::Compute(node(2), 0))]);
        let nics = world.fabric.nic_work().len();
        (world.kernel.now().as_nanos(), nics)
    };
    let ((apart, nics_apart), (shared, nics)) = (both(false), both(true));
    assert!((500 * 30..500 * 30 + 4_000).contains(&apart), "{apart}");
    assert!((500 * 50..500 * 50 + 4_000).contains(&shared), "{shared}");
    assert_eq!(nics + 1, nics_apart, "the work of a NIC counts once");

    let world = World::new(1, SimConfig::default());
    world.fabric.add_compute_node_at(node(9), MemoryNodeId(0)).unwrap();
    let missing = world.fabric.add_compute_node_at(node(10), MemoryNodeId(77)).unwrap_err();
    assert_eq!(missing, SetupError::UnknownMemoryNode(MemoryNodeId(77)));
    world.fabric.lose_memory_node(MemoryNodeId(0)).unwrap();
    world.run(vec![Script::new(node(1), |worker| async move {
        let target = Target::Compute(node(9), 0);
        let message = Message { from: node(1), body: [0; Message::WORDS] };
        let token = worker.post(target, &[WorkRequest::Send(message)]).unwrap();
        assert_eq!(worker.wait(token).await.unwrap_err(), VerbError::Disconnected { target });
    })]);
}

#[test]
fn a_nic_however_slow_has_an_end() {
    let slow = NicProfile { one_way_ns: 1_000_000_000, bandwidth_gbit_s: 0.001, ..profile() };
    let world = World::new(1, SimConfig::nic(slow));
    world.fabric.slow_down(node(1), u32::MAX).unwrap();
    world.run(vec![Script::new(node(1), |worker| async move {
        let tokens: Vec<_> =
            (0..100).map(|_| worker.post(MEMORY, &[write(1024)]).unwrap()).collect();
        for token in tokens {
            worker.wait(token).await.unwrap();
        }
    })]);
    assert!(world.kernel.now().as_nanos() > 1_000_000_000_000);
}
