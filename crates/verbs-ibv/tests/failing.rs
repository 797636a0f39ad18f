//! Connections that fail under their batches. In the virtual machine of `scripts/rxe-vm.sh`, where a device's cable can be pulled.

#![cfg(target_os = "linux")]

mod devices;

use std::collections::BTreeSet;
use std::process::Command;
use std::thread;
use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, LocalBuffer, Region, RegionKey, Request, Target, VerbError,
};
use latchwork_verbs_ibv::{Config, Endpoint};

/// What joins a device to the others, by the device's number.
struct Cable(usize);

impl Cable {
    /// Frames to the device are lost.
    fn pull(&self) {
        self.run(&format!("qdisc replace dev port{} root netem loss 100%", self.0));
    }

    fn plug(&self) {
        self.run(&format!("qdisc del dev port{} root", self.0));
    }

    fn run(&self, command: &str) {
        let status = Command::new("tc").args(["-n", "bridge"]).args(command.split(' ')).status();
        assert!(status.is_ok_and(|status| status.success()), "tc {command}");
    }
}

/// Adds one to the first word of a node, many times at once.
struct Adder {
    endpoint: Endpoint,
    target: Target,
    acknowledged: u64,
    ambiguous: u64,
    olds: BTreeSet<u64>,
}

impl Adder {
    /// Goes on until `done`.
    fn run_until(&mut self, batches: usize, done: impl Fn(&Adder) -> bool) {
        let local = LocalBuffer { region: RegionKey(0), offset: 0, len: 2048 };
        let add = [Request::FetchAdd { remote: 0, add: 1 }, Request::Read { remote: 8, local }];
        let clock = Clock::start();
        let end = clock.now() + Duration::from_secs(30);
        while !done(self) {
            while self.endpoint.in_flight() < batches {
                self.endpoint.post(self.target, 0, &add).unwrap();
            }
            self.endpoint.ring();
            let Adder { endpoint, acknowledged, ambiguous, olds, .. } = self;
            endpoint.poll(&mut |completion| match completion.result {
                Ok(outcome) => {
                    *acknowledged += 1;
                    assert!(olds.insert(outcome.old[0]), "{} was found twice", outcome.old[0]);
                }
                Err(VerbError::Ambiguous { .. }) => *ambiguous += 1,
                Err(error) => panic!("{error}"),
            });
            let Adder { acknowledged, ambiguous, .. } = self;
            assert!(clock.now() < end, "{acknowledged} acknowledged, {ambiguous} ambiguous");
            thread::yield_now();
        }
    }
}

/// FAAs whose connection fails again and again: each completes once, those that were acknowledged have taken effect once, those that
/// are ambiguous once or not at all. The connection stands again by itself.
#[test]
fn ambiguous_atomics_take_effect_once_or_not_at_all() {
    // Gives up after 7 times 17 ms or so.
    let Some(fabric) = devices::open(Config { timeout: 12, ..devices::patient() }) else { return };
    if std::env::var_os("RXE_HOSTS").is_none() || fabric.devices().len() < 2 {
        return;
    }
    // On the first device, and the compute node on the second one.
    let memory = fabric.add_memory_node(1 << 12).unwrap();
    let node = ComputeNodeId::new(2).unwrap();
    fabric.add_compute_node(node).unwrap();
    fabric.register(node, Region::zeroed(1 << 12).unwrap()).unwrap();
    let mut adder = Adder {
        endpoint: fabric.endpoint(node, None).unwrap(),
        target: Target::Memory(memory),
        acknowledged: 0,
        ambiguous: 0,
        olds: BTreeSet::new(),
    };
    for round in 0..6 {
        // Requests are lost, or what they are acknowledged with.
        let cable = Cable(1 + round % 2);
        let enough = adder.acknowledged + 100;
        adder.run_until(8, |adder| adder.acknowledged >= enough);
        cable.pull();
        let before = adder.ambiguous;
        adder.run_until(8, |adder| adder.ambiguous > before);
        cable.plug();
    }
    adder.run_until(0, |adder| adder.endpoint.in_flight() == 0);
    let Adder { acknowledged, ambiguous, olds, .. } = adder;
    let word = fabric.memory(memory).unwrap().words().u64(0);
    println!("{acknowledged} acknowledged, {ambiguous} ambiguous, {word} took effect");
    assert_eq!(olds.len() as u64, acknowledged);
    assert!((acknowledged..=acknowledged + ambiguous).contains(&word), "{word}");
    // Both kinds have been met.
    assert!(acknowledged < word && word < acknowledged + ambiguous, "{word}");
}
