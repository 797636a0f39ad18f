//! Waiting for the other end of a FIFO.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long one wait takes before it looks whether it is to end.
const STEP_MS: u32 = 100;
/// After so many steps the wait says what it waits for: a second.
const STEPS_UNTIL_TOLD: u32 = 10;
/// After so many steps a signal ends the wait: two seconds, so that a slow reader still gets the
/// result.
const STEPS_UNTIL_ENDED: u32 = 20;

static END: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();

/// From here on, waits for the other end of a FIFO end with an error when `is_asked` says so: once
/// a signal has come. The first call counts.
pub fn end_waits_when(is_asked: impl Fn() -> bool + Send + Sync + 'static) {
    let _ = END.set(Box::new(is_asked));
}

/// Waits until `file` can be read or written, as `events` says. Its deadline is the user's: a
/// signal.
pub(crate) fn until(
    file: &File,
    events: PollFlags,
    path: &Path,
    other_end: &str,
) -> io::Result<()> {
    let step = Timespec { tv_sec: 0, tv_nsec: i64::from(STEP_MS) * 1_000_000 };
    for steps in 1_u32.. {
        let mut waiting = [PollFd::new(file, events)];
        match poll(&mut waiting, Some(&step)) {
            Ok(0) | Err(Errno::INTR) => {}
            // An error of the descriptor is one of the next call, too, which says what it is.
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if steps == STEPS_UNTIL_TOLD {
            let path = path.display();
            // Standard error may be closed, which changes nothing here.
            let _ = io::Write::write_all(
                &mut io::stderr(),
                format!("{path}: waiting for its {other_end}; a signal ends the wait\n").as_bytes(),
            );
        }
        if steps >= STEPS_UNTIL_ENDED && END.get().is_some_and(|is_asked| is_asked()) {
            let text = format!("a signal ended the wait for its {other_end}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
    }
    Ok(())
}
