//! [`Outcome`]: the figures and checks of a run.

use std::io::{self, Write};

use latchwork_engine::Counters;
use latchwork_report::conditions::Conditions;
use latchwork_report::histogram::Measured;
use latchwork_report::result::{RecoveryResult, ResultPhase};
use latchwork_runtime::Time;

use crate::outcome::{self, RunCheck, WorldEnd};
use crate::{AppError, Limit};

/// The figures of a phase.
#[derive(Default)]
pub struct Figures {
    /// Operations and seconds.
    pub phase: ResultPhase,
    /// Latencies by kind of operation.
    pub latencies: Vec<Measured>,
    /// The resource that limited the phase, if it is known.
    pub limit: Option<Limit>,
    /// How far the figures can be trusted, in real time.
    pub conditions: Option<Conditions>,
    /// Operations of each compute node, if the program counts them.
    pub node_ops: Vec<u64>,
}

impl Figures {
    /// `ops` operations from `begin` to the last of `ends`.
    pub fn between(ops: u64, begin: Time, ends: impl IntoIterator<Item = Time>) -> Figures {
        let end = ends.into_iter().max().unwrap_or(begin).max(begin);
        Figures { phase: ResultPhase::new(ops, (end - begin).as_secs_f64()), ..Figures::default() }
    }

    /// Writes the limit and the conditions of the phase for people, if they are known.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write_conditions(&self, out: &mut dyn Write) -> io::Result<()> {
        outcome::write_limit(out, self.limit.as_ref())?;
        outcome::write_conditions(out, self.conditions.as_ref())
    }
}

/// The outcome of all phases.
#[derive(Default)]
pub struct Outcome {
    /// The load, if the program reports it.
    pub load: Option<Figures>,
    /// The measured run.
    pub run: Option<Figures>,
    /// The checks.
    pub checks: Vec<RunCheck>,
    /// The counters of each compute node in the reported phase, and behind them those of the
    /// agents.
    pub counters: Vec<Counters>,
    /// Derived figures by name. All are finite.
    pub measures: Vec<(&'static str, f64)>,
    /// The world, if the cluster was simulated.
    pub world: Option<WorldEnd>,
    /// The compute nodes of the run that have died, by name.
    pub dead: Vec<String>,
    /// The recoveries from deaths of compute nodes.
    pub recoveries: Vec<RecoveryResult>,
    /// An error with which the program ends after it has reported its results.
    pub failure: Option<AppError>,
}

impl Outcome {
    /// The phase that the result is about: the run, or the load if there was no run.
    pub fn main(&self) -> Option<&Figures> {
        self.run.as_ref().or(self.load.as_ref())
    }

    /// Writes a line for people for each recovery, and one with the dead compute nodes of the run.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write_deaths(&self, out: &mut dyn Write) -> io::Result<()> {
        outcome::write_recoveries(out, &self.recoveries, &self.dead)
    }
}
