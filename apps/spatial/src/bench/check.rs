//! What is in the tree at the end of the benchmark.

use std::ops::ControlFlow;
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_harness::outcome::RunCheck;
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_rtree::Entry;
use serde::{Deserialize, Serialize};

use super::client::Done;
use crate::digest;
use crate::geometry::Area;
use crate::index::{self, Contents};
use crate::settings::Settings;

/// The entries that a scan found.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Scanned {
    entries: u64,
    digest: u64,
    contents: Contents,
}

/// Scans the whole tree, on the first worker.
pub(crate) async fn scan(
    settings: Arc<Settings>,
    phase: Arc<PhaseProgress>,
    member: Member,
) -> Result<Scanned, AppError> {
    let mut scanned = Scanned::default();
    if member.index > 0 {
        return Ok(scanned);
    }
    let index = index::open(&settings, &member, &settings.trees[0]).await?;
    let visit = |entry: Entry<'_, 2>| {
        scanned.entries += 1;
        scanned.digest = scanned.digest.wrapping_add(digest::of_entry(entry.id, &entry.rect));
        scanned.contents.check(&entry.rect, entry.id, entry.payload);
        phase.count(0);
        ControlFlow::Continue(())
    };
    let seen = index.intersecting(&Area::EVERYTHING, visit).await;
    seen.map_err(|error| settings.tree_error(&error))?;
    Ok(scanned)
}

/// Compares the tree with what the clients know of their objects.
pub(crate) fn judge(done: &[Done], scanned: &[Scanned]) -> Vec<RunCheck> {
    let failed: u64 = done.iter().map(|done| done.latencies.failed()).sum();
    let detail = match failed {
        0 => "every operation did what it should".to_owned(),
        failed => format!("{failed} operations failed"),
    };
    let operations = RunCheck::new("operations", failed == 0, detail);
    let objects: u64 = done.iter().map(|done| done.objects.0).sum();
    let sum = |digests: &mut dyn Iterator<Item = u64>| digests.fold(0, u64::wrapping_add);
    let expected = sum(&mut done.iter().map(|done| done.objects.1));
    let entries: u64 = scanned.iter().map(|one| one.entries).sum();
    let found = sum(&mut scanned.iter().map(|one| one.digest));
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

    fn done(objects: (u64, u64)) -> Done {
        let (latencies, contents) = (Latencies::new(), Contents::default());
        Done { node: 0, latencies, contents, found: 0, objects, end: Time::ZERO }
    }

    fn failed(done: &[Done], scanned: Scanned) -> Vec<&'static str> {
        let checks = judge(done, &[scanned]).into_iter();
        checks.filter(|check| !check.is_good()).map(|check| check.name).collect()
    }

    #[test]
    fn each_fault_fails_its_check() {
        let scanned = |entries, digest| Scanned { entries, digest, ..Scanned::default() };
        let clients = [done((3, 70)), done((2, 7))];
        assert!(failed(&clients, scanned(5, 77)).is_empty());
        assert_eq!(failed(&clients, scanned(4, 77)), ["objects"]);
        assert_eq!(failed(&clients, scanned(5, 78)), ["objects"]);
        let mut lost = done((5, 77));
        lost.latencies.record_failure(SpatialKind::Move, OperationFailure::NotFound);
        assert_eq!(failed(&[lost], scanned(5, 77)), ["operations"]);
        let mut torn = scanned(5, 77);
        let point = Area::point([1.0, 2.0]).expect("a point");
        torn.contents.check(&point, 1, &[0; 8]);
        assert_eq!(failed(&clients, torn), ["contents"]);
    }
}
