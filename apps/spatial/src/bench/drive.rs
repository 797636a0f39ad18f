//! The measured run of the benchmark.

use std::sync::Arc;
use std::time::Duration;

use latchwork_harness::{AppError, Cores, Course, Limit, RunCluster, stop};
use latchwork_report::histogram::Latencies;
use latchwork_report::result::ResultPhase;
use latchwork_workload::spatial::SpatialKind;

use super::BenchSettings;
use super::check::{judge, scan};
use super::client::{self, Done, Run};
use crate::outcome::Measured;
use crate::session::Session;

/// Time between the start of a run of several processes and its begin, so that all workers are
/// ready.
const LEAD_TIME: Duration = Duration::from_millis(20);

/// Runs the benchmark on a loaded tree, and checks the tree.
pub(crate) fn bench(
    settings: &BenchSettings,
    session: &Arc<Session>,
    cluster: &RunCluster,
    name: &str,
) -> Result<Measured<SpatialKind>, AppError> {
    let workers = session.workers();
    let plan = settings.plan(cluster);
    let now = cluster.now_of_all()?;
    // All processes begin together.
    let begin = if cluster.process().1 > 1 { now + LEAD_TIME } else { now };
    let course = Course::new(plan, cluster.nodes(), workers, cluster.loop_time(), begin);
    let clients = (workers * session.cluster.inflight) as u64;
    let run = Arc::new(Run {
        session: session.clone(),
        objects: settings.objects(clients),
        neighbours: settings.neighbours,
        name: name.to_owned(),
        begin,
        course,
    });
    let cores = Cores::before();
    let (done, limit) = {
        let (shared, ending, metered) = (run.clone(), run.clone(), run.clone());
        let _measuring = stop::measuring(move |signal| ending.course.stop(signal));
        let body = cores.around(move |member| client::run(shared.clone(), member));
        let measured = || cluster.run_course(&run.course, body);
        cluster.metered(move |_| metered.course.part(), measured)
    };
    let done: Vec<Option<Done>> = done?;
    let conditions = cores.after(cluster)?;
    let limit = limit.or_else(|| Limit::of_threads(conditions.as_ref(), None));
    // The reason for the failure comes before the report that workers have no results.
    let went = cluster.all_went(run.course.went())?;
    let lost = || AppError::Failed("a worker ended without a result".to_owned());
    let done = done.into_iter().collect::<Option<Vec<Done>>>().ok_or_else(lost)?;
    let scanned = {
        let run = run.clone();
        cluster.try_run(move |member| scan(run.clone(), member))?
    };
    let mut latencies = Latencies::new();
    let mut node_ops = vec![0; session.cluster.compute_nodes];
    for worker in &done {
        latencies.merge(&worker.latencies);
        node_ops[worker.node] += worker.latencies.ok() + worker.latencies.failed();
    }
    let found: u64 = done.iter().map(|worker| worker.found).sum();
    // An operation that began in time may end later, and counts.
    let end = done.iter().map(|worker| worker.end).max().unwrap_or(went.end).max(went.end);
    let phase = ResultPhase::new(latencies.ok(), (end - went.from).as_secs_f64());
    let windows = latencies.measured().into_iter().find(|kind| kind.name == "WINDOW");
    let windows = windows.map_or(0, |kind| kind.ok).max(1);
    let measures = vec![("found_per_window", found as f64 / windows as f64)];
    Ok(Measured {
        phase,
        latencies,
        counters: went.counters,
        limit,
        conditions,
        node_ops,
        measures,
        checks: judge(&done, &scanned),
    })
}
