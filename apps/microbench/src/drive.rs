//! The phases of a run, one after the other on the same cluster, and what they print.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use latchwork_harness::driver::{Common, Driver, Outcome};
use latchwork_harness::outcome::{self, RunCheck, many};
use latchwork_harness::progress::Title;
use latchwork_harness::{AppError, RunCluster};
use latchwork_report::result::ResultDocument;
use latchwork_verbs::GlobalAddr;
use latchwork_workload::micro::{Popularity, WriteKind};
use serde_json::Value;

use crate::args::Cli;
use crate::client::{self, Done, Run};
use crate::figures::Figures;
use crate::lines::{self, Found, Lines};
use crate::sample_history::{self, History, Sample};
use crate::settings::{Settings, allocated, frames};

const MAKE: Title = Title { name: "load", what: "lines" };
const CHECK: Title = Title { name: "check", what: "lines" };

impl Driver for Settings {
    const NAME: &'static str = "microbench";
    type Cli = Cli;
    type Found = Figures;

    fn new(Cli(flags): Cli) -> Result<Settings, AppError> {
        Settings::new(flags)
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn describe(&self) -> BTreeMap<String, Value> {
        Settings::describe(self)
    }

    fn headline(&self) -> String {
        let (cluster, micro) = (&self.common.cluster, self.workload.config());
        let popularity = match micro.popularity {
            Popularity::Uniform => "uniform".to_owned(),
            Popularity::Zipfian { theta } => format!("zipfian {theta}"),
        };
        format!(
            "microbench: {} on {}{}; {} with {} each, {} in flight per worker, {}; {} of {} bytes, \
             {popularity}, {:.0} % reads, {:.0} % shared; cache of {} per compute node; {}",
            cluster.protocol.name(),
            self.common.fabric.name(),
            self.common.fabric.nic().map(|nic| format!(" ({nic})")).unwrap_or_default(),
            many(cluster.compute_nodes, "compute node"),
            many(cluster.workers, "worker"),
            many(cluster.inflight, "operation"),
            many(cluster.memory_nodes, "memory node"),
            many(self.workload.lines() as usize, "line"),
            cluster.line_size,
            micro.reads * 100.0,
            micro.sharing * 100.0,
            many(frames(cluster) as usize, "line"),
            self.plan.warmup.in_words(),
        )
    }

    fn phases(
        self: &Arc<Self>,
        cluster: &RunCluster,
        outcome: &mut Outcome,
    ) -> Result<Figures, AppError> {
        let count = allocated(self.workload.lines(), &self.common.cluster);
        let made = cluster.phase(MAKE, cluster.part_of(count), self, lines::make)?;
        let made = made.into_iter().flatten().map(GlobalAddr::from_bits);
        cluster.outlive()?;
        let count = self.workload.lines();
        let lines = Arc::new(Lines { settings: self.clone(), all: lines::spread(made, count) });
        let begin = cluster.begin(false)?;
        let course = cluster.course(self.plan, begin);
        let sample = Sample::new(&self.workload, cluster.workers(), self.common.cluster.seed);
        let settings = self.clone();
        let run = Arc::new(Run { settings, lines: lines.clone(), begin, course, sample });
        let mut ran = cluster.measure(&run, None, client::run)?;
        let went = cluster.all_went(run.course.went())?;
        let mut found = Found::default();
        let inspected = cluster.with_living(|workers| {
            cluster.phase(CHECK, cluster.part_of(count), &lines, move |lines, phase, member| {
                lines::inspect(lines, phase, workers.place(&member), member)
            })
        })?;
        inspected.into_iter().for_each(|part| found.merge(part));
        let ends = cluster.share(run.sample.until())?;
        ends.into_iter().for_each(|until| run.sample.ends(until));
        // The compute nodes of processes have the indexes of the processes.
        let dead = cluster.dead();
        outcome.checks = judge(self, &ran.done, &found, &dead);
        let mut history = History::default();
        let living = ran.done.iter_mut().filter(|done| !dead.contains(&done.node));
        living.for_each(|done| history.merge(std::mem::take(&mut done.history)));
        if !dead.is_empty() {
            sample_history::allow_unknown_writes(&mut history);
        }
        // Buffered writes are not linearizable. Times of different clocks cannot be compared.
        if !self.relaxed.consistency.buffers() && cluster.has_one_clock() {
            let judged = run.sample.judge(&history);
            let one = || format!("one order of each explains {} accesses to items", history.len());
            let good = judged.is_ok();
            let detail = judged.err().unwrap_or_else(one);
            outcome.checks.push(RunCheck::new("linearizability", good, detail));
        }
        let (own, figures) = Figures::new(self, &ran.done, &went);
        outcome.measures = own.measures(&went.counters, &figures.node_ops);
        outcome.counters = went.counters;
        outcome.run = Some(ran.complete(figures, None));
        Ok(own)
    }

    fn table(&self, outcome: &Outcome, own: &Figures, out: &mut dyn Write) -> io::Result<()> {
        let Some(run) = &outcome.run else { return Ok(()) };
        let phase = &run.phase;
        writeln!(out, "\nwarm-up   {} operations", own.warm_ups)?;
        writeln!(
            out,
            "measured  {} operations in {:.6} s: {:.3} M operations/s",
            phase.ops,
            phase.elapsed_s,
            phase.throughput_ops_s / 1e6
        )?;
        run.write_conditions(out)?;
        let measures: BTreeMap<_, _> = outcome.measures.iter().copied().collect();
        let of = |name: &str| measures.get(name).copied().unwrap_or(0.0);
        writeln!(
            out,
            "fairness  operations per node {:.0} to {:.0}, Jain index {:.4}",
            of("node_ops_min"),
            of("node_ops_max"),
            of("jain_index")
        )?;
        writeln!(
            out,
            "cache     {:.2} % hits; {:.2} % needed invalidation messages, {:.3} per operation",
            100.0 * of("hit_ratio"),
            100.0 * of("invalidation_share"),
            of("invalidations_per_op")
        )?;
        writeln!(
            out,
            "verbs     per operation: {:.3} READ, {:.3} WRITE, {:.3} CAS, {:.3} FAA, {:.3} messages; {:.0} bytes read, {:.0} written",
            of("reads_per_op"),
            of("writes_per_op"),
            of("cas_per_op"),
            of("faa_per_op"),
            of("messages_per_op"),
            of("bytes_read_per_op"),
            of("bytes_written_per_op")
        )?;
        outcome::write_latencies(out, &run.latencies)?;
        outcome::write_checks(out, &outcome.checks)
    }

    fn complete(&self, _: &Outcome, own: &Figures, document: &mut ResultDocument) {
        // Compute nodes come first.
        for (node, series) in document.nodes.iter_mut().zip(&own.series) {
            node.series.clone_from(series);
        }
    }
}

/// Compares the items with what the workers wrote. A node that died after it had told its results
/// may have lost its last writes, so all that the `dead` wrote counts as unknown.
fn judge(settings: &Settings, done: &[Done], found: &Found, dead: &[usize]) -> Vec<RunCheck> {
    let looked_at: u64 = found.items + done.iter().map(|done| done.looked_at).sum::<u64>();
    let garbage = done.iter().find_map(|done| done.garbage.as_ref()).or(found.first.as_ref());
    let contents = match garbage {
        None => {
            RunCheck::new("contents", true, format!("{looked_at} items as some writer left them"))
        }
        Some(place) => RunCheck::new("contents", false, format!("{place} is as no writer left it")),
    };
    let writes = || {
        let living = done.iter().filter(|done| !dead.contains(&done.node));
        living.flat_map(|done| &done.writes)
    };
    let written: u64 = writes().map(|(_, count)| count).sum();
    let writes = match settings.workload.config().writes {
        WriteKind::Locked => {
            let (good, other) = match dead.is_empty() {
                true => (found.stamps == written, ""),
                false => (found.stamps >= written, ", with those of dead nodes"),
            };
            let detail = format!("{written} writes, and the items say {}{other}", found.stamps);
            RunCheck::new("writes", good, detail)
        }
        WriteKind::Blind => {
            let ahead = writes().find(|(client, count)| {
                found.last_of.get(*client).is_some_and(|last| last > count)
            });
            let detail = match ahead {
                None => format!("{written} writes, and each item has one of them"),
                Some((client, count)) => {
                    format!("client {client} wrote {count} times, and an item has a later one")
                }
            };
            RunCheck::new("writes", ahead.is_none(), detail)
        }
    };
    vec![contents, writes]
}
