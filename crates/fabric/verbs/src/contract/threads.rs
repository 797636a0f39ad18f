//! [`run_on_threads`]: how fabrics of real time run the scripts of a promise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use latchwork_runtime::Clock;

use super::{Running, Script};

/// Far beyond what any promise needs, on a machine that is busy with other things.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Runs all scripts side by side, each on a thread of its own, on which `start` is called.
///
/// # Panics
/// When a script panics, and then in all others; when one does not end within two minutes.
pub fn run_on_threads(scripts: Vec<Script>, start: impl Fn(Script) -> Running + Sync) {
    let failed = AtomicBool::new(false);
    let run = |script: Script| {
        let node = script.node;
        // Others may wait for a script that panics.
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
