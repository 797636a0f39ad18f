//! The phases of a run, one after the other on the same cluster.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_engine::Counters;
use latchwork_files::Output;
use latchwork_harness::driver::{self, Common, Driver, Figures, Outcome};
use latchwork_harness::outcome::{RunCheck, print_result};
use latchwork_harness::progress::{Extent, Title};
use latchwork_harness::{AppError, ClusterFlags, RunCluster, stop, write};
use latchwork_report::histogram::Latencies;
use latchwork_rtree::{Packing, RTreeStatistics};
use latchwork_runtime::Time;
use latchwork_workload::spatial::ObjectStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::{Cli, LoadBy, QueryKind};
use crate::bench::{self, BenchSettings};
use crate::file::DataFile;
use crate::geometry::Area;
use crate::index::{self, CHECK, Contents, Levels, Load};
use crate::outcome::{self, Found};
use crate::picture;
use crate::query::{self, Answers, Ask, Query};
use crate::settings::{Settings, Task};

const LOAD: Title = Title { name: "load", what: "entries" };
const ASK: Title = Title { name: "query", what: "questions" };

/// What the first worker sees of the tree at the end.
#[derive(Clone, Default, Serialize, Deserialize)]
struct TreeEnd {
    entries: u64,
    pages_per_level: Vec<u64>,
    unposted_pages: u64,
    dead_pages: u64,
    error: Option<String>,
}

impl Driver for Settings {
    const NAME: &'static str = "spatial";
    type Cli = Cli;
    type Found = Found;

    fn new(cli: Cli) -> Result<Settings, AppError> {
        Settings::new(cli)
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

    fn join(&mut self, cluster: &RunCluster) -> Result<(), AppError> {
        self.trees = ["spatial", "spatial-other"].map(|name| cluster.name(name));
        Ok(())
    }

    fn headline(&self) -> String {
        let Settings { task, common, .. } = self;
        let (what, warmup) = match task {
            Task::Load { data, .. } => (format!("{} rows", data.rows.len()), String::new()),
            Task::Query(query) => {
                (format!("{}, {} rows", query.kind.name(), query.data.rows.len()), String::new())
            }
            Task::Bench(bench) => {
                (bench.in_words(), format!("; {}", bench.plan().warmup.in_words()))
            }
        };
        let loaded = self.load_by.in_words();
        let nic = common.fabric.nic().map_or(String::new(), |nic| format!(" ({nic})"));
        let (command, fabric) = (task.name(), common.fabric.name());
        let cluster = ClusterFlags::in_words(&common.cluster);
        format!("spatial {command} on {fabric}{nic}: {what}, loaded by {loaded}; {cluster}{warmup}")
    }

    fn phases(
        self: &Arc<Self>,
        cluster: &RunCluster,
        outcome: &mut Outcome,
    ) -> Result<Found, AppError> {
        let entries = match &self.task {
            Task::Load { data, .. } => rows(data),
            Task::Query(query) => rows(&query.data),
            Task::Bench(bench) => self.objects(bench),
        };
        let mut expected = Some(entries.len() as u64);
        outcome.load = Some(self.load(cluster, 0, entries)?);
        outcome.counters = cluster.counters()?;
        let mut answers = Vec::new();
        match &self.task {
            Task::Load { .. } => {}
            Task::Query(query) => answers = self.query(query, cluster, outcome)?,
            Task::Bench(settings) => {
                cluster.outlive()?;
                bench::bench(settings, self, cluster, outcome)?;
                expected = None;
            }
        }
        let (tree, check, levels) = self.tree(cluster, expected)?;
        outcome.checks.push(check);
        let found = Found { tree, levels, answers };
        outcome.measures = outcome::measures(&self.task, outcome, &found);
        Ok(found)
    }

    fn table(&self, outcome: &Outcome, found: &Found, out: &mut dyn Write) -> io::Result<()> {
        outcome::table(&self.task, outcome, found, out)
    }

    /// Writes also the answers and the picture.
    fn report(&self, outcome: &Outcome, found: &Found) -> Result<(), AppError> {
        let (json, svg) = (self.common.json.as_ref(), self.svg.as_ref());
        let query = match &self.task {
            Task::Query(query) => Some(query),
            _ => None,
        };
        let csv = query.and_then(|query| query.csv.as_ref());
        // A document or answers on standard output replace the lines.
        let taken = [json, csv, svg].into_iter().flatten().find(|output| output.is_stdout());
        let table = |out: &mut dyn Write| {
            self.table(outcome, found, out)?;
            outcome.write_deaths(out)
        };
        let mut told = print_result(table, |out| self.lines(outcome, found, out), taken);
        let mut add = |output: Option<&Output>, text: &dyn Fn() -> Option<String>| {
            let text = output.and_then(|output| Some((output, text()?)));
            let written = text.map_or(Ok(()), |(output, text)| write(output, text));
            told = std::mem::replace(&mut told, Ok(())).and(written);
        };
        add(json, &|| Some(driver::document(self, outcome, found).to_json()));
        add(csv, &|| query.map(|query| query::csv(query, &found.answers)));
        let levels = found.levels.as_ref();
        add(svg, &|| levels.map(|levels| picture::draw(&self.caption(), levels)));
        told
    }
}

impl Settings {
    /// The clients of a benchmark.
    pub(crate) fn clients(&self) -> u64 {
        (self.common.workers() * self.common.cluster.inflight) as u64
    }

    /// Loads entries into the tree of this number.
    fn load(
        self: &Arc<Self>,
        cluster: &RunCluster,
        tree: usize,
        entries: Vec<(u64, Area)>,
    ) -> Result<Figures, AppError> {
        let (count, begin) = (entries.len() as u64, cluster.now());
        let (settings, name, extent) =
            (self.clone(), self.trees[tree].clone(), Extent::Operations(count));
        let load = Arc::new(Load { settings, name, entries });
        let time = cluster.loop_time();
        let packing = match self.load_by {
            LoadBy::Bulk => Some(Packing::SortTileRecursive),
            LoadBy::Hilbert => Some(Packing::Hilbert),
            LoadBy::Inserts => None,
        };
        let ends: Vec<Time> = match packing {
            Some(packing) => cluster.phase(LOAD, extent, &load, move |load, phase, member| {
                index::bulk(load, phase, packing, member)
            }),
            None => {
                cluster.phase(LOAD, cluster.part_of(count), &load, move |load, phase, member| {
                    index::inserts(load, phase, time, member)
                })
            }
        }?;
        stop::check()?;
        Ok(Figures::between(count, begin, ends))
    }

    /// The objects of all clients before the run.
    fn objects(&self, bench: &BenchSettings) -> Vec<(u64, Area)> {
        let config = bench.objects(self.clients());
        let streams = (0..self.clients()).map(|client| ObjectStream::new(&config, client));
        let objects = streams.flat_map(|stream| stream.objects().collect::<Vec<_>>());
        objects.map(|(id, object)| (id, bench::area(object))).collect()
    }

    fn query(
        self: &Arc<Self>,
        query: &Arc<Query>,
        cluster: &RunCluster,
        outcome: &mut Outcome,
    ) -> Result<Vec<query::Answer>, AppError> {
        if query.kind == QueryKind::Join {
            self.load(cluster, 1, query.other.as_ref().map(rows).unwrap_or_default())?;
        }
        let before = cluster.counters()?;
        let questions = match query.kind {
            QueryKind::Join => cluster.workers(),
            _ => query.places().len(),
        };
        let (settings, query, time) = (self.clone(), query.clone(), cluster.loop_time());
        let ask = Arc::new(Ask { settings, query, answers: Answers::default(), time });
        cluster.outlive()?;
        let begin = cluster.now();
        let extent = cluster.part_of(questions as u64);
        let (asked, answers) = cluster.with_living(|workers| {
            ask.answers.clear();
            let asked = cluster.phase(ASK, extent, &ask, move |ask, phase, member| {
                query::ask(ask, phase, workers.place(&member), member)
            })?;
            Ok((asked, ask.answers.gather(cluster)?))
        })?;
        // Those of a dead node are 0.
        let counters = cluster.counters()?.into_iter().zip(before);
        outcome.counters = counters
            .map(
                |(after, before)| if after == Counters::default() { after } else { after - before },
            )
            .collect();
        let (mut latencies, mut contents) = (Latencies::new(), Contents::default());
        let ends: Vec<Time> = asked.iter().map(|worker| worker.end).collect();
        for worker in asked {
            latencies.merge(&worker.latencies);
            contents.merge(worker.contents);
        }
        outcome.checks.push(outcome::contents(&contents));
        if ask.query.check {
            outcome.checks.push(compare(&ask.query, &answers));
        }
        let figures = Figures::between(latencies.ok(), begin, ends);
        outcome.run = Some(Figures { latencies: latencies.measured(), ..figures });
        Ok(answers)
    }

    /// Walks the whole tree, and checks it. `expected` is the number of entries, if it is known.
    fn tree(
        self: &Arc<Self>,
        cluster: &RunCluster,
        expected: Option<u64>,
    ) -> Result<(RTreeStatistics, RunCheck, Option<Levels>), AppError> {
        let extent = Extent::Operations(expected.unwrap_or(0));
        let ends = cluster.with_living(|workers| {
            let draws = self.svg.is_some() && cluster.is_first();
            cluster.phase(CHECK, extent, self, move |settings, _, member| {
                look(settings, draws, workers.place(&member).0, member)
            })
        })?;
        let (end, levels) = ends.into_iter().next().ok_or_else(AppError::lost)?;
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
                let is_whole = expected.is_none_or(|expected| expected == tree.entries);
                let detail = match is_whole {
                    true => {
                        format!("{} entries in {} pages, all in order", tree.entries, tree.pages())
                    }
                    false => {
                        let belong = expected.unwrap_or(0);
                        format!("{} entries where {belong} belong", tree.entries)
                    }
                };
                RunCheck::new("tree", is_whole, detail)
            }
        };
        Ok((tree, check, levels))
    }
}

/// The end of the tree, as the first worker sees it.
async fn look(
    settings: Arc<Settings>,
    draws: bool,
    worker: usize,
    member: Member,
) -> Result<(TreeEnd, Option<Levels>), AppError> {
    if worker > 0 {
        return Ok((TreeEnd::default(), None));
    }
    let index = index::open(&settings, &member, &settings.trees[0]).await?;
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
        true => Some(index::levels(&index).await.map_err(|error| settings.tree_error(&error))?),
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
