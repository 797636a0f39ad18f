//! One worker's part of the benchmark: several clients, each with one operation at a time.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_harness::driver::{MeasuredRun, tasks};
use latchwork_harness::{AppError, Course, RunPart, Share};
use latchwork_report::histogram::{Latencies, OperationFailure};
use latchwork_rtree::{Entry, RTreeError, Rect};
use latchwork_runtime::{Handle, Time};
use latchwork_workload::spatial::{
    ObjectBox, ObjectConfig, ObjectStream, SpatialKind, SpatialOperation,
};
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::geometry::Area;
use crate::index::{self, Contents, Index};
use crate::settings::Settings;

/// The shared state of all workers.
pub(crate) struct Run {
    pub(crate) settings: Arc<Settings>,
    pub(crate) objects: ObjectConfig,
    pub(crate) neighbours: usize,
    /// No operation begins before this time.
    pub(crate) begin: Time,
    pub(crate) course: Course,
}

/// The results of one worker.
#[derive(Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) node: usize,
    /// Latencies in the measured part.
    pub(crate) latencies: Latencies<SpatialKind>,
    pub(crate) contents: Contents,
    /// Entries in the answers of measured windows.
    pub(crate) found: u64,
    /// The objects at the end: their number, and the sum of their hashes.
    pub(crate) objects: (u64, u64),
    /// The end of the worker's last measured operation.
    pub(crate) end: Time,
}

/// The end of an operation.
struct Ended {
    /// Whether the operation did what it should.
    is_good: bool,
    /// The entries of a window.
    found: u64,
}

/// A running worker.
struct Runner {
    run: Arc<Run>,
    index: Index,
    handle: Handle,
    share: Share,
    done: RefCell<Done>,
}

/// The box of an object.
pub(crate) fn area([low, high]: ObjectBox) -> Area {
    // Objects have finite corners in order. A box of rounded sides could only be a point.
    Rect::new(low, high).or_else(|_| Rect::point(low)).unwrap_or(Area::EVERYTHING)
}

impl MeasuredRun for Run {
    fn course(&self) -> Option<&Course> {
        Some(&self.course)
    }
}

/// Runs one worker.
pub(crate) async fn run(run: Arc<Run>, member: Member) -> Result<Done, AppError> {
    let index = index::open(&run.settings, &member, &run.settings.trees[0]).await?;
    let inflight = run.settings.common.cluster.inflight;
    let runner = Rc::new(Runner {
        handle: member.handle.clone(),
        share: Share::default(),
        done: RefCell::new(Done {
            node: member.node,
            latencies: Latencies::new(),
            contents: Contents::default(),
            found: 0,
            objects: (0, 0),
            end: run.begin,
        }),
        index,
        run,
    });
    if runner.run.begin > member.handle.now() {
        member.handle.sleep_until(runner.run.begin).await;
    }
    let first = member.index * inflight;
    let clients = first..first + inflight;
    let client = |runner: Rc<Runner>, client| runner.client(client as u64);
    let runner = tasks(&member.handle, runner, clients, client).await?;
    let released = runner.index.release_spares().await;
    released.map_err(|error| runner.run.settings.tree_error(&error))?;
    Ok(runner.done.into_inner())
}

impl Runner {
    async fn client(self: Rc<Self>, client: u64) {
        let mut stream = ObjectStream::new(&self.run.objects, client);
        let mut begin = self.handle.now();
        loop {
            // Other tasks run in between, even if all accesses hit. In virtual time an operation
            // does not take effect before its time.
            self.handle.coop().await;
            self.handle.catch_up().await;
            let Some(part) = self.run.course.next(&self.share, begin) else { break };
            let operation = stream.draw();
            let ended = self.execute(&operation).await;
            let end = self.handle.now();
            match ended {
                Ok(ended) => self.note(part, operation.kind(), ended, (begin, end)),
                Err(error) => {
                    let error = self.run.settings.tree_error(&error);
                    return self.run.course.fail(error.to_string());
                }
            }
            // One clock reading is both the end of this operation and the begin of the next.
            begin = end;
        }
        let mut done = self.done.borrow_mut();
        for (id, object) in stream.objects() {
            done.objects.0 += 1;
            done.objects.1 = done.objects.1.wrapping_add(digest::of_entry(id, &area(object)));
        }
    }

    async fn execute(&self, operation: &SpatialOperation) -> Result<Ended, RTreeError> {
        let index = &self.index;
        match *operation {
            SpatialOperation::Insert { id, area: object } => {
                let area = area(object);
                index.insert(&area, id, &digest::payload(id, &area)).await?;
                Ok(Ended { is_good: true, found: 0 })
            }
            SpatialOperation::Move { id, from, to } => {
                let (from, to) = (area(from), area(to));
                let is_good = index.update(&from, id, &to, &digest::payload(id, &to)).await?;
                Ok(Ended { is_good, found: 0 })
            }
            SpatialOperation::Window { area: window } => {
                let (mut contents, mut found) = (Contents::default(), 0);
                let visit = |entry: Entry<'_, 2>| {
                    contents.check(&entry.rect, entry.id, entry.payload);
                    found += 1;
                    ControlFlow::Continue(())
                };
                index.intersecting(&area(window), visit).await?;
                self.done.borrow_mut().contents.merge(contents);
                Ok(Ended { is_good: true, found })
            }
            SpatialOperation::Nearest { point } => {
                let near = index.nearest(point, self.run.neighbours).await?;
                let mut contents = Contents::default();
                near.iter().for_each(|one| contents.check(&one.rect, one.id, &one.payload));
                self.done.borrow_mut().contents.merge(contents);
                let is_sorted = near.is_sorted_by_key(|one| one.distance_squared);
                let is_good = is_sorted && near.len() <= self.run.neighbours;
                Ok(Ended { is_good, found: 0 })
            }
        }
    }

    fn note(&self, part: RunPart, kind: SpatialKind, ended: Ended, (begin, end): (Time, Time)) {
        let mut done = self.done.borrow_mut();
        match (ended.is_good, part) {
            (true, RunPart::WarmUp) => return,
            (true, RunPart::Measured) => {
                done.latencies.record(kind, end - begin, None);
                done.found += ended.found;
            }
            (false, _) => done.latencies.record_failure(kind, OperationFailure::NotFound),
        }
        done.end = done.end.max(end);
    }
}
