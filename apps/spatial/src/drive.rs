//! The phases of a run, one after the other on the same cluster.

use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_harness::outcome::{RunCheck, WorldEnd, say_folded};
use latchwork_harness::progress::{Extent, Title};
use latchwork_harness::{AppError, ClusterFlags, PhaseProgress, RunCluster, stop};
use latchwork_report::histogram::Latencies;
use latchwork_report::result::ResultPhase;
use latchwork_rtree::{Packing, RTreeStatistics};
use latchwork_runtime::{Clock, Time};
use latchwork_workload::spatial::ObjectStream;
use serde::{Deserialize, Serialize};

use crate::args::{LoadBy, QueryKind};
use crate::bench::{self, BenchSettings};
use crate::file::DataFile;
use crate::geometry::Area;
use crate::index::{self, Contents, Levels, Loader};
use crate::outcome::{self, Figures, Measured, Outcome};
use crate::query::{self, Answers, Ask, Asked, Kind, Query};
use crate::session::Session;
use crate::settings::{Settings, Task};

const LOAD: Title = Title { name: "load", what: "entries" };
const ASK: Title = Title { name: "query", what: "questions" };

/// A cluster and its session.
struct Driver {
    settings: Arc<Settings>,
    session: Arc<Session>,
    cluster: RunCluster,
}

/// What the first worker sees of the tree at the end.
#[derive(Clone, Default, Serialize, Deserialize)]
struct TreeEnd {
    entries: u64,
    pages_per_level: Vec<u64>,
    unposted_pages: u64,
    dead_pages: u64,
    error: Option<String>,
}

/// Runs all phases with the settings.
pub(crate) fn drive(mut settings: Settings) -> Result<Outcome, AppError> {
    let clock = Clock::start();
    let cluster = RunCluster::start(settings.cluster.clone(), &settings.fabric)?;
    // The size of the memory nodes of other processes is known now.
    settings.cluster = cluster.config().clone();
    let session = Session::new(&cluster, &settings.fabric, settings.task.entries());
    let driver = Driver { settings: Arc::new(settings), session: Arc::new(session), cluster };
    let outcome = driver.phases(clock);
    driver.cluster.end(outcome)
}

impl Driver {
    /// All phases, and their outcome.
    fn phases(&self, clock: Clock) -> Result<Outcome, AppError> {
        let (settings, cluster) = (&self.settings, &self.cluster);
        cluster.agree("spatial", settings.describe())?;
        if cluster.is_first() {
            say_folded(&self.headline());
        }
        let name = cluster.name("spatial");
        let load = match &settings.task {
            Task::Load { data, .. } => self.load(&name, rows(data))?,
            Task::Query(query) => self.load(&name, rows(&query.data))?,
            Task::Bench(bench) => self.load(&name, self.objects(bench))?,
        };
        let mut outcome = Outcome {
            settings: settings.clone(),
            load,
            run: None,
            counters: cluster.counters()?,
            tree: RTreeStatistics::default(),
            levels: None,
            answers: Vec::new(),
            checks: Vec::new(),
            world: None,
            is_told_here: cluster.is_first(),
        };
        let mut expected = outcome.load.ops;
        let measured = match &settings.task {
            Task::Load { .. } => None,
            Task::Query(query) => {
                let (measured, answers) = self.query(query, &name)?;
                outcome.answers = answers;
                Some(Figures::of(measured))
            }
            Task::Bench(settings) => {
                let measured = bench::bench(settings, &self.session, cluster, &name)?;
                expected = u64::MAX;
                Some(Figures::of(measured))
            }
        };
        if let Some((figures, checks)) = measured {
            outcome.counters.clone_from(&figures.counters);
            outcome.run = Some(figures);
            outcome.checks = checks;
        }
        let (tree, check, levels) = self.tree(&name, expected)?;
        outcome.tree = tree;
        outcome.checks.push(check);
        outcome.levels = levels;
        outcome.world = WorldEnd::of(cluster, clock.now() - Time::ZERO);
        Ok(outcome)
    }

    fn headline(&self) -> String {
        let Settings { task, cluster, fabric, .. } = &*self.settings;
        let what = match task {
            Task::Load { data, .. } => format!("{} rows", data.rows.len()),
            Task::Query(query) => format!("{}, {} rows", query.kind.name(), query.data.rows.len()),
            Task::Bench(bench) => bench.in_words(),
        };
        let nic = fabric.nic().map_or(String::new(), |nic| format!(" ({nic})"));
        let (command, fabric) = (task.name(), fabric.name());
        let cluster = ClusterFlags::in_words(cluster);
        format!("spatial {command} on {fabric}{nic}: {what}; {cluster}")
    }

    fn phase(&self) -> Arc<PhaseProgress> {
        Arc::new(PhaseProgress::new(self.session.workers()))
    }

    /// Loads entries into the tree of this name.
    fn load(&self, name: &str, entries: Vec<(u64, Area)>) -> Result<ResultPhase, AppError> {
        let phase = self.phase();
        let (count, begin) = (entries.len() as u64, self.cluster.now());
        let loader = Arc::new(Loader {
            session: self.session.clone(),
            phase: phase.clone(),
            name: name.to_owned(),
        });
        let (extent, entries) = (Extent::Operations(count), Arc::new(entries));
        let workers = self.session.workers();
        let ends: Vec<Time> = match self.settings.load_by {
            LoadBy::Bulk | LoadBy::Hilbert => {
                let packing = match self.settings.load_by {
                    LoadBy::Hilbert => Packing::Hilbert,
                    _ => Packing::SortTileRecursive,
                };
                self.cluster.run_phase(LOAD, extent, &phase, move |member: Member| {
                    let (loader, entries) = (loader.clone(), entries.clone());
                    async move {
                        index::bulk(loader, entries.iter().copied(), packing, member).await
                    }
                })
            }
            LoadBy::Inserts => {
                self.cluster.run_phase(LOAD, extent, &phase, move |member: Member| {
                    let share = entries.iter().copied().skip(member.index).step_by(workers);
                    index::inserts(loader.clone(), share.collect(), member)
                })
            }
        }?;
        stop::check()?;
        let end = ends.into_iter().max().unwrap_or(begin).max(begin);
        Ok(ResultPhase::new(count, (end - begin).as_secs_f64()))
    }

    /// The objects of all clients before the run.
    fn objects(&self, bench: &BenchSettings) -> Vec<(u64, Area)> {
        let clients = (self.session.workers() * self.session.cluster.inflight) as u64;
        let config = bench.objects(clients);
        let streams = (0..clients).map(|client| ObjectStream::new(&config, client));
        let objects = streams.flat_map(|stream| stream.objects().collect::<Vec<_>>());
        objects.map(|(id, object)| (id, bench::area(object))).collect()
    }

    fn query(
        &self,
        query: &Arc<Query>,
        name: &str,
    ) -> Result<(Measured<Kind>, Vec<query::Answer>), AppError> {
        let (session, cluster) = (&self.session, &self.cluster);
        let other_name = cluster.name("spatial-other");
        if query.kind == QueryKind::Join {
            self.load(&other_name, query.other.as_ref().map(rows).unwrap_or_default())?;
        }
        let before = cluster.counters()?;
        let (phase, answers) = (self.phase(), Arc::new(Answers::default()));
        let questions = match query.kind {
            QueryKind::Join => session.workers(),
            _ => query.places().len(),
        };
        let ask = Arc::new(Ask {
            session: session.clone(),
            phase: phase.clone(),
            query: query.clone(),
            answers: answers.clone(),
            names: [name.to_owned(), other_name],
        });
        let begin = cluster.now();
        let extent = Extent::Operations(questions as u64);
        let asked: Vec<Asked> = cluster.run_phase(ASK, extent, &phase, move |member| {
            let ask = ask.clone();
            async move { query::ask(ask, member).await }
        })?;
        let counters = cluster.counters()?.into_iter().zip(before);
        let counters = counters.map(|(after, before)| after - before).collect();
        let answers = answers.gather(cluster)?;
        let (mut latencies, mut contents) = (Latencies::new(), Contents::default());
        let mut end = begin;
        for worker in asked {
            latencies.merge(&worker.latencies);
            contents.merge(worker.contents);
            end = end.max(worker.end);
        }
        let mut checks = vec![outcome::contents(&contents)];
        if query.check {
            checks.push(compare(query, &answers));
        }
        let phase = ResultPhase::new(latencies.ok(), (end - begin).as_secs_f64());
        let (limit, conditions, node_ops, measures) = Default::default();
        let measured =
            Measured { phase, latencies, counters, limit, conditions, node_ops, measures, checks };
        Ok((measured, answers))
    }

    /// Walks the whole tree, and checks it. `expected` is the number of entries, if it is known.
    fn tree(
        &self,
        name: &str,
        expected: u64,
    ) -> Result<(RTreeStatistics, RunCheck, Option<Levels>), AppError> {
        let draws = self.settings.svg.is_some() && self.cluster.is_first();
        let ends: Vec<(TreeEnd, Option<Levels>)> = {
            let (session, name) = (self.session.clone(), name.to_owned());
            self.cluster.try_run(move |member| {
                let (session, name) = (session.clone(), name.clone());
                async move { look(&session, &name, draws, member).await }
            })?
        };
        let mut ends = ends.into_iter();
        let (end, levels) = ends.next().ok_or_else(lost)?;
        let tree = RTreeStatistics {
            entries: end.entries,
            pages_per_level: end.pages_per_level,
            unposted_pages: end.unposted_pages,
            dead_pages: end.dead_pages,
            ..RTreeStatistics::default()
        };
        let check = match end.error {
            Some(error) => RunCheck::new("tree", false, error),
            None => {
                let is_whole = expected == u64::MAX || expected == tree.entries;
                let detail = match is_whole {
                    true => {
                        format!("{} entries in {} pages, all in order", tree.entries, tree.pages())
                    }
                    false => format!("{} entries where {expected} belong", tree.entries),
                };
                RunCheck::new("tree", is_whole, detail)
            }
        };
        Ok((tree, check, levels))
    }
}

/// The end of the tree, as the first worker sees it.
async fn look(
    session: &Session,
    name: &str,
    draws: bool,
    member: Member,
) -> Result<(TreeEnd, Option<Levels>), AppError> {
    if member.index > 0 {
        return Ok((TreeEnd::default(), None));
    }
    let index = index::open(session, &member, name).await?;
    let end = match index.validate().await {
        Ok(tree) => TreeEnd {
            entries: tree.entries,
            pages_per_level: tree.pages_per_level,
            unposted_pages: tree.unposted_pages,
            dead_pages: tree.dead_pages,
            error: None,
        },
        Err(error) => TreeEnd { error: Some(error.to_string()), ..TreeEnd::default() },
    };
    let levels = match draws && end.error.is_none() {
        true => Some(index::levels(&index).await.map_err(|error| session.tree_error(&error))?),
        false => None,
    };
    Ok((end, levels))
}

/// The entries of a file: the ids are positions.
fn rows(file: &DataFile) -> Vec<(u64, Area)> {
    (0..).zip(file.rows.iter().map(|row| row.area)).collect()
}

/// Compares the answers with those of a scan.
fn compare(query: &Query, answers: &[query::Answer]) -> RunCheck {
    let expected = query::scan(query);
    let first = expected.iter().zip(answers).find(|(one, two)| one != two);
    match first {
        None if expected.len() == answers.len() => RunCheck::new(
            "answers",
            true,
            format!("{} as a scan of the file has them", answers.len()),
        ),
        None => {
            let detail = format!("{}, and a scan has {}", answers.len(), expected.len());
            RunCheck::new("answers", false, detail)
        }
        Some((one, two)) => {
            RunCheck::new("answers", false, format!("{two:?}, and a scan has {one:?}"))
        }
    }
}

fn lost() -> AppError {
    AppError::Failed("a worker ended without a result".to_owned())
}
