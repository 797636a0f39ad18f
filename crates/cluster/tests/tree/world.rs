//! Whole runs: build a cluster, work, inspect, judge. Whatever is wrong panics, with the shape.

use std::sync::Arc;
use std::time::Duration;

use latchwork_blink::{TreeError, TreeStatistics};
use latchwork_cluster::{ClusterConfig, Embedded, Simulated};
use latchwork_selcc::Node;
use latchwork_workload::history::check_object;

use crate::common::invariants::{check_at_rest, check_step};
use crate::content::TreeKey;
use crate::record::Calls;
use crate::shape::Shape;
use crate::work::{Inspection, Mistake, inspect, work};

const LIMIT: Duration = Duration::from_secs(30);

/// What a world was like.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) event_hash: u64,
    pub(crate) statistics: TreeStatistics,
}

pub(crate) fn simulate(shape: Shape) -> Report {
    simulate_with(shape, Mistake::None, |_| {})
}

/// One simulated world; `change` has a last word about its configuration.
pub(crate) fn simulate_with(
    shape: Shape,
    mistake: Mistake,
    change: impl FnOnce(&mut ClusterConfig),
) -> Report {
    let mut config = shape.config();
    change(&mut config);
    let cluster = Simulated::start(config, shape.network()).expect("a good configuration");
    let wrong = |error| panic!("{shape:?}: {error}");
    let worked = cluster
        .run_watched(
            LIMIT,
            move |member| work(member, shape, mistake, |_| {}),
            |cluster| check_step(cluster, shape.seed),
        )
        .unwrap_or_else(wrong);
    let wrong = |error| panic!("{shape:?}: {error}");
    let seen = cluster.run_on(1, LIMIT, move |member| inspect(member, shape)).unwrap_or_else(wrong);
    let statistics = judge(shape, worked, seen);
    cluster.settle(Duration::from_millis(50));
    check_at_rest(&cluster, shape.seed);
    check_lines(shape, cluster.nodes(), &statistics);
    Report { event_hash: cluster.kernel().event_hash(), statistics }
}

/// One cluster of threads; `progress` is told of every worker's every operation.
pub(crate) fn on_threads(
    shape: Shape,
    progress: impl Fn(usize) + Clone + Sync + 'static,
) -> TreeStatistics {
    let cluster = Embedded::start(shape.config()).expect("a good configuration");
    let worked = cluster
        .run(|member| work(member, shape, Mistake::None, progress.clone()))
        .unwrap_or_else(|error| panic!("{shape:?}: {error}"));
    let seen = cluster
        .run_on(1, |member| inspect(member, shape))
        .unwrap_or_else(|error| panic!("{shape:?}: {error}"));
    let statistics = judge(shape, worked, seen);
    check_lines(shape, cluster.nodes(), &statistics);
    statistics
}

/// Whether one order explains all that was seen, key by key, and whether all nodes see the same
/// tree in the end.
fn judge(
    shape: Shape,
    worked: Vec<Result<Calls, TreeError>>,
    seen: Vec<Result<Inspection, TreeError>>,
) -> TreeStatistics {
    let mut calls = Calls::new();
    for worker in worked {
        calls.merge(worker.unwrap_or_else(|error| panic!("{shape:?}: {error}")));
    }
    let seen: Vec<_> = seen
        .into_iter()
        .map(|node| node.unwrap_or_else(|error| panic!("{shape:?}: {error}")))
        .collect();
    let statistics = seen[0].statistics.clone().expect("the first node validates");
    assert_eq!(statistics.entries, seen[0].entries.len() as u64, "{shape:?}");
    for node in &seen {
        assert_eq!(node.entries, seen[0].entries, "{shape:?}: nodes see different trees");
        calls.merge(node.calls.clone());
    }
    let explained = calls.check(|calls| {
        check_object(&TreeKey, None, calls).map_err(|violation| {
            let mut calls: Vec<_> = calls.iter().collect();
            calls.sort_by_key(|call| call.invoked);
            let lines: Vec<_> = calls.iter().map(|call| format!("{call:?}")).collect();
            format!("{violation}\n{}", lines.join("\n"))
        })
    });
    if let Err((key, violation)) = explained {
        panic!("{shape:?}: key {key}: {violation}");
    }
    statistics
}

/// The tree's pages are all the lines that the nodes have in use: none was lost.
pub(crate) fn check_lines(shape: Shape, nodes: &[Arc<Node>], statistics: &TreeStatistics) {
    let in_use: u64 = nodes.iter().map(|node| lines_in_use(node)).sum();
    assert_eq!(in_use, statistics.pages(), "{shape:?}: lines in use, and pages");
}

fn lines_in_use(node: &Node) -> u64 {
    let lines = node.allocator();
    let chunk = u64::from(lines.pool().geometry().lines_per_chunk());
    let taken = lines.chunks_taken().expect("a node at rest") * chunk;
    taken - (lines.available() + lines.resting()) as u64
}
