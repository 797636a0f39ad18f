//! `sim run`: one world.

use std::path::PathBuf;

use latchwork_harness::{AppError, output, write};
use latchwork_hunt::{Diagram, Trace, run as run_world, run_traced};
use latchwork_runtime::Clock;
use latchwork_verbs::GlobalAddr;

use crate::args::RunArgs;
use crate::evidence::{DIAGRAM_STEPS, LOG_ENTRIES, line_of_failure};
use crate::outcome;

/// Replays a world; returns whether its checks hold.
pub(crate) fn run(arguments: &RunArgs) -> Result<bool, AppError> {
    let scenario = arguments.world.chosen(arguments.scenario.as_deref(), arguments.seed)?;
    if arguments.print_scenario {
        outcome::tell(&scenario.to_toml(), None)?;
        return Ok(true);
    }
    let json = arguments.output.destination()?;
    let log_entries = arguments.last.unwrap_or(usize::MAX);
    let open = |flag, path: &Option<PathBuf>| path.as_deref().map(|path| output(flag, path));
    let log = open("--log", &arguments.log).transpose()?;
    let drawing = open("--diagram", &arguments.diagram).transpose()?;
    let traced = log.is_some() || drawing.is_some();
    let keep = if log.is_some() { log_entries.min(LOG_ENTRIES) } else { Trace::KEEP };
    let mut trace = Trace::with_room(keep.max(Trace::KEEP));
    let clock = Clock::start();
    let begin = clock.now();
    let report = if traced { run_traced(&scenario, &mut trace) } else { run_world(&scenario) };
    let real = clock.now() - begin;
    let text = outcome::report_lines(&scenario, &report, real);
    // A failure to write one output does not prevent the others.
    let mut told = outcome::tell(&text, json.as_ref());
    let about = arguments.about.as_deref().map(|name| line_named(&trace, name)).transpose()?;
    if let Some(log) = &log {
        told = told.and(write(log, trace.log(about, log_entries)));
    }
    if let Some(output) = &drawing {
        let about = about.or_else(|| line_of_failure(&trace, &report));
        let steps = arguments.last.unwrap_or(DIAGRAM_STEPS);
        let diagram = Diagram::of(&trace, about, steps);
        let mermaid = output.path().extension().is_some_and(|extension| extension == "mmd");
        let text = if mermaid { diagram.mermaid() } else { diagram.to_string() };
        told = told.and(write(output, text));
    }
    if let Some(output) = &json {
        let document = outcome::world_document(&scenario, &report, real);
        told = told.and(write(output, document.to_json()));
    }
    told?;
    Ok(report.failure.is_none())
}

fn line_named(trace: &Trace, name: &str) -> Result<GlobalAddr, AppError> {
    trace.line_named_in(name).ok_or_else(|| {
        AppError::Usage(format!(
            "--about {name:?}: no such line was seen; lines are called as in the log, for example line 3"
        ))
    })
}
