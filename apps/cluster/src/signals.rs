//! Signals that request the end of the command: SIGTERM, SIGINT, and SIGHUP, which a closed
//! terminal sends. If SIGHUP is ignored, as under `nohup`, the command and its processes outlive
//! the terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use latchwork_harness::AppError;
use latchwork_harness::stop::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::tell;

/// The first signal that arrived. The command passes the first signal on to the programs, which end
/// their run in order. A second signal ends the command at once, and the guard cleans up.
#[derive(Clone, Default)]
pub(crate) struct Signals {
    first: Arc<AtomicUsize>,
}

const ALL: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

impl Signals {
    fn install() -> Result<Signals, AppError> {
        let signals = Signals::default();
        let armed = Arc::new(AtomicBool::new(false));
        let install = |signal: i32| {
            // The order of these calls matters: at the first signal the shutdown is not armed yet.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&armed))?;
            flag::register(signal, Arc::clone(&armed))?;
            flag::register_usize(signal, Arc::clone(&signals.first), signal as usize)
        };
        for signal in ALL {
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            install(signal).map_err(|error| {
                AppError::Failed(format!("signal {signal} cannot be handled: {error}"))
            })?;
        }
        let waiting = signals.clone();
        latchwork_files::end_waits_when(move || waiting.first().is_some());
        Ok(signals)
    }

    /// Runs `work` while the signals are handled. After a signal, an error of `work` becomes the
    /// status of the signal.
    pub(crate) fn around(
        work: impl FnOnce(&Signals) -> Result<u8, AppError>,
    ) -> Result<u8, AppError> {
        let signals = Signals::install()?;
        match (work(&signals), signals.first()) {
            (Err(error), Some(signal)) => {
                tell(&format!("cluster: {}: {error}", name(signal)));
                Ok(128 + signal as u8)
            }
            (ended, _) => ended,
        }
    }

    /// Ignores the signals.
    pub(crate) fn ignore() {
        let nobody = Arc::new(AtomicBool::new(false));
        for signal in ALL {
            // A signal that keeps its default action ends this process. The next start then cleans
            // up.
            let _ = flag::register(signal, Arc::clone(&nobody));
        }
    }

    /// The number of the first signal.
    pub(crate) fn first(&self) -> Option<i32> {
        match self.first.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal as i32),
        }
    }
}

/// The signal's name.
pub(crate) fn name(signal: i32) -> String {
    match signal {
        SIGTERM => "SIGTERM".to_owned(),
        SIGINT => "SIGINT".to_owned(),
        SIGHUP => "SIGHUP".to_owned(),
        9 => "SIGKILL".to_owned(),
        signal => format!("signal {signal}"),
    }
}
