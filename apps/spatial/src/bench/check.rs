//! What is in the tree at the end of the benchmark.

use std::ops::ControlFlow;
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_harness::outcome::RunCheck;
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_rtree::Entry;
use latchwork_workload::spatial::ObjectStream;
use serde::{Deserialize, Serialize};

use super::client::Done;
use crate::digest;
use crate::geometry::Area;
use crate::index::{self, Contents};
use crate::settings::Settings;

/// The entries that a scan found.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Scanned {
    /// The objects of each compute node: their number, and the sum of their hashes.
    objects: Vec<(u64, u64)>,
    contents: Contents,
}

/// Scans the whole tree, on the first worker.
pub(crate) async fn scan(
    settings: Arc<Settings>,
    phase: Arc<PhaseProgress>,
    worker: usize,
    member: Member,
) -> Result<Scanned, AppError> {
    let nodes = settings.common.cluster.compute_nodes as u64;
    let (mut scanned, clients) = (Scanned::default(), settings.clients());
    scanned.objects.resize(nodes as usize, (0, 0));
    if worker > 0 {
        return Ok(scanned);
    }
    let index = index::open(&settings, &member, &settings.trees[0]).await?;
    let visit = |entry: Entry<'_, 2>| {
        // All nodes have as many clients.
        let node = ObjectStream::client_of(entry.id, clients) * nodes / clients;
        let (entries, digest) = &mut scanned.objects[node as usize];
        *entries += 1;
        *digest = digest.wrapping_add(digest::of_entry(entry.id, &entry.rect));
        scanned.contents.check(&entry.rect, entry.id, entry.payload);
        phase.count(0);
        ControlFlow::Continue(())
    };
    let seen = index.intersecting(&Area::EVERYTHING, visit).await;
    seen.map_err(|error| settings.tree_error(&error))?;
    Ok(scanned)
}

/// Compares the tree with what the clients know of their objects. Those of the `dead` nodes may be
/// in any state.
pub(crate) fn judge(done: &[Done], scanned: &[Scanned], dead: &[usize]) -> Vec<RunCheck> {
    let failed: u64 = done.iter().map(|done| done.latencies.failed()).sum();
    let detail = match failed {
        0 => "every operation did what it should".to_owned(),
        failed => format!("{failed} operations failed"),
    };
    let operations = RunCheck::new("operations", failed == 0, detail);
    let sum = |all: &mut dyn Iterator<Item = (usize, (u64, u64))>| {
        let living = all.filter(|(node, _)| !dead.contains(node));
        living.fold((0, 0u64), |all, (_, one)| (all.0 + one.0, all.1.wrapping_add(one.1)))
    };
    let (objects, expected) = sum(&mut done.iter().map(|done| (done.node, done.objects)));
    let mut of_nodes = scanned.iter().flat_map(|one| one.objects.iter().copied().enumerate());
    let (entries, found) = sum(&mut of_nodes);
    let detail = match (entries == objects, expected == found) {
        (false, _) => format!("{entries} entries, and the clients have {objects} objects"),
        (true, false) => {
            format!("{entries} entries, and not all are where their clients know them")
        }
        (true, true) => format!("{entries} entries, each where its client knows it"),
    };
    let objects = RunCheck::new("objects", entries == objects && expected == found, detail);
    let mut contents = Contents::default();
    let seen = done.iter().map(|done| &done.contents);
    seen.chain(scanned.iter().map(|one| &one.contents)).for_each(|one| contents.merge(one.clone()));
    vec![operations, objects, crate::outcome::contents(&contents)]
}

#[cfg(test)]
mod tests {
    use latchwork_report::histogram::{Latencies, OperationFailure};
    use latchwork_runtime::Time;
    use latchwork_workload::spatial::SpatialKind;

    use super::*;

    fn done(node: usize, objects: (u64, u64)) -> Done {
        let (latencies, contents) = (Latencies::new(), Contents::default());
        Done { node, latencies, contents, found: 0, objects, end: Time::ZERO }
    }

    fn failed(done: &[Done], scanned: Scanned) -> Vec<&'static str> {
        let checks = judge(done, &[scanned], &[]).into_iter();
        checks.filter(|check| !check.is_good()).map(|check| check.name).collect()
    }

    #[test]
    fn each_fault_fails_its_check() {
        let scanned =
            |entries, digest| Scanned { objects: vec![(entries, digest)], ..Scanned::default() };
        let clients = [done(0, (3, 70)), done(1, (2, 7))];
        assert!(failed(&clients, scanned(5, 77)).is_empty());
        assert_eq!(failed(&clients, scanned(4, 77)), ["objects"]);
        assert_eq!(failed(&clients, scanned(5, 78)), ["objects"]);
        let mut lost = done(0, (5, 77));
        lost.latencies.record_failure(SpatialKind::Move, OperationFailure::NotFound);
        assert_eq!(failed(&[lost], scanned(5, 77)), ["operations"]);
        let mut torn = scanned(5, 77);
        let point = Area::point([1.0, 2.0]).expect("a point");
        torn.contents.check(&point, 1, &[0; 8]);
        assert_eq!(failed(&clients, torn), ["contents"]);
    }

    #[test]
    fn objects_of_dead_nodes_may_be_anywhere() {
        let scanned = |of_nodes: &[(u64, u64)]| {
            [Scanned { objects: of_nodes.to_vec(), ..Scanned::default() }]
        };
        let is_good = |scanned: &[Scanned], dead: &[usize]| {
            judge(&[done(0, (3, 70)), done(2, (2, 7))], scanned, dead).iter().all(RunCheck::is_good)
        };
        assert!(is_good(&scanned(&[(3, 70), (9, 5), (2, 7)]), &[1]));
        assert!(is_good(&scanned(&[(3, 70), (9, 5), (1, 6)]), &[1, 2]), "it died later");
        assert!(!is_good(&scanned(&[(3, 70), (9, 5), (2, 7)]), &[]));
        assert!(!is_good(&scanned(&[(2, 70), (9, 5), (2, 7)]), &[1]));
        assert!(!is_good(&scanned(&[(3, 70), (9, 5), (2, 8)]), &[1]));
    }
}
