//! A new node joins under the id of a lost node, and nothing of the lost node reaches it or comes
//! from it.

use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::{ExecutorConfig, VirtualWorker};
use latchwork_simulation::Kernel;
use latchwork_verbs::{
    AtomicOutcome, ComputeNodeId, Endpoint as _, Inbox as _, LocalBuffer, MemoryNodeId, Message,
    Region, RegionKey, SetupError, Target, VerbError, WorkRequest,
};
use latchwork_verbs_sim::{Drawn, Faults, SimConfig, SimEndpoint, SimFabric};

use crate::world::profile;

const MEMORY: Target = Target::Memory(MemoryNodeId(0));
const SEEDS: u64 = 30;

type Done = (u64, Result<AtomicOutcome, VerbError>);

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

fn to(id: u8) -> Target {
    Target::Compute(node(id), 0)
}

fn networks() -> [SimConfig; 4] {
    let in_order = SimConfig::drawn(Drawn { reorder_batches: false, ..Drawn::default() });
    let tells = SimConfig { tells_unsent: true, ..in_order };
    [SimConfig::default(), SimConfig::rough(), tells, SimConfig::nic(profile())]
}

/// One memory node, and the compute nodes 1 and 2 with one region each.
struct Cluster {
    kernel: Kernel,
    fabric: SimFabric,
    worker: VirtualWorker,
    regions: [Arc<Region>; 2],
}

impl Cluster {
    fn new(seed: u64, config: SimConfig) -> Cluster {
        let kernel = Kernel::new(seed);
        let fabric = SimFabric::new(&kernel, config);
        fabric.add_memory_node(128).unwrap();
        let regions = [1, 2].map(|id| {
            fabric.add_compute_node(node(id)).unwrap();
            register(&fabric, id)
        });
        let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
        Cluster { kernel, fabric, worker, regions }
    }

    fn endpoint(&self, id: u8) -> SimEndpoint {
        self.fabric.endpoint(node(id), &self.worker.handle()).unwrap()
    }

    fn steps(&self, count: usize) {
        (0..count).for_each(|_| _ = self.kernel.step());
    }

    fn settle(&self) {
        while self.kernel.step() {}
    }

    /// Replaces node 1, whose new region this returns.
    fn replace(&self) -> Arc<Region> {
        self.fabric.replace(node(1)).unwrap();
        register(&self.fabric, 1)
    }

    fn admit(&self) {
        self.fabric.admit(node(2), node(1)).unwrap();
        self.fabric.admit_at_memory_node(MemoryNodeId(0), node(1)).unwrap();
    }

    fn memory(&self) -> Vec<u64> {
        let memory = self.fabric.memory(MemoryNodeId(0)).unwrap();
        (0..16).map(|word| memory.words().word(word)).collect()
    }

    /// The first words of the messages in the inbox of a node.
    fn received(&self, id: u8) -> Vec<u64> {
        let inbox = self.fabric.inbox(node(id)).unwrap();
        let mut words = Vec::new();
        while inbox.receive(&mut |message| words.push(message.body[0])) {}
        words
    }

    /// Runs the world to its end, and returns the completions of the endpoint, by their tokens.
    fn completions(&self, endpoint: &mut SimEndpoint) -> Vec<Done> {
        let mut all = Vec::new();
        loop {
            self.settle();
            if !endpoint.poll(&mut |done| all.push((done.token, done.result))) {
                assert_eq!(endpoint.in_flight(), 0, "a batch has no end");
                all.sort_by_key(|(token, _)| *token);
                return all;
            }
        }
    }
}

/// Registers a region of which each word is the number of its node.
fn register(fabric: &SimFabric, id: u8) -> Arc<Region> {
    let region = Region::zeroed(128).unwrap();
    (0..16).for_each(|word| region.words().set_word(word, id.into()));
    let key = fabric.register(node(id), Arc::clone(&region)).unwrap();
    assert_eq!(key, RegionKey(0), "the keys of a new node count from 0");
    region
}

fn halves(region: &Region) -> [[u64; 8]; 2] {
    [0, 8].map(|from| std::array::from_fn(|word| region.words().word(from + word)))
}

fn message(from: u8, word: u64) -> WorkRequest {
    let mut body = [0; Message::WORDS];
    body[0] = word;
    WorkRequest::Send(Message { from: node(from), body })
}

fn write(remote: u64) -> WorkRequest {
    let local = LocalBuffer { region: RegionKey(0), offset: 0, len: 64 };
    WorkRequest::Write { remote, local }
}

fn post(endpoint: &mut SimEndpoint, target: Target, token: u64, requests: &[WorkRequest]) {
    endpoint.post(target, token, requests).unwrap();
    endpoint.ring();
}

#[test]
fn nothing_of_the_old_node_takes_effect_once_it_is_replaced() {
    let (mut cut_short, mut went_through) = (0, 0);
    let runs = (0..SEEDS).flat_map(|seed| (0..8).map(move |events| (seed, events)));
    for (seed, events) in runs {
        let delayed = Faults { delay_one_in: 2, delay: Duration::from_millis(1), ..Faults::NONE };
        for config in networks() {
            for (killed, replaced) in [(false, true), (true, true), (false, false)] {
                let config = SimConfig { whole_write: 8, faults: delayed, ..config.clone() };
                let world = Cluster::new(seed, config);
                let mut old = world.endpoint(1);
                post(&mut old, MEMORY, 1, &[write(0)]);
                post(&mut old, MEMORY, 2, &[WorkRequest::FetchAdd { remote: 64, add: 1 }]);
                world.steps(events);
                world.fabric.disconnect(node(1)).unwrap();
                if killed {
                    world.fabric.kill(node(1)).unwrap();
                }
                if !replaced {
                    assert_eq!(world.completions(&mut old).len(), 2);
                    assert_eq!(world.memory()[..9], [1; 9], "a disconnected node goes on");
                    continue;
                }
                world.fabric.fence_memory_node(MemoryNodeId(0), node(1)).unwrap();
                world.replace();
                world.admit();
                let then = world.memory();
                let ended = world.completions(&mut old);
                assert_eq!(world.memory(), then, "seed {seed}, {events} events");
                assert_eq!(ended.len(), 2, "each batch ends once");
                // A completion says what took effect, but not to the dead.
                assert!(killed || ended[0].1.is_err() || then[..8] == [1; 8], "{ended:?}");
                assert!(killed || ended[1].1.is_ok() == (then[8] == 1), "{ended:?}");
                cut_short += u64::from(then[..9] != [1; 9]);
                went_through += u64::from(then[..9] != [0; 9]);

                // Batches that the old node posts only now fail, too.
                post(&mut old, MEMORY, 3, &[write(0)]);
                assert_eq!(world.completions(&mut old).len(), 1);
                assert_eq!(world.memory(), then);
                let mut new = world.endpoint(1);
                post(&mut new, MEMORY, 1, &[WorkRequest::FetchAdd { remote: 64, add: 1 }]);
                let ended = world.completions(&mut new);
                assert_eq!(ended[0].1.unwrap().old[0], then[8], "the new node is served");
                assert_eq!(world.memory()[8], then[8] + 1);
            }
        }
    }
    assert!(cut_short > 100 && went_through > 100, "{cut_short} {went_through}");
}

#[test]
fn an_endpoint_to_the_old_node_reaches_the_new_one_once_it_is_admitted() {
    for seed in 0..SEEDS {
        for config in networks() {
            for removed in [false, true] {
                let world = Cluster::new(seed, SimConfig { requests_max: 8, ..config.clone() });
                let mut other = world.endpoint(2);
                post(&mut other, to(1), 0, &[write(64), message(2, 7)]);
                assert_eq!(world.completions(&mut other), [(0, Ok(AtomicOutcome::default()))]);
                world.fabric.kill(node(1)).unwrap();
                // More batches than the send queue has room for, so that some wait.
                let tokens = 1..40;
                for token in tokens.clone() {
                    post(&mut other, to(1), token, &[write(0)]);
                }
                if removed {
                    world.fabric.remove_peer(node(2), node(1)).unwrap();
                    world.fabric.keep_out(node(2), node(1)).unwrap();
                }
                world.steps(seed as usize);
                let region = world.replace();
                world.admit();
                post(&mut other, to(1), 40, &[write(64), message(2, 40)]);
                let mut new = world.endpoint(1);
                post(&mut new, to(2), 50, &[write(64), message(1, 50)]);

                let ended = world.completions(&mut other);
                assert!(ended.iter().map(|(token, _)| *token).eq(1..41), "{ended:?}");
                assert!(ended[..39].iter().all(|(_, result)| result.is_err()), "{ended:?}");
                assert_eq!(ended[39].1, Ok(AtomicOutcome::default()));
                assert!(world.completions(&mut new)[0].1.is_ok());
                assert_eq!(world.received(1), [40]);
                assert_eq!(world.received(2), [50]);
                assert_eq!(halves(&region), [[1; 8], [2; 8]]);
                assert_eq!(halves(&world.regions[1]), [[2; 8], [1; 8]]);
                assert_eq!(halves(&world.regions[0]), [[1; 8], [2; 8]], "only the first batch");

                // The new node can be lost as any other, and replaced again.
                world.fabric.kill(node(1)).unwrap();
                post(&mut other, to(1), 60, &[message(2, 60)]);
                let error = VerbError::Disconnected { target: to(1) };
                assert_eq!(world.completions(&mut other), [(60, Err(error))]);
                world.replace();
                world.admit();
                post(&mut other, to(1), 70, &[message(2, 70)]);
                assert!(world.completions(&mut other)[0].1.is_ok());
                assert_eq!(world.received(1), [70]);
            }
        }
    }
}

#[test]
fn no_message_to_or_of_the_old_node_arrives_once_it_is_replaced() {
    let repeated = Faults { repeat_one_in: 1, delay: Duration::from_micros(20), ..Faults::NONE };
    let (mut arrived, mut failed) = (0, 0);
    for seed in 0..SEEDS {
        let runs = networks().into_iter().flat_map(|c| (0..8).map(move |e| (c.clone(), e)));
        for (config, events) in runs {
            let world = Cluster::new(seed, SimConfig { faults: repeated, ..config });
            let (mut old, mut other) = (world.endpoint(1), world.endpoint(2));
            post(&mut other, to(1), 1, &[message(2, 1)]);
            post(&mut old, to(2), 2, &[message(1, 2)]);
            world.steps(events);
            world.fabric.disconnect(node(1)).unwrap();
            world.replace();
            world.admit();
            let before = world.received(2);
            let ended = world.completions(&mut other);
            assert!(matches!(ended[..], [(1, Ok(_) | Err(VerbError::Disconnected { .. }))]));
            assert_eq!(world.completions(&mut old)[0].1.is_ok(), !before.is_empty());
            assert_eq!(world.received(1), [0; 0], "a message to the old node");
            assert_eq!(world.received(2), [0; 0], "a message of the old node, behind {before:?}");
            arrived += before.len();
            failed += usize::from(ended[0].1.is_err());
        }
    }
    assert!(arrived > 50 && failed > 50, "{arrived} {failed}");
}

#[test]
fn the_new_node_is_out_of_reach_until_it_is_admitted() {
    for seed in 0..SEEDS {
        for config in networks() {
            for used in [false, true] {
                let world = Cluster::new(seed, config.clone());
                let mut other = world.endpoint(2);
                if used {
                    post(&mut other, to(1), 0, &[message(2, 0)]);
                    assert!(world.completions(&mut other)[0].1.is_ok());
                }
                world.fabric.disconnect(node(1)).unwrap();
                let region = world.replace();
                let mut new = world.endpoint(1);
                let lost = |target| Err(VerbError::Disconnected { target });
                post(&mut new, to(2), 1, &[write(0), message(1, 1)]);
                post(&mut new, MEMORY, 2, &[write(0)]);
                assert_eq!(world.completions(&mut new), [(1, lost(to(2))), (2, lost(MEMORY))]);
                post(&mut new, to(1), 3, &[message(1, 3)]);
                assert!(world.completions(&mut new)[0].1.is_ok(), "a node reaches itself");
                assert_eq!(world.received(1), [3]);

                post(&mut other, to(1), 4, &[write(0), message(2, 4)]);
                assert_eq!(world.completions(&mut other), [(4, lost(to(1)))]);
                // What is on its way may have been meant for the old node.
                post(&mut other, to(1), 5, &[write(0), message(2, 5)]);
                world.admit();
                assert!(world.completions(&mut other)[0].1.is_err());
                assert_eq!(region.words().word(0), 1);
                assert_eq!(world.regions[1].words().word(0), 2);
                assert_eq!(world.memory(), [0; 16]);
                assert_eq!([world.received(1), world.received(2)], [[0; 0]; 2]);

                post(&mut other, to(1), 6, &[write(0), message(2, 6)]);
                assert!(world.completions(&mut other)[0].1.is_ok());
                assert_eq!(world.received(1), [6]);
            }
        }
    }
}

#[test]
fn only_a_lost_node_with_its_own_host_is_replaced() {
    let Cluster { fabric, .. } = Cluster::new(1, SimConfig::default());
    assert_eq!(fabric.replace(node(1)).unwrap_err(), SetupError::DuplicateNode(node(1)));
    assert_eq!(fabric.replace(node(9)).unwrap_err(), SetupError::UnknownNode(node(9)));
    fabric.add_compute_node_at(node(3), MemoryNodeId(0)).unwrap();
    fabric.kill(node(3)).unwrap();
    assert_eq!(fabric.replace(node(3)).unwrap_err(), SetupError::DuplicateNode(node(3)));
    assert!(fabric.admit(node(1), node(9)).is_err() && fabric.admit(node(9), node(1)).is_err());
    assert!(fabric.admit_at_memory_node(MemoryNodeId(9), node(1)).is_err());
}
