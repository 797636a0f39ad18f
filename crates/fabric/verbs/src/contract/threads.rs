//! [`run_on_threads`]: runs the scripts of a promise, for fabrics of real time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use latchwork_runtime::Clock;

use super::{Running, Script};

/// Far beyond the time that any promise needs, even on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Runs all scripts concurrently, each on a thread of its own, on which `start` is called.
///
/// # Panics
/// When a script panics: then all scripts that still run panic as well. When a script does not end
/// within two minutes.
pub fn run_on_threads(scripts: Vec<Script>, start: impl Fn(Script) -> Running + Sync) {
    let failed = AtomicBool::new(false);
    let run = |script: Script| {
        let node = script.node;
        // Other scripts may wait for a script that panics.
        let _alarm = Alarm(&failed);
        let mut running = start(script);
        let clock = Clock::start();
        let deadline = clock.now() + PATIENCE;
        while !running.step() {
            assert!(!failed.load(Ordering::Relaxed), "another script failed");
            assert!(clock.now() < deadline, "a script of {node:?} does not end");
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        for script in scripts {
            let run = &run;
            scope.spawn(move || run(script));
        }
    });
}

struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
