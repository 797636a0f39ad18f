//! The evidence of a failed world: a directory with the files that are needed to understand and
//! replay the world.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use latchwork_harness::{AppError, write_file};
use latchwork_hunt::{Diagram, Scenario, Trace, WorldReport, run_traced};
use latchwork_runtime::Clock;
use latchwork_verbs::GlobalAddr;

use crate::outcome;
use crate::world::in_a_line;

/// The highest number of entries of a log.
pub(crate) const LOG_ENTRIES: usize = 1_000_000;

/// Number of steps of a diagram.
pub(crate) const DIAGRAM_STEPS: usize = 60;

/// Number of log entries in the evidence of a failed world.
const EVIDENCE_ENTRIES: usize = 5_000;

/// The line of a failure: the line that the failure names, or the line with the last event.
pub(crate) fn line_of_failure(trace: &Trace, report: &WorldReport) -> Option<GlobalAddr> {
    let failure = report.failure.as_ref()?;
    trace.line_named_in(&failure.text).or_else(|| trace.last_line())
}

/// A failed world, as it was found and as small as it became.
pub(crate) struct Failed<'a> {
    pub(crate) found: (&'a Scenario, &'a WorldReport),
    pub(crate) shrunk: (&'a Scenario, &'a WorldReport),
    /// The steps of the shrinking, in words.
    pub(crate) how: String,
}

/// The written files and their directory.
pub(crate) struct Evidence {
    pub(crate) directory: PathBuf,
    pub(crate) text: String,
}

impl Failed<'_> {
    /// Replays the world with a trace, and writes all evidence. The directory is in `out`, and its
    /// name has the seed that failed.
    pub(crate) fn write(&self, out: &Path) -> Result<Evidence, AppError> {
        let (scenario, expected) = self.shrunk;
        let mut trace = Trace::with_room(EVIDENCE_ENTRIES.max(Trace::KEEP));
        let clock = Clock::start();
        let begin = clock.now();
        let report = run_traced(scenario, &mut trace);
        let real = clock.now() - begin;
        let directory = out.join(self.found.0.seed.to_string());
        std::fs::create_dir_all(&directory)
            .map_err(|error| AppError::unwritable(&directory, &error))?;
        let put = |name: &str, text: &str| {
            let path = directory.join(name);
            write_file(&path, text)
        };
        let line = line_of_failure(&trace, &report);
        let diagram = Diagram::of(&trace, line, DIAGRAM_STEPS);
        put("scenario.toml", &scenario.to_toml())?;
        put("found.toml", &self.found.0.to_toml())?;
        put("events.log", &trace.log(None, EVIDENCE_ENTRIES))?;
        put("diagram.txt", &diagram.to_string())?;
        put("diagram.mmd", &diagram.mermaid())?;
        let mut text = String::new();
        let _ = writeln!(text, "found       {}", in_a_line(self.found.0));
        if let Some(failure) = &self.found.1.failure {
            let failure = failure.to_string();
            let _ = writeln!(text, "            {}", failure.lines().next().unwrap_or_default());
        }
        let _ = writeln!(text, "shrunk      {}", self.how);
        text += &outcome::report_lines(scenario, &report, real);
        if (report.hash, &report.failure) != (expected.hash, &expected.failure) {
            let _ = writeln!(
                text,
                "WARNING     the replay differs from the run: hash {:#018x} then. The world depends on \
                 something besides its scenario, which is a bug by itself",
                expected.hash
            );
        }
        if let Some(line) = line {
            let _ = writeln!(text, "line        {} is {line}", trace.name_of(line));
        }
        let _ = writeln!(text, "git         {}", latchwork_harness::GIT);
        let _ = writeln!(text, "replay      {}", replay(&directory));
        put("report.txt", &text)?;
        Ok(Evidence { directory, text })
    }
}

/// The command that replays the world in a directory.
fn replay(directory: &Path) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "sim".to_owned());
    let file = directory.join("scenario.toml").display().to_string();
    format!("{} run --scenario {}", quoted(&program), quoted(&file))
}

/// A word, quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("a/b-c_1.toml"), "a/b-c_1.toml");
        assert_eq!(quoted("my dir/it's"), "'my dir/it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
