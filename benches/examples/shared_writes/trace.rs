//! [`Trace`]: reads valgrind's trace, and computes the result.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Bytes of a CPU cache line.
const LINE: u64 = 64;
/// The highest number of instructions that are shown for a shared line.
const PLACES: usize = 3;

/// The accesses of one thread to one cache line in one phase.
#[derive(Clone, Default)]
struct Use {
    loads: u64,
    stores: u64,
    /// The addresses of the instructions that stored.
    places: Vec<u64>,
}

#[derive(Default)]
struct Phase {
    path: String,
    reader: usize,
    accesses: u64,
    stores: u64,
    lines: BTreeMap<u64, Use>,
}

/// The relevant part of a trace, which is read line by line.
#[derive(Default)]
pub(crate) struct Trace {
    /// The current phase, and the accesses of each thread in it. The trace does not say which
    /// thread is the reader.
    running: Option<(Phase, BTreeMap<u32, Phase>)>,
    phases: Vec<Phase>,
    thread: u32,
    instruction: u64,
    code: u64,
}

/// The result of one read path.
pub(crate) struct Row {
    pub(crate) path: String,
    pub(crate) readers: usize,
    pub(crate) accesses: u64,
    pub(crate) stores: u64,
    pub(crate) touched: usize,
    pub(crate) stored: usize,
    pub(crate) shared: usize,
}

/// A line that one reader stored to and another accessed.
pub(crate) struct Shared {
    pub(crate) line: u64,
    pub(crate) path: String,
    pub(crate) by: usize,
    pub(crate) stores: u64,
    pub(crate) other: usize,
    pub(crate) other_path: String,
    pub(crate) places: Vec<u64>,
}

pub(crate) struct Verdict {
    pub(crate) paths: Vec<Row>,
    pub(crate) shared: Vec<Shared>,
    code: u64,
}

impl Trace {
    /// Takes a line. Returns false when the line is not part of a trace.
    ///
    /// ```text
    /// I  0401ab20,3                       an instruction
    ///  S 1ffefff5c8,8                     a store by that instruction; L is a load, M is both
    /// --17--   SCHED[2]:  acquired lock   thread 2 runs from here on
    /// MARK begin 1 tree get               the begin of a phase of reader 1
    /// MARK end                            the end of the phase
    /// MARK code 108000                    the address of the program's code
    /// ```
    pub(crate) fn line(&mut self, line: &[u8]) -> bool {
        match line {
            [b'I', b' ', b' ', rest @ ..] => {
                // Instructions matter only in a phase, and most of a trace is outside of one.
                if self.running.is_some() {
                    self.instruction = access(rest).map_or(0, |(addr, _)| addr);
                }
                true
            }
            [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => {
                if let (Some(_), Some((addr, size))) = (&self.running, access(rest)) {
                    self.access(addr, size, *kind != b'S', *kind != b'L');
                }
                true
            }
            [b'M', b'A', b'R', b'K', b' ', rest @ ..] => self.mark(&String::from_utf8_lossy(rest)),
            [b'-', b'-', ..] => self.scheduled(&String::from_utf8_lossy(line)),
            _ => false,
        }
    }

    fn access(&mut self, addr: u64, size: u64, loads: bool, stores: bool) {
        let Some((_, threads)) = &mut self.running else { return };
        let phase = threads.entry(self.thread).or_default();
        phase.accesses += 1;
        phase.stores += u64::from(stores);
        for line in addr / LINE..=(addr + size.max(1) - 1) / LINE {
            let used = phase.lines.entry(line).or_default();
            used.loads += u64::from(loads);
            used.stores += u64::from(stores);
            let place = self.instruction;
            if stores && used.places.len() < PLACES && !used.places.contains(&place) {
                used.places.push(place);
            }
        }
    }

    fn mark(&mut self, mark: &str) -> bool {
        let mut words = mark.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("begin"), Some(reader), Some(path)) => {
                let Ok(reader) = reader.parse() else { return false };
                let path = path.to_owned();
                self.running = Some((Phase { path, reader, ..Phase::default() }, BTreeMap::new()));
                true
            }
            (Some("end"), None, None) => {
                // All other readers are blocked, and some other threads poll now and then. So the
                // thread with the most accesses is the reader.
                let Some((phase, threads)) = self.running.take() else { return false };
                let busiest = threads.into_values().max_by_key(|used| used.accesses);
                let used = busiest.unwrap_or_default();
                let Phase { path, reader, .. } = phase;
                self.phases.push(Phase { path, reader, ..used });
                true
            }
            (Some("code"), Some(base), None) => {
                self.code = u64::from_str_radix(base, 16).unwrap_or(0);
                true
            }
            _ => false,
        }
    }

    fn scheduled(&mut self, line: &str) -> bool {
        let Some((_, rest)) = line.split_once("SCHED[") else { return false };
        let Some((thread, what)) = rest.split_once("]:") else { return false };
        if what.contains("acquired lock")
            && let Ok(thread) = thread.parse()
        {
            self.thread = thread;
        }
        true
    }

    /// The result of the phases.
    ///
    /// # Errors
    /// When the trace has too few accesses for a result.
    pub(crate) fn verdict(&self) -> Result<Verdict, String> {
        let mut shared = Vec::new();
        // For each line, the phases that accessed the line.
        let mut users: BTreeMap<u64, Vec<&Phase>> = BTreeMap::new();
        for phase in &self.phases {
            for line in phase.lines.keys() {
                users.entry(*line).or_default().push(phase);
            }
        }
        let mut paths: Vec<Row> = Vec::new();
        for phase in &self.phases {
            let row = match paths.iter_mut().find(|row| row.path == phase.path) {
                Some(row) => row,
                None => {
                    let path = phase.path.clone();
                    let (readers, accesses, stores) = (0, 0, 0);
                    let (touched, stored, shared) = (0, 0, 0);
                    paths.push(Row { path, readers, accesses, stores, touched, stored, shared });
                    paths.last_mut().expect("just added")
                }
            };
            row.readers += 1;
            row.accesses += phase.accesses;
            row.stores += phase.stores;
            row.touched += phase.lines.len();
            row.stored += phase.lines.values().filter(|used| used.stores > 0).count();
            for (line, used) in phase.lines.iter().filter(|(_, used)| used.stores > 0) {
                let Some(other) = users[line].iter().find(|other| other.reader != phase.reader)
                else {
                    continue;
                };
                row.shared += 1;
                shared.push(Shared {
                    line: line * LINE,
                    path: phase.path.clone(),
                    by: phase.reader,
                    stores: used.stores,
                    other: other.reader,
                    other_path: other.path.clone(),
                    places: used.places.clone(),
                });
            }
        }
        let idle = self.phases.iter().find(|phase| phase.accesses == 0);
        if paths.is_empty() || paths.iter().any(|row| row.readers < 2) || idle.is_some() {
            return Err(format!(
                "the trace has {} phases, which is too few to tell what is shared, or empty ones",
                self.phases.len()
            ));
        }
        Ok(Verdict { paths, shared, code: self.code })
    }
}

/// `1ffefff5c8,8`: address and size.
fn access(text: &[u8]) -> Option<(u64, u64)> {
    let comma = text.iter().position(|byte| *byte == b',')?;
    let hex = |value: u64, digit: &u8| Some(value << 4 | u64::from((*digit as char).to_digit(16)?));
    let addr = text[..comma].iter().try_fold(0, hex)?;
    let size = std::str::from_utf8(&text[comma + 1..]).ok()?.trim().parse().ok()?;
    Some((addr, size))
}

impl Verdict {
    /// The function and the source line of an instruction, with the functions into which it is
    /// inlined. If they are unknown, its address.
    pub(crate) fn symbol(&self, place: u64) -> String {
        let named = std::env::current_exe().ok().and_then(|me| {
            let at = format!("{:#x}", place.checked_sub(self.code)?);
            let mut command = Command::new("addr2line");
            command.args(["-f", "-C", "-i", "-p", "-s", "-e"]).arg(me).arg(at);
            let output = command.stdin(Stdio::null()).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            let known = output.status.success() && !text.trim().is_empty();
            known.then(|| text.trim().replace('\n', "\n   "))
        });
        format!("{place:#x} {}", named.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Result<Verdict, String> {
        let mut trace = Trace::default();
        assert!(text.lines().all(|line| trace.line(line.as_bytes())));
        trace.verdict()
    }

    /// The verdict on two readers, each in its own phase, with these accesses.
    fn two(first: &str, second: &str) -> Verdict {
        let phase = |reader, accesses| {
            format!("MARK begin {reader} get\nI  0400,3\n{accesses}\nMARK end\n")
        };
        let thread = |n| format!("--7--   SCHED[{n}]:  acquired lock (VG_(wait))\n");
        let text = thread(1) + &phase(0, first) + &thread(2) + &phase(1, second);
        judged(&text).expect("enough to judge by")
    }

    #[test]
    fn lines_that_are_only_read_are_not_shared() {
        assert!(two(" L 1000,8", " L 1000,8").shared.is_empty());
        assert!(two(" S 1000,8", " S 1040,8").shared.is_empty());
    }

    #[test]
    fn a_line_that_one_stores_to_and_another_touches_is_shared() {
        for (first, second) in
            [(" S 1000,8", " L 1038,8"), (" L 1000,8", " M 1000,4"), (" S 103c,8", " S 1040,1")]
        {
            let verdict = two(first, second);
            assert!(!verdict.shared.is_empty(), "{first} {second}");
            assert_eq!(verdict.shared[0].places, [0x400]);
            assert!(verdict.paths[0].shared > 0);
        }
    }

    #[test]
    fn what_other_threads_do_meanwhile_is_not_the_readers() {
        let text = "--7--   SCHED[1]:  acquired lock (a)\nMARK begin 0 get\n L 1000,8\n L 1000,8\n\
                    --7--   SCHED[3]:  acquired lock (a)\n S 1000,8\nMARK end\n\
                    --7--   SCHED[2]:  acquired lock (a)\nMARK begin 1 get\n L 1000,8\nMARK end";
        let verdict = judged(text).expect("enough to judge by");
        assert!(verdict.shared.is_empty());
        assert_eq!((verdict.paths[0].readers, verdict.paths[0].accesses), (2, 3));
    }

    #[test]
    fn a_trace_without_phases_is_no_proof() {
        assert!(judged("I  0400,3\n S 1000,8").is_err());
        assert!(judged("MARK begin 0 get\nMARK end\nMARK begin 1 get\nMARK end").is_err());
    }
}
