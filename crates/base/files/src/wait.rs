//! Waits for the other end of an open FIFO, with a message and with an end by a signal.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The time between two checks whether to end the wait.
const STEP_MS: u32 = 100;
/// The number of steps after which the wait prints what it waits for: about one second.
const STEPS_UNTIL_TOLD: u32 = 10;
/// The number of steps before which no signal ends the wait: about two seconds. So a slow reader
/// still gets the result.
const STEPS_UNTIL_ENDED: u32 = 20;

static END: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();

/// Registers `is_asked`, which returns true after a signal. From now on, a wait for the other end
/// of a FIFO ends with an error when `is_asked` returns true. Only the first call has an effect.
pub fn end_waits_when(is_asked: impl Fn() -> bool + Send + Sync + 'static) {
    let _ = END.set(Box::new(is_asked));
}

/// Waits until `file` is ready for `events`. The wait has no time limit of its own; the user ends
/// it by a signal.
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
            // Ready or in error: the next read or write returns the error with its cause.
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if steps == STEPS_UNTIL_TOLD {
            let path = path.display();
            // A failure is ignored, because standard error may be closed.
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
