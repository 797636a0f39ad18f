//! The benchmark: objects in a unit square that are inserted, asked for and moved.

mod check;
mod client;
mod settings;

use std::sync::Arc;

use latchwork_harness::driver::{Figures, Outcome};
use latchwork_harness::progress::Extent;
use latchwork_harness::{AppError, RunCluster};
use latchwork_report::histogram::Latencies;

use crate::index::CHECK;
use crate::settings::Settings;

pub(crate) use client::area;
pub(crate) use settings::BenchSettings;

/// Runs the benchmark on a loaded tree, and checks the tree.
pub(crate) fn bench(
    bench: &BenchSettings,
    settings: &Arc<Settings>,
    cluster: &RunCluster,
    outcome: &mut Outcome,
) -> Result<(), AppError> {
    let begin = cluster.begin(false)?;
    let run = Arc::new(client::Run {
        settings: settings.clone(),
        objects: bench.objects(settings.clients()),
        neighbours: bench.neighbours,
        begin,
        course: cluster.course(bench.plan(), begin),
    });
    let ran = cluster.measure(&run, None, client::run)?;
    let went = cluster.all_went(run.course.went())?;
    let objects = ran.done.iter().map(|done| done.objects.0).sum();
    let scanned = cluster.with_living(|workers| {
        cluster.phase(
            CHECK,
            Extent::Operations(objects),
            settings,
            move |settings, phase, member| {
                check::scan(settings, phase, workers.place(&member).0, member)
            },
        )
    })?;
    let mut latencies = Latencies::new();
    let mut node_ops = vec![0; settings.common.cluster.compute_nodes];
    for worker in &ran.done {
        latencies.merge(&worker.latencies);
        node_ops[worker.node] += worker.latencies.ok() + worker.latencies.failed();
    }
    let found: u64 = ran.done.iter().map(|worker| worker.found).sum();
    let ends = [went.last(ran.done.iter().map(|worker| worker.end))];
    let figures = Figures::between(latencies.ok(), went.from, ends);
    let latencies = latencies.measured();
    let windows = latencies.iter().find(|kind| kind.name == "WINDOW");
    let windows = windows.map_or(0, |kind| kind.ok).max(1);
    outcome.measures.push(("found_per_window", found as f64 / windows as f64));
    outcome.checks = check::judge(&ran.done, &scanned, &cluster.dead());
    outcome.counters = went.counters;
    outcome.run = Some(ran.complete(Figures { latencies, node_ops, ..figures }, None));
    Ok(())
}
