//! What came of a run, for people, for scripts that know YCSB, and as a document.

use crate::check::Check;
use crate::drive::Measured;
use crate::error::AppError;
use crate::progress::thousands;
use crate::session::Session;
use latchwork_selcc::Counters;
use latchwork_workload::report;
use latchwork_workload::result::{CheckOutcome, Destination, Node, ResultDocument};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// Everything that is to be told.
pub(crate) struct Outcome {
    session: Arc<Session>,
    pub(crate) load: Option<Measured>,
    pub(crate) run: Option<Measured>,
    pub(crate) checks: Vec<Check>,
    /// What each compute node counted in the phase that is reported.
    pub(crate) counters: Vec<Counters>,
    /// The world, where the cluster was simulated.
    pub(crate) world: Option<World>,
}

/// A simulated world at its end.
pub(crate) struct World {
    /// The hash of all that happened in it.
    pub(crate) event_hash: u64,
    pub(crate) events: u64,
    /// Of these, the events of the run, and how long they took outside.
    pub(crate) run_events: u64,
    pub(crate) run_time: Duration,
    pub(crate) virtual_time: Duration,
    /// How long all of it took outside.
    pub(crate) real_time: Duration,
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
        }
    }

    /// The phase that the command is about: the run, or the load where there was no run.
    fn main(&self) -> Option<&Measured> {
        self.run.as_ref().or(self.load.as_ref())
    }

    /// Tells everything: a table on standard error, YCSB's lines on standard output, and the
    /// document where it should go. With the document on standard output, the lines give way to it.
    pub(crate) fn report(&self) -> Result<(), AppError> {
        self.table(&mut io::stderr().lock()).map_err(|error| lost("standard error", &error))?;
        let json = self.session.settings.json.as_ref();
        if json == Some(&Destination::Stdout) {
            let lines = self.lines(&mut io::stderr().lock());
            lines.map_err(|error| lost("standard error", &error))?;
        } else {
            let mut out = io::stdout().lock();
            let lines = self.lines(&mut out).and_then(|()| out.flush());
            lines.map_err(|error| lost("standard output", &error))?;
        }
        if let Some(destination) = json {
            destination.write(&self.document())?;
        }
        Ok(())
    }

    fn lines(&self, out: &mut impl Write) -> io::Result<()> {
        if let Some(main) = self.main() {
            report::write_lines(out, &main.phase, &main.latencies.measured())?;
        }
        for check in &self.checks {
            writeln!(out, "[CHECK], {}, {}", check.name, word(check.outcome))?;
        }
        Ok(())
    }

    fn table(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out)?;
        let phases = [("load", "records", &self.load), ("run", "operations", &self.run)];
        for (name, what, phase) in phases {
            let Some(measured) = phase else { continue };
            let phase = &measured.phase;
            let rate = thousands(phase.throughput_ops_s);
            writeln!(
                out,
                "{name:<6} {} {what} in {:.2} s: {rate} {what}/s",
                phase.ops, phase.elapsed_s
            )?;
        }
        if let Some(world) = &self.world {
            let (time, real) = (world.virtual_time.as_secs_f64(), world.real_time.as_secs_f64());
            writeln!(
                out,
                "world  {time:.3} s of virtual time, {} events in {real:.1} s, event hash {:#018x}",
                world.events, world.event_hash
            )?;
            if self.run.is_some() {
                let (events, seconds) = (world.run_events, world.run_time.as_secs_f64());
                let rate = thousands(events as f64 / seconds.max(1e-9));
                writeln!(
                    out,
                    "       the run, warm-up included: {events} events in {seconds:.1} s, {rate} events/s"
                )?;
            }
        }
        let Some(main) = self.main() else { return Ok(()) };
        writeln!(
            out,
            "\n{:<18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "latency in us", "count", "mean", "p50", "p95", "p99", "p99.9", "max"
        )?;
        for kind in main.latencies.measured() {
            let intended = format!("{} (intended)", kind.name);
            for (name, latency) in [(&kind.name, kind.latency), (&intended, kind.intended)] {
                let Some(l) = latency else { continue };
                writeln!(
                    out,
                    "{name:<18} {:>10} {:>10.2} {:>10.2} {:>10.2} {:>10.2} {:>10.2} {:>10.2}",
                    l.count, l.mean, l.p50, l.p95, l.p99, l.p999, l.max
                )?;
            }
        }
        writeln!(out)?;
        for check in &self.checks {
            writeln!(out, "check  {:<16} {:<6} {}", check.name, word(check.outcome), check.detail)?;
        }
        writeln!(out)
    }

    fn document(&self) -> ResultDocument {
        let version = env!("CARGO_PKG_VERSION");
        let mut document = ResultDocument::new("ycsb", version, latchwork_harness::GIT);
        document.config = self.session.settings.describe();
        document.event_hash =
            self.world.as_ref().map(|world| format!("{:#018x}", world.event_hash));
        document.load = self.load.as_ref().map(|load| load.phase.clone());
        if let Some(main) = self.main() {
            document.set_measured(&main.phase, &main.latencies.measured());
        }
        for check in &self.checks {
            document.checks.insert(check.name.to_owned(), check.outcome);
        }
        let named = |counters: Counters| {
            counters.entries().map(|(name, count)| (name.to_owned(), count)).collect()
        };
        let all = self.counters.iter().copied().fold(Counters::default(), |a, b| a + b);
        document.counters = named(all);
        let compute = self.counters.iter().zip(1..).map(|(counters, id)| Node {
            role: "compute".to_owned(),
            id,
            counters: named(*counters),
            series: Vec::new(),
        });
        let cluster = &self.session.settings.cluster;
        let memory = (0..cluster.memory_nodes as u64).map(|id| Node {
            role: "memory".to_owned(),
            id,
            counters: [("bytes".to_owned(), cluster.memory_bytes)].into(),
            series: Vec::new(),
        });
        document.nodes = compute.chain(memory).collect();
        document
    }
}

fn lost(place: &str, error: &io::Error) -> AppError {
    AppError::Failed(format!("the result cannot be written to {place}: {error}"))
}

fn word(outcome: CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Ok => "ok",
        CheckOutcome::Failed => "FAILED",
    }
}
