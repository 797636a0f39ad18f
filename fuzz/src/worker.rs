//! A worker process: it runs inputs of one target. Any input may end the process.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use latchwork_fuzz::{Corpus, FuzzTarget, INPUT_MAX, Session, save_failure};
use latchwork_runtime::Clock;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::cli::Cli;

/// The longest time that an input may take.
const TIME_MAX: Duration = Duration::from_secs(5);
/// The address space of a worker, in bytes: the limit for an input, with some room for the process
/// itself.
const MEMORY_MAX: u64 = 2 << 30;

/// Runs the corpus and then mutations until the time is over. With `--replay` it runs one input.
///
/// Prints one line at the end. An input that fails ends the process at once.
pub(crate) fn run(cli: &Cli, target: FuzzTarget, seed: u64, current: &Path) -> Result<(), String> {
    limit(Resource::As, MEMORY_MAX).map_err(|e| format!("cannot limit the memory: {e}"))?;
    limit(Resource::Core, 0).map_err(|e| format!("cannot limit core files: {e}"))?;
    let started = &AtomicU64::new(0);
    let (end, ended) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || watch(started, &ended));
        let done = inputs(cli, target, seed, current, started);
        drop(end);
        done
    })
}

fn inputs(
    cli: &Cli,
    target: FuzzTarget,
    seed: u64,
    current: &Path,
    started: &AtomicU64,
) -> Result<(), String> {
    let clock = Clock::start();
    let cannot = |error: io::Error| format!("{}: {error}", current.display());
    let file = File::create(current).map_err(cannot)?;
    let run = |input: &[u8]| {
        write_current(&file, input).map_err(cannot)?;
        // Relaxed: the watchdog reads no other memory that depends on this count.
        started.fetch_add(1, Ordering::Relaxed);
        Ok::<_, String>((target.run)(input))
    };
    if let Some(path) = &cli.replay {
        let input = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{}: {} bytes: {}", target.name, input.len(), run(&input)?);
        return Ok(());
    }
    let folder = cli.corpus.join(target.name);
    let corpus = Corpus::load(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut session = Session::new(target, &corpus, seed);
    for (_, input) in &corpus.inputs {
        let class = run(input)?;
        session.took(input, class);
    }
    let (mut count, kept) = (corpus.inputs.len(), session.classes().len());
    let until = clock.now() + Duration::from_secs(cli.seconds);
    while clock.now() < until {
        let input = session.next_input();
        let class = run(&input)?;
        count += 1;
        if session.took(&input, class) && cli.keep {
            save_failure(&folder, "found", &input)
                .map_err(|e| format!("{}: {e}", folder.display()))?;
        }
    }
    let reached = session.classes().len();
    println!("{}: {count} inputs, {kept} classes with the corpus, {reached} now", target.name);
    if cli.classes {
        session.classes().iter().for_each(|class| println!("  {class}"));
    }
    Ok(())
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}

/// Ends the process when an input takes longer than [`TIME_MAX`].
fn watch(started: &AtomicU64, ended: &Receiver<()>) {
    let (mut last, mut ticks) = (0, 0);
    let tick = TIME_MAX / 10;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(tick) {
        let now = started.load(Ordering::Relaxed);
        ticks = if now == last { ticks + 1 } else { 0 };
        last = now;
        if ticks > 10 {
            eprintln!("an input took more than {TIME_MAX:?}");
            std::process::exit(3);
        }
    }
}

/// Writes the next input to the file: its length and its bytes.
fn write_current(file: &File, input: &[u8]) -> io::Result<()> {
    let length = (input.len() as u64).to_le_bytes();
    file.write_all_at(&[&length, input].concat(), 0)
}

/// The input in the file of a dead worker, or `None` if the worker had run no input.
pub(crate) fn read_current(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = 8 + 2 * INPUT_MAX as u64;
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?).map(<[u8]>::to_vec)
}
