//! The progress of a hunt: a bar if standard error is a terminal, else plain lines.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latchwork_harness::outcome::{say, short};
use latchwork_hunt::Totals;
use latchwork_runtime::Clock;

/// Interval between two updates, on a terminal and elsewhere.
const LOOK: Duration = Duration::from_millis(200);
const LOOK_PLAIN: Duration = Duration::from_secs(10);

/// Runs `body`, and shows its updates of `totals` on standard error in the meantime.
pub(crate) fn show<T>(
    length: Duration,
    clock: Clock,
    totals: &Mutex<Totals>,
    body: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        let display = move || display(length, clock, totals, &ended);
        // Without a thread the hunt only lacks its progress display.
        let _display =
            std::thread::Builder::new().name("progress".into()).spawn_scoped(scope, display);
        let result = body();
        drop(done);
        result
    })
}

fn display(length: Duration, clock: Clock, totals: &Mutex<Totals>, ended: &Receiver<()>) {
    let terminal = std::io::stderr().is_terminal();
    let begin = clock.now();
    let bar = ProgressBar::with_draw_target(Some(millis(length)), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("hunt [{wide_bar}] {percent:>3}% {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    loop {
        let look = if terminal { LOOK } else { LOOK_PLAIN };
        let over = ended.recv_timeout(look) != Err(RecvTimeoutError::Timeout);
        if over {
            bar.finish_and_clear();
            return;
        }
        let past = clock.now() - begin;
        let totals = totals.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let rate = totals.worlds as f64 / past.as_secs_f64().max(1e-9);
        let text = format!(
            "{} worlds ({}/s), {} events, {} faults",
            totals.worlds,
            short(rate),
            short(totals.events as f64),
            short(totals.struck().iter().map(|(_, count)| *count as f64).sum()),
        );
        if terminal {
            bar.set_position(millis(past).min(millis(length)));
            bar.set_message(text);
        } else {
            let percent = 100 * millis(past).min(millis(length)) / millis(length).max(1);
            say(&format!("hunt: {percent} %, {text}"));
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
