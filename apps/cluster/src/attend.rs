//! `cluster attend`: runs a process on behalf of a `cluster` on another machine. The process lives
//! as long as the connection does.
//!
//! - Standard input carries commands, one per line. A command is the number of a signal, or the
//!   notice that the run is over, after which a stopped process is killed. When the input ends, the
//!   process is ended.
//! - Standard error is that of the process, with lines about it when it does not answer.
//! - The leases of a process that has failed are ended at once, because the end is certain here.
//! - Standard output is an archive, written after the end of the process. It contains the standard
//!   output of the process (`out`), and the files of the directory that replaces `{scratch}` in the
//!   arguments.

use std::fs;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use latchwork_harness::AppError;
use latchwork_membership::ProcessIdentity;
use latchwork_runtime::Clock;
use rustix::process::{Pid, Signal, kill_process};

use crate::args::Attend;
use crate::guard::{MARK, PATIENCE, Scratch};
use crate::plan::SCRATCH;
use crate::signals::Signals;
use crate::silence::Silence;
use crate::{archive, node, tell};

const LOOK: Duration = Duration::from_millis(20);
/// The time that a call to the membership store may take.
const END_LEASES: Duration = Duration::from_secs(1);

pub(crate) fn command(attend: &Attend) -> Result<u8, AppError> {
    // The end of the input ends the process. If this program is killed, the guard ends the process.
    Signals::ignore();
    let scratch = Scratch::make(PATIENCE, false)?;
    let files = scratch.directory().join("files");
    fs::create_dir(&files).map_err(|error| AppError::unwritable(&files, &error))?;
    let place = files.display().to_string();
    let words: Vec<_> = attend.command.iter().map(|word| word.replace(SCRATCH, &place)).collect();
    let out = files.join("out");
    let file =
        latchwork_files::scratch(&out).map_err(|error| AppError::unwritable(&out, &error))?;
    let wrapped = node::wrap(&scratch.program(), Signal::KILL.as_raw(), &words);
    let mut child = Command::new(&wrapped[0])
        .args(&wrapped[1..])
        .env(MARK, scratch.mark())
        .stdin(Stdio::null())
        .stdout(file)
        .process_group(0)
        .spawn()
        .map_err(|error| AppError::Failed(format!("{} cannot be started: {error}", words[0])))?;
    let node = ProcessIdentity::of(child.id());
    let (line, lines) = channel();
    // The thread ends when its input ends.
    thread::spawn(move || {
        for said in io::stdin().lines().map_while(Result::ok) {
            if line.send(said).is_err() {
                return;
            }
        }
    });
    let pid = Pid::from_raw(child.id() as i32);
    let send = |signal: Signal| {
        if let Some(pid) = pid {
            // This program has not waited for the process yet, so the id still belongs to the
            // process.
            let _ = kill_process(pid, signal);
        }
    };
    let clock = Clock::start();
    let (mut killed, mut is_over, mut silence) = (false, false, Silence::default());
    let ended = loop {
        let told = match killed {
            true => {
                thread::park_timeout(LOOK);
                None
            }
            false => match lines.recv_timeout(LOOK) {
                Ok(line) => {
                    is_over = true;
                    line.parse().ok().and_then(Signal::from_named_raw)
                }
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    killed = true;
                    Some(Signal::KILL)
                }
            },
        };
        told.map(send);
        let now = clock.now();
        if let Some(line) = silence.look(child.id(), now) {
            tell(&format!("cluster: this node {line}"));
        }
        if is_over && silence.goes_on(now) {
            send(Signal::KILL);
        }
        match child.try_wait() {
            Ok(Some(status)) => {
                if let Some(silent) = silence.before_end(now) {
                    let seconds = silent.as_secs();
                    tell(&format!("cluster: it did not answer for {seconds} s, and was ended"));
                }
                break status;
            }
            Ok(None) => {}
            Err(error) => return Err(AppError::Failed(format!("{}: {error}", words[0]))),
        }
    };
    if !ended.success()
        && let Some(node) = node
    {
        end_leases_of(&node, &words);
    }
    if !killed {
        let sent = archive::write(&mut io::stdout().lock(), &files);
        sent.map_err(|error| AppError::Failed(format!("results cannot be sent: {error}")))?;
    }
    scratch.finish()?;
    let status = ended.code().or(ended.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(status as u8)
}

/// Ends the leases of a process of this command that has ended, in the store of its `--join`. Other
/// nodes of this machine do so as well, but there may be none. An error is ignored: the leases end
/// by themselves, and the last line is to be that of the process.
fn end_leases_of(node: &ProcessIdentity, command: &[String]) {
    let join = command.iter().skip_while(|word| *word != "--join").nth(1);
    let Some(endpoint) = join else { return };
    let _ = latchwork_membership::open(endpoint).and_then(|(store, cluster)| {
        latchwork_membership::end_leases(&*store, &cluster, node, END_LEASES)
    });
}
