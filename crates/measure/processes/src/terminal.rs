//! Runs a program on a pseudo-terminal, and returns the text that the program shows there.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The width, in columns, that lines of programs must fit.
const COLUMNS: usize = 80;

/// Runs a program whose standard output and standard error are one terminal. Returns the exit
/// status and the lines that the terminal shows at the end. A text that a later text of the same
/// line overwrote, such as a progress bar, is left out.
///
/// # Panics
/// When no terminal is available. When the program does not end within `limit`; the program is
/// killed first.
pub fn shown(mut command: Command, limit: Duration) -> (ExitStatus, String) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).expect("a terminal");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("a terminal of our own");
    let name = ptsname(&ours, Vec::new()).expect("it has a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, Mode::empty()).expect("its other end");
    let theirs = File::from(theirs);
    command.stdin(Stdio::null()).stdout(theirs.try_clone().expect("a descriptor")).stderr(theirs);
    let mut child = command.spawn().expect("the program starts");
    // `command` has descriptors of the program's end of the terminal. While they are open, a read
    // of our end does not end.
    drop(command);
    let (says, said) = channel();
    thread::spawn(move || {
        let (mut text, mut some, mut ours) = (Vec::new(), [0; 4096], File::from(ours));
        // When no process has the program's end open any more, the read returns an error.
        while let Ok(1..) = ours.read(&mut some).inspect(|count| text.extend(&some[..*count])) {}
        let _ = says.send(text);
    });
    let Ok(text) = said.recv_timeout(limit) else {
        let _ = child.kill();
        let _ = child.wait();
        panic!("the program has not ended after {limit:?}");
    };
    let status = child.wait().expect("it has ended");
    (status, plain(&String::from_utf8_lossy(&text)))
}

/// The text that remains on a terminal: of each line the part after the last carriage return,
/// without control sequences.
fn plain(text: &str) -> String {
    let line = |line: &str| {
        let line = line.trim_end_matches('\r');
        let line = line.rsplit('\r').next().unwrap_or_default();
        let mut parts = line.split('\u{1b}');
        let mut plain = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            // `[2K`: parameters, and a final letter.
            let end = part.find(|letter: char| letter.is_ascii_alphabetic());
            plain.push_str(end.map_or("", |end| &part[end + 1..]));
        }
        plain
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// The lines of more than 80 characters.
pub fn too_wide(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.chars().count() > COLUMNS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_finds_a_terminal_and_its_lines_come_back() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "[ -t 1 ] && [ -t 2 ] && printf 'bar\\r\\033[2Kone\\n'; echo two >&2; exit 3",
        ]);
        let (status, text) = shown(command, Duration::from_secs(60));
        assert_eq!((status.code(), text.as_str()), (Some(3), "one\ntwo\n"));
    }

    #[test]
    fn what_is_too_wide_is_found() {
        let wide = "x".repeat(81);
        assert_eq!(too_wide(&format!("{wide}\n{}", "y".repeat(80))), [wide]);
    }
}
