//! One worker's part of a query.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_coherence::CoherentMemory as _;
use latchwork_harness::driver::tasks;
use latchwork_harness::{AppError, LoopTime, PhaseProgress};
use latchwork_report::histogram::Latencies;
use latchwork_rtree::RTreeError;
use latchwork_runtime::{Handle, Time};
use serde::{Deserialize, Serialize};

use super::answers::{ANSWERS_MAX, Answer, Answers};
use super::question::{Kind, Query};
use crate::args::QueryKind;
use crate::geometry::Area;
use crate::index::{self, Contents, Index, Pair, Pairs};
use crate::settings::Settings;

/// What workers need to answer.
pub(crate) struct Ask {
    pub(crate) settings: Arc<Settings>,
    pub(crate) query: Arc<Query>,
    pub(crate) answers: Answers,
    pub(crate) time: LoopTime,
}

/// What one worker did.
#[derive(Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) latencies: Latencies<Kind>,
    pub(crate) contents: Contents,
    pub(crate) end: Time,
}

/// The tasks of a worker, which take its questions in turn.
struct Asker {
    ask: Arc<Ask>,
    phase: Arc<PhaseProgress>,
    index: Index,
    handle: Handle,
    places: Vec<Area>,
    /// The number of the next question, the worker, and the number of workers.
    next: Cell<usize>,
    member: usize,
    workers: usize,
    asked: RefCell<Asked>,
}

/// Answers one worker's share of the questions, by its place among those that answer.
pub(crate) async fn ask(
    ask: Arc<Ask>,
    phase: Arc<PhaseProgress>,
    (first, workers): (usize, usize),
    member: Member,
) -> Result<Asked, AppError> {
    let Ask { settings, query, .. } = &*ask;
    let [name, other] = &settings.trees;
    let index = index::open(settings, &member, name).await?;
    let handle = member.handle.clone();
    let asked =
        Asked { latencies: Latencies::new(), contents: Contents::default(), end: handle.now() };
    if query.kind == QueryKind::Join {
        let other = index::open(settings, &member, other).await?;
        return join(&ask, &phase, (&index, &other), (first, workers), asked).await;
    }
    let inflight = settings.common.cluster.inflight;
    let asker = Rc::new(Asker {
        places: query.places(),
        next: Cell::new(first),
        member: member.index,
        workers,
        asked: RefCell::new(asked),
        handle: handle.clone(),
        index,
        phase,
        ask,
    });
    let asker = tasks(&handle, asker, 0..inflight, |asker, _| asker.work()).await?;
    Ok(asker.asked.into_inner())
}

impl Asker {
    async fn work(self: Rc<Self>) {
        let (phase, settings) = (&self.phase, &self.ask.settings);
        let mut begin = self.handle.now();
        while !phase.stopped() {
            let number = self.next.get();
            let Some(place) = self.places.get(number) else { return };
            self.next.set(number + self.workers);
            let (found, contents) = match self.one(place).await {
                Ok(seen) => seen,
                Err(error) => return phase.fail(settings.tree_error(&error)),
            };
            let end = self.handle.now();
            let query = number as u64;
            let answers = found.into_iter();
            let answers = answers.map(|one| Answer { query, id: one.id, distance: one.distance });
            if !self.ask.answers.add(answers) {
                return phase.fail(too_many());
            }
            {
                let mut asked = self.asked.borrow_mut();
                asked.latencies.record(Kind(self.ask.query.kind), end - begin, None);
                asked.contents.merge(contents);
                asked.end = asked.end.max(end);
            }
            phase.count(self.member);
            begin = end;
            self.ask.time.end_operation(&self.handle, phase, end).await;
        }
    }

    async fn one(&self, place: &Area) -> Result<index::Seen, RTreeError> {
        let Query { kind, space, count, .. } = &*self.ask.query;
        match kind {
            QueryKind::Nearest => index::nearest(&self.index, *space, place, *count).await,
            _ => index::window(&self.index, *space, place).await,
        }
    }
}

async fn join(
    ask: &Ask,
    phase: &PhaseProgress,
    (left, right): (&Index, &Index),
    share: (usize, usize),
    mut asked: Asked,
) -> Result<Asked, AppError> {
    let query = &ask.query;
    let begin = asked.end;
    let pairs = Pairs { space: query.space, within: query.within, left, right, share };
    let mut some = Vec::new();
    let mut has_room = true;
    let mut take = |pair: Pair| {
        some.push(Answer { query: pair.right, id: pair.left, distance: pair.distance });
        if some.len() >= 4096 {
            has_room &= ask.answers.add(some.drain(..));
        }
        has_room && !phase.stopped()
    };
    let seen = pairs.visit(&mut take).await;
    asked.contents = seen.map_err(|error| ask.settings.tree_error(&error))?;
    if !(ask.answers.add(some) && has_room) {
        return Err(too_many());
    }
    phase.count(share.0);
    let handle = left.memory().handle();
    asked.end = handle.now();
    asked.latencies.record(Kind(QueryKind::Join), asked.end - begin, None);
    Ok(asked)
}

fn too_many() -> AppError {
    AppError::Failed(format!(
        "more than {ANSWERS_MAX} answers; ask for a smaller window, or for fewer or nearer ones"
    ))
}
