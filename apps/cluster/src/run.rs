//! One run, from its flags to its results.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use latchwork_harness::driver::check_memory_nodes;
use latchwork_harness::outcome::is_for_people_only;
use latchwork_harness::{AppError, folded};

use crate::args::{Fabric, Place, Run};
use crate::guard::{Scratch, directories};
use crate::live::{Surroundings, written};
use crate::outcome::Outcome;
use crate::plan::{BOOT, Layout, Plan};
use crate::signals::Signals;
use crate::supervise::{self, Limits};
use crate::{archive, results, tell};

/// Runs the command `cluster run`. Returns the exit status.
pub(crate) fn command(run: &Run, signals: &Signals) -> Result<u8, AppError> {
    if run.dry_run {
        print(dry(run)?.join("\n").as_bytes());
        return Ok(0);
    }
    let outcome = self::run(run, signals, true)?;
    let directory = &run.results;
    if run.archive {
        let sent = archive::write(&mut io::stdout().lock(), directory);
        sent.map_err(|error| AppError::Failed(format!("results cannot be sent: {error}")))?;
    } else {
        for node in &outcome.nodes {
            // Only one of the programs prints a result.
            if node.name.starts_with('C')
                && let Ok(text) = std::fs::read(written(directory, &node.name, "out"))
            {
                print(&shown(text));
            }
        }
    }
    if let Some(problem) = &outcome.problem {
        let directory = directory.display();
        tell(&folded(&format!("cluster: {problem}")));
        tell(&folded(&format!("cluster: what each process wrote is in {directory}")));
    }
    Ok(outcome.status)
}

/// All commands of a run, without starting any.
pub(crate) fn dry(run: &Run) -> Result<Vec<String>, AppError> {
    let layout = layout("latchwork-cluster-RUN", &run.results);
    let mut lines = Plan::of(run, &layout)?.lines();
    if let Some(last) = lines.last_mut() {
        last.push('\n');
    }
    Ok(lines)
}

fn layout(mark: &str, results: &Path) -> Layout {
    let [scratch, shared] = directories(mark);
    Layout { scratch, shared, results: results.to_owned(), mark: mark.to_owned() }
}

/// Runs the processes, and keeps the results of a good or a failed run.
///
/// # Errors
/// When the run could not begin, or its results cannot be kept.
pub(crate) fn run(run: &Run, signals: &Signals, is_shown: bool) -> Result<Outcome, AppError> {
    // An impossible run is refused before any file is removed.
    Plan::of(run, &layout("latchwork-cluster-RUN", &run.results))?;
    let shares_memory = run.fabric() == Fabric::Shm;
    if matches!(run.on(), Place::Processes | Place::Namespaces) {
        check_memory_nodes(run.memory_nodes.into(), run.memory(), shares_memory)?;
    }
    let directory = results::prepare(&run.results)?;
    let scratch = Scratch::make(run.kill_after, shares_memory)?;
    let plan = Plan::of(run, &layout(scratch.mark(), &directory))?;
    let own = scratch.program();
    let around = Surroundings {
        own: &own,
        mark: scratch.mark(),
        results: &directory,
        holder: None,
        is_shown,
    };
    let boot = if run.on() == Place::Vm { BOOT } else { 0 };
    let limits = Limits {
        time: run.time_limit + Duration::from_secs(boot),
        grace: run.grace,
        drain: run.drain,
        kill_after: run.kill_after,
    };
    let over = supervise::run(&plan, around, limits, signals)?;
    let mut outcome = Outcome::of(run, over.status, over.problem, over.elapsed);
    let missing = results::gather(&directory, &over.nodes, &mut outcome)?;
    if outcome.status == 0 && missing.is_some() {
        outcome.status = 1;
    }
    if outcome.status != 0 {
        outcome.problem = outcome.problem.or(missing);
    }
    results::save(&directory, &outcome)?;
    scratch.finish()?;
    Ok(outcome)
}

/// The part of a program's standard output to print. On a terminal the user has the table, which
/// has all the information of the lines for scripts.
fn shown(text: Vec<u8>) -> Vec<u8> {
    if is_for_people_only() { without_script_lines(&text) } else { text }
}

/// Removes the lines for scripts, such as `[CHECK], ..` of all programs and the rates of TPC-C.
fn without_script_lines(text: &[u8]) -> Vec<u8> {
    let for_scripts = |line: &&[u8]| {
        let is_tagged = line[0] == b'[' && line.get(1).is_some_and(u8::is_ascii_alphabetic);
        is_tagged || line.starts_with(b"newOrdersPerMin: ") || line.starts_with(b"tpmC, ")
    };
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !for_scripts(line)).flatten().copied().collect()
}

fn print(text: &[u8]) {
    let mut out = io::stdout().lock();
    // The reader may have closed the output.
    let _ = out.write_all(text).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_scripts_are_left_out_and_documents_are_not() {
        let text = b"[OVERALL], RunTime(ms), 9\n{\n  \"checks\": [\n  ]\n}\n[CHECK], tree, ok\nnewOrdersPerMin: 1.0\nnews";
        let expected = b"{\n  \"checks\": [\n  ]\n}\nnews";
        assert_eq!(without_script_lines(text), expected);
        assert_eq!(without_script_lines(b"[\n1]\n"), b"[\n1]\n");
    }
}
