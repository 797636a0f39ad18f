//! [`Driver`]: a program that loads data on a cluster, measures operations on them, and checks
//! them.
//!
//! ```text
//!   start::<D> ── command line ──► D::new ──► RunCluster ──► D::join ──► D::phases ──► results
//!                                                                           │
//!                       RunCluster::phase     load, check: on every worker, with progress
//!                       RunCluster::measure   the measured run, with its conditions and limit
//!                       named, tasks          an object that all workers open; tasks of a worker
//!                       Outcome               figures, checks: a table, lines, the document
//! ```
//!
//! A program keeps its workload, its operations, and what it knows about its store. All else is
//! here: the order of the steps, the other processes of the run, signals, and results.

mod common;
mod measure;
mod memory;
mod outcome;
mod pool_size;
mod work;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches};
use latchwork_files::Output;
use latchwork_report::result::ResultDocument;
use latchwork_report::text;
use latchwork_runtime::{Clock, Time};
use serde_json::Value;

pub use latchwork_verbs_shm::MemoryRoom;

pub use self::common::{Common, DriverFlags, described};
pub use self::measure::{MeasuredRun, Ran};
pub use self::memory::{MemoryNeed, bytes_of_memory_node, check_memory_nodes, operations_at_most};
pub use self::outcome::{Figures, Outcome};
pub use self::pool_size::PoolSize;
pub use self::work::{named, tasks};
use crate::console::{say, say_folded};
use crate::outcome::{RunCheck, WorldEnd, write_check_lines};
use crate::{AppError, NamesFiles, RunCluster};

/// A program that loads data, measures operations, and checks the data. The value has all that its
/// workers share.
pub trait Driver: Sized + Send + Sync + 'static {
    /// The program's name.
    const NAME: &'static str;
    /// Whether a process of the program can work along in a run of others, in the place of a dead
    /// one.
    const REPLACES: bool = false;
    /// Its command line.
    type Cli: CommandFactory + FromArgMatches + NamesFiles;
    /// What its phases find beside the figures that all programs have.
    type Found;

    /// Combines the flags. Nothing is started yet.
    ///
    /// # Errors
    /// One line about the first impossible setting, with valid values.
    fn new(cli: Self::Cli) -> Result<Self, AppError>;

    /// What all programs know.
    fn common(&self) -> &Common;

    /// As [`common`](Driver::common), to enter what is known only when the cluster has started.
    fn common_mut(&mut self) -> &mut Common;

    /// The settings for the result document.
    fn describe(&self) -> BTreeMap<String, Value>;

    /// The settings that all processes of a run must share.
    fn to_agree_on(&self) -> BTreeMap<String, Value> {
        self.describe()
    }

    /// Enters what is known only when the cluster has started.
    ///
    /// # Errors
    /// What makes the run impossible here.
    fn join(&mut self, _cluster: &RunCluster) -> Result<(), AppError> {
        Ok(())
    }

    /// A line for people about the coming run.
    fn headline(&self) -> String;

    /// All phases, one after the other on the same cluster.
    ///
    /// # Errors
    /// The first error of any worker, here or at another process.
    fn phases(
        self: &Arc<Self>,
        cluster: &RunCluster,
        outcome: &mut Outcome,
    ) -> Result<Self::Found, AppError>;

    /// Called after the phases, also after phases that failed.
    fn close(&self) {}

    /// Writes the table for people.
    ///
    /// # Errors
    /// When `out` fails.
    fn table(&self, outcome: &Outcome, found: &Self::Found, out: &mut dyn Write) -> io::Result<()>;

    /// Writes the lines for scripts: those of YCSB.
    ///
    /// # Errors
    /// When `out` fails.
    fn lines(
        &self,
        outcome: &Outcome,
        _found: &Self::Found,
        mut out: &mut dyn Write,
    ) -> io::Result<()> {
        if let Some(main) = outcome.main() {
            text::write_lines(&mut out, &main.phase, &main.latencies)?;
        }
        for (name, value) in &outcome.measures {
            writeln!(out, "[MEASURE], {name}, {value}")?;
        }
        write_check_lines(out, &outcome.checks)
    }

    /// Adds what only this program has to the result document.
    fn complete(&self, _outcome: &Outcome, _found: &Self::Found, _document: &mut ResultDocument) {}

    /// The destinations of the result document.
    fn outputs(&self) -> Vec<Output> {
        self.common().json.iter().cloned().collect()
    }

    /// Prints the outcome: a table for people, lines for scripts, and the document at its
    /// destinations. A failure to write one of them does not prevent the others.
    ///
    /// # Errors
    /// When a result cannot be written.
    fn report(&self, outcome: &Outcome, found: &Self::Found) -> Result<(), AppError> {
        let outputs = self.outputs();
        let table = |out: &mut dyn Write| {
            self.table(outcome, found, out)?;
            outcome.write_deaths(out)
        };
        let lines = |out: &mut dyn Write| self.lines(outcome, found, out);
        let taken = outputs.iter().find(|output| output.is_stdout());
        let told = crate::outcome::print_result(table, lines, taken);
        if outputs.is_empty() {
            return told;
        }
        let document = document(self, outcome, found).to_json();
        outputs.iter().map(|output| crate::write(output, &document)).fold(told, Result::and)
    }
}

/// Runs the program, from its command line to its exit status ([`program::start`](crate::start)).
pub fn start<D: Driver>() -> ExitCode {
    crate::start(D::NAME, |cli| D::new(cli).and_then(run))
}

/// A driver on its cluster.
pub struct Started<D> {
    /// The driver.
    pub driver: Arc<D>,
    /// The cluster.
    pub cluster: RunCluster,
}

impl<D: Driver> Started<D> {
    /// Starts the cluster, on which all processes of the run agree.
    ///
    /// # Errors
    /// As [`RunCluster::start`], [`RunCluster::agree`] and [`Driver::join`].
    pub fn new(mut driver: D) -> Result<Started<D>, AppError> {
        let Common { cluster, fabric, .. } = driver.common();
        if fabric.replaces() && !D::REPLACES {
            return Err(AppError::Usage(
                "--set replaces=on: only ycsb works along in a run of others; leave it out"
                    .to_owned(),
            ));
        }
        let cluster = RunCluster::start(cluster.clone(), fabric)?;
        // The memory nodes of other processes have said their size by now.
        driver.common_mut().cluster = cluster.config().clone();
        let agreed = cluster.agree(D::NAME, driver.to_agree_on());
        if let Err(error) = agreed.and_then(|()| driver.join(&cluster)) {
            return cluster.end(Err(error)).map(|(started, _)| started);
        }
        Ok(Started { driver: Arc::new(driver), cluster })
    }

    fn phases(&self, clock: Clock) -> Result<(Outcome, D::Found), AppError> {
        let Started { driver, cluster } = self;
        if cluster.is_first() {
            let warnings = &driver.common().warnings;
            warnings.iter().for_each(|warning| say(&format!("{}: {warning}", D::NAME)));
            say_folded(&driver.headline());
        }
        let mut outcome = Outcome::default();
        let found = driver.phases(cluster, &mut outcome)?;
        (outcome.dead, outcome.recoveries) = cluster.recoveries()?;
        outcome.world = WorldEnd::of(cluster, clock.now() - Time::ZERO);
        Ok((outcome, found))
    }
}

/// Runs a driver; returns whether all checks succeeded.
fn run<D: Driver>(driver: D) -> Result<bool, AppError> {
    let clock = Clock::start();
    let started = Started::new(driver)?;
    let ended = started.phases(clock);
    started.driver.close();
    let Started { driver, cluster } = started;
    let ((outcome, found), is_first) = cluster.end(ended)?;
    if is_first {
        driver.report(&outcome, &found)?;
    }
    match outcome.failure {
        Some(error) => Err(error),
        None => Ok(outcome.checks.iter().all(RunCheck::is_good)),
    }
}

/// The result document.
pub fn document<D: Driver>(driver: &D, outcome: &Outcome, found: &D::Found) -> ResultDocument {
    let event_hash = outcome.world.as_ref().map(|world| world.event_hash);
    let Outcome { counters, checks, .. } = outcome;
    let cluster = &driver.common().cluster;
    let mut document = crate::outcome::document(D::NAME, cluster, counters, checks, event_hash);
    document.config = driver.describe();
    document.dead.clone_from(&outcome.dead);
    document.recoveries.clone_from(&outcome.recoveries);
    document.load = outcome.load.as_ref().map(|load| load.phase.clone());
    if let Some(main) = outcome.main() {
        document.set_measured(&main.phase, &main.latencies);
        document.conditions = main.conditions.clone();
        document.limit = main.limit.as_ref().map(ToString::to_string);
        // Compute nodes come first.
        for (node, ops) in document.nodes.iter_mut().zip(&main.node_ops) {
            node.counters.insert("ops".to_owned(), *ops);
        }
    }
    let measures = outcome.measures.iter().map(|(name, value)| ((*name).to_owned(), *value));
    document.measures = measures.collect();
    driver.complete(outcome, found, &mut document);
    document
}
