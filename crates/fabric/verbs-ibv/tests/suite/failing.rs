//! Connections that fail during their batches. These tests run in the virtual machine of
//! `scripts/rxe-vm.sh`, where a test can unplug a device.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use latchwork_runtime::{Clock, Time};
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, LocalBuffer, Region, RegionKey, Target, VerbError, WorkRequest,
};
use latchwork_verbs_ibv::{IbvConfig, IbvEndpoint};

use crate::devices;

/// The link from a device to the others, by the device's number.
struct Cable(usize);

impl Cable {
    /// Makes the network lose all frames to the device.
    fn pull(&self) {
        self.run(&format!("qdisc replace dev port{} root netem loss 100%", self.0));
    }

    fn plug(&self) {
        self.run(&format!("qdisc del dev port{} root", self.0));
    }

    /// Sets the device's own port down, or up again with all that it needs to be reachable.
    fn set_port(&self, is_up: bool) {
        let host = self.0;
        let up = format!(
            "ip link set host{host} up && \
             ip route replace 10.77.0.0/24 dev host{host} src 10.77.0.{host} table {}",
            100 + host
        );
        let line = if is_up { up } else { format!("ip link set host{host} down") };
        let status = Command::new("sh").args(["-c", &line]).status();
        assert!(status.is_ok_and(|status| status.success()), "{line}");
    }

    fn run(&self, command: &str) {
        let status = Command::new("tc").args(["-n", "bridge"]).args(command.split(' ')).status();
        assert!(status.is_ok_and(|status| status.success()), "tc {command}");
    }
}

/// Adds one to the first word of a node, with many batches in flight.
struct Adder {
    endpoint: IbvEndpoint,
    target: Target,
    acknowledged: u64,
    ambiguous: u64,
    olds: BTreeSet<u64>,
}

impl Adder {
    /// Runs until `done` returns true.
    fn run_until(&mut self, batches: usize, done: impl Fn(&Adder) -> bool) {
        let local = LocalBuffer { region: RegionKey(0), offset: 0, len: 2048 };
        let add =
            [WorkRequest::FetchAdd { remote: 0, add: 1 }, WorkRequest::Read { remote: 8, local }];
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

/// FAAs on a connection that fails again and again. Each FAA completes once. An acknowledged FAA
/// has taken effect once. An ambiguous FAA has taken effect once or not at all. The fabric connects
/// again by itself.
#[test]
fn ambiguous_atomics_take_effect_once_or_not_at_all() {
    // The connection fails after about 7 times 17 ms.
    let Some(fabric) = devices::open(IbvConfig { timeout: 12, ..devices::patient() }) else {
        return;
    };
    if std::env::var_os("RXE_HOSTS").is_none() || fabric.devices().len() < 2 {
        return;
    }
    // The memory node is on the first device, and the compute node on the second one.
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
        // In one round requests are lost, in the next round their acknowledgements.
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
    // Both kinds of ambiguous FAAs occurred: with an effect and without.
    assert!(acknowledged < word && word < acknowledged + ambiguous, "{word}");
}

/// The log of all threads of this process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn wait_for(&self, text: &str) {
        let clock = Clock::start();
        while !String::from_utf8_lossy(&self.0.lock().unwrap()).contains(text) {
            assert!(clock.now() - Time::ZERO < Duration::from_secs(30), "nobody says {text:?}");
            thread::yield_now();
        }
    }
}

/// The port of the requesting device goes down. The log reports it, and posted batches end in
/// bounded time. After the port is up again, batches succeed.
#[test]
fn what_is_posted_to_a_port_that_is_down_ends_and_what_comes_later_works() {
    let limit = Duration::from_secs(2);
    let config = IbvConfig { timeout: 12, connect_timeout: limit, ..devices::patient() };
    let Some(fabric) = devices::open(config) else { return };
    // The test uses other devices than the test above, because both run at the same time.
    if std::env::var_os("RXE_HOSTS").is_none() || fabric.devices().len() < 5 {
        return;
    }
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_writer(move || writer.clone()).init();
    let names = vec!["rxe4".to_owned(), "rxe5".to_owned()];
    let config =
        IbvConfig { devices: names, timeout: 12, connect_timeout: limit, ..devices::patient() };
    let fabric = devices::open(config).unwrap();
    let memory = Target::Memory(fabric.add_memory_node(1 << 12).unwrap());
    // On the second of these devices.
    let node = ComputeNodeId::new(2).unwrap();
    fabric.add_compute_node(node).unwrap();
    let mut endpoint = fabric.endpoint(node, None).unwrap();
    let mut add = || {
        let clock = Clock::start();
        endpoint.post(memory, 1, &[WorkRequest::FetchAdd { remote: 0, add: 1 }]).unwrap();
        endpoint.ring();
        let mut result = None;
        while result.is_none() {
            endpoint.poll(&mut |completion| result = Some(completion.result));
            assert!(clock.now() - Time::ZERO < Duration::from_secs(60), "it hangs");
            thread::yield_now();
        }
        result.unwrap()
    };
    assert!(add().is_ok());
    let cable = Cable(5);
    cable.set_port(false);
    log.wait_for("port is down");
    // The fabric needs some time to detect that there is no other route.
    while add().is_ok() {}
    cable.set_port(true);
    log.wait_for("port is up");
    let clock = Clock::start();
    while add().is_err() {
        assert!(clock.now() - Time::ZERO < Duration::from_secs(60), "it does not come back");
    }
}
