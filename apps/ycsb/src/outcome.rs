//! The outcome of a run, for people, for scripts that know YCSB, and as a document.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use latchwork_engine::Counters;
use latchwork_harness::outcome::{self, RunCheck, WorldEnd, short};
use latchwork_harness::{AppError, Limit, write};
use latchwork_report::conditions::Conditions;
use latchwork_report::histogram::Latencies;
use latchwork_report::result::{ResultDocument, ResultPhase};
use latchwork_report::text;
use latchwork_workload::ycsb::OperationKind;

use crate::session::Session;

/// A measured phase.
pub(crate) struct Measured {
    pub(crate) phase: ResultPhase,
    pub(crate) latencies: Latencies<OperationKind>,
    /// The resource that limited the phase, if it is known.
    pub(crate) limit: Option<Limit>,
    /// How far the figures can be trusted, in real time.
    pub(crate) conditions: Option<Conditions>,
}

/// The outcome of all phases.
pub(crate) struct Outcome {
    session: Arc<Session>,
    pub(crate) load: Option<Measured>,
    pub(crate) run: Option<Measured>,
    pub(crate) checks: Vec<RunCheck>,
    /// The counters of each compute node in the reported phase.
    pub(crate) counters: Vec<Counters>,
    /// The world, if the cluster was simulated.
    pub(crate) world: Option<WorldEnd>,
    /// Whether this process prints the outcome.
    pub(crate) is_told_here: bool,
    /// The number of events of the world during the run, and the real time of the run.
    pub(crate) run_in_world: (u64, Duration),
}

impl Outcome {
    pub(crate) fn new(session: &Arc<Session>) -> Outcome {
        Outcome {
            session: session.clone(),
            load: None,
            run: None,
            checks: Vec::new(),
            counters: Vec::new(),
            world: None,
            is_told_here: true,
            run_in_world: (0, Duration::ZERO),
        }
    }

    /// The phase that the result is about: the run, or the load if there was no run.
    fn main(&self) -> Option<&Measured> {
        self.run.as_ref().or(self.load.as_ref())
    }

    /// Prints the outcome: a table for people, YCSB's lines for scripts, and the document at its
    /// destination. A failure to write one of them does not prevent the others.
    pub(crate) fn report(&self) -> Result<(), AppError> {
        let json = self.session.settings.json.as_ref();
        let told = outcome::print_result(|out| self.table(out), |out| self.lines(out), json);
        let written = json.map_or(Ok(()), |output| write(output, self.document().to_json()));
        told.and(written)
    }

    fn lines(&self, mut out: &mut dyn Write) -> io::Result<()> {
        if let Some(main) = self.main() {
            text::write_lines(&mut out, &main.phase, &main.latencies.measured())?;
        }
        outcome::write_check_lines(out, &self.checks)
    }

    fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out)?;
        let phases = [("load", "records", &self.load), ("run", "operations", &self.run)];
        for (name, what, phase) in phases {
            let Some(measured) = phase else { continue };
            let phase = &measured.phase;
            let rate = short(phase.throughput_ops_s);
            writeln!(
                out,
                "{name:<6} {} {what} in {:.2} s: {rate} {what}/s",
                phase.ops, phase.elapsed_s
            )?;
        }
        if let Some(world) = &self.world {
            world.write(out)?;
            if self.run.is_some() {
                let (events, seconds) = (self.run_in_world.0, self.run_in_world.1.as_secs_f64());
                let rate = short(events as f64 / seconds.max(1e-9));
                writeln!(
                    out,
                    "       the run, warm-up included: {events} events in {seconds:.1} s, {rate} events/s"
                )?;
            }
        }
        let Some(main) = self.main() else { return Ok(()) };
        outcome::write_limit(out, main.limit.as_ref())?;
        outcome::write_conditions(out, main.conditions.as_ref())?;
        outcome::write_latencies(out, &main.latencies.measured())?;
        outcome::write_checks(out, &self.checks)
    }

    fn document(&self) -> ResultDocument {
        let settings = &self.session.settings;
        let event_hash = self.world.as_ref().map(|world| world.event_hash);
        let mut document =
            outcome::document("ycsb", &settings.cluster, &self.counters, &self.checks, event_hash);
        document.config = settings.describe();
        document.load = self.load.as_ref().map(|load| load.phase.clone());
        if let Some(main) = self.main() {
            document.set_measured(&main.phase, &main.latencies.measured());
            document.conditions = main.conditions.clone();
            document.limit = main.limit.as_ref().map(ToString::to_string);
        }
        document
    }
}
