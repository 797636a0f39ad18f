//! The settings of a run, checked before any process or thread starts. The files of data are read
//! here, too.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use latchwork_cluster::ClusterConfig;
use latchwork_coherence::MemoryError;
use latchwork_files::Output;
use latchwork_harness::driver::{Common, MemoryNeed, bytes_of_memory_node, described};
use latchwork_harness::{AppError, output};
use latchwork_rtree::RTreeError;
use serde_json::{Value, json};

use crate::args::{
    Cli, Columns, Command, CommonFlags, DataFlags, LoadBy, LoadFlags, QueryFlags, QueryKind,
};
use crate::bench::BenchSettings;
use crate::file::{ColumnNames, DataFile};
use crate::geometry::{Area, Space};
use crate::picture::Caption;
use crate::query::{Query, Question};

/// Workers of each node of a simulated network. The number is fixed, so that the machine's cores do
/// not change the figures.
const THREADS_SIMULATED: usize = 2;

/// Bytes of an entry in a page, with its id, its payload and its share of inner pages.
const ENTRY_BYTES: u64 = 52;
/// Bytes of an entry's box and id.
const ENTRY_BYTES_MIN: u64 = 40;
/// Bytes of an entry while all entries are sorted for a bulk load.
const BULK_BYTES: u64 = 160;

/// Flags for less memory.
const LESS: &str = "fewer entries, fewer --operations or a shorter --time";

/// All settings of a run.
pub(crate) struct Settings {
    pub(crate) common: Common,
    /// The tree's name in the catalogue, and that of the second file of a query, once the cluster
    /// has started.
    pub(crate) trees: [String; 2],
    pub(crate) load_by: LoadBy,
    pub(crate) task: Task,
    pub(crate) svg: Option<Output>,
}

/// What to do.
pub(crate) enum Task {
    Load { data: DataFile, space: Space },
    Query(Arc<Query>),
    Bench(BenchSettings),
}

impl Task {
    /// The name of the command.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Task::Load { .. } => "load",
            Task::Query(_) => "query",
            Task::Bench(_) => "bench",
        }
    }

    /// The number of entries that are loaded.
    fn loaded(&self) -> u64 {
        match self {
            Task::Bench(bench) => bench.entries(),
            Task::Load { .. } | Task::Query(_) => self.entries(),
        }
    }

    /// The number of entries that all trees need room for.
    pub(crate) fn entries(&self) -> u64 {
        match self {
            Task::Load { data, .. } => data.rows.len() as u64,
            Task::Query(query) => {
                let other = query.other.as_ref().map_or(0, |other| other.rows.len());
                (query.data.rows.len() + other) as u64
            }
            Task::Bench(bench) => bench.entries_max(),
        }
    }
}

impl Settings {
    /// Combines the flags, and reads the files.
    ///
    /// # Errors
    /// One line about the first impossible setting, with valid values; what is wrong with a file.
    pub(crate) fn new(cli: Cli) -> Result<Settings, AppError> {
        let Cli { command, flags } = cli;
        let mut common = flags.common.common()?;
        let is_load = matches!(command, Command::Load(_));
        let load_by = if is_load { LoadBy::Inserts } else { LoadBy::Bulk };
        let load_by = flags.load_by.unwrap_or(load_by);
        let (task, svg) = match command {
            Command::Load(load) => (read_load(&load)?, load.svg),
            Command::Query(query) => {
                (Task::Query(Arc::new(read_query(&query, &flags)?)), query.svg)
            }
            Command::Bench(bench) => {
                let settings = BenchSettings::new(&bench, &flags, common.is_simulated())?;
                (Task::Bench(settings), bench.svg)
            }
        };
        let svg = svg.as_deref().map(|path| output("--svg", path)).transpose()?;
        let threads = flags.common.threads(&common.fabric, THREADS_SIMULATED);
        let line_size = flags.common.cluster.gcl_size;
        let need = memory_need(&task, load_by, line_size);
        flags.common.configure(&mut common, threads, &need)?;
        check_line(&common.cluster)?;
        Ok(Settings { common, trees: Default::default(), load_by, task, svg })
    }

    /// The error that ends a run when a tree fails.
    pub(crate) fn tree_error(&self, error: &RTreeError) -> AppError {
        match error {
            RTreeError::Memory(MemoryError::OutOfMemory(_)) => {
                let cluster = &self.common.cluster;
                let need = memory_need(&self.task, self.load_by, cluster.line_size);
                let enough = bytes_of_memory_node(need.enough, cluster);
                self.common.out_of_memory("", enough.max(2 * cluster.memory_bytes), LESS)
            }
            error => AppError::Failed(format!("the tree failed: {error}")),
        }
    }

    /// What a picture of the tree is about.
    pub(crate) fn caption(&self) -> Caption {
        let (what, space, entries) = match &self.task {
            Task::Load { data, space } => (data.name(), *space, data.noun()),
            Task::Query(query) => (query.data.name(), query.space, query.data.noun()),
            Task::Bench(bench) => (bench.in_words(), Space::Plane, "objects"),
        };
        let how = match &self.task {
            Task::Bench(_) => "at the end".to_owned(),
            _ => format!("loaded by {}", self.load_by.in_words()),
        };
        Caption { title: format!("R-tree of {what}, {how}"), space, entries }
    }

    /// The settings for a result document, which all processes must share.
    pub(crate) fn describe(&self) -> BTreeMap<String, Value> {
        let digest = |file: &DataFile| json!(format!("{:016x}", file.digest()));
        let own = match &self.task {
            Task::Load { data, space } => json!({
                "space": space.name(),
                "rows": data.rows_of_file(),
                "data_digest": digest(data),
            }),
            Task::Query(query) => json!({
                "space": query.space.name(),
                "query": query.kind.name(),
                "count": query.count,
                "rows": query.data.rows_of_file(),
                "data_digest": digest(&query.data),
                "other_rows": query.other.as_ref().map(DataFile::rows_of_file),
                "other_digest": query.other.as_ref().map(digest),
                "within": (query.kind == QueryKind::Join).then_some(query.within),
                "window": match &query.question {
                    Question::Of(area) => {
                        let [[west, south], [east, north]] = [area.low(), area.high()];
                        let sides = [west, south, east, north].map(|side| side.to_string());
                        Some(sides.join(","))
                    }
                    Question::Rows(_) => None,
                },
            }),
            Task::Bench(bench) => bench.describe(),
        };
        let all = json!({"command": self.task.name(), "load_by": self.load_by.name()});
        self.common.describe(all).into_iter().chain(described(own)).collect()
    }
}

/// What so many entries need of memory, in half-full pages at worst.
fn memory_need(task: &Task, load_by: LoadBy, line_size: u32) -> MemoryNeed {
    let (line_size, entries, loaded) = (u64::from(line_size), task.entries(), task.loaded());
    let room = line_size.saturating_sub(256).max(256);
    let lines = entries.saturating_mul(2 * ENTRY_BYTES) / room;
    MemoryNeed {
        what: format!("{loaded} entries"),
        least: loaded.saturating_mul(ENTRY_BYTES_MIN),
        enough: lines.saturating_mul(line_size),
        beside: match load_by {
            LoadBy::Inserts => 0,
            LoadBy::Bulk | LoadBy::Hilbert => loaded.saturating_mul(BULK_BYTES),
        },
        hint: "fewer entries",
    }
}

/// A page has room for entries on a line of any size that the harness allows.
fn check_line(config: &ClusterConfig) -> Result<(), AppError> {
    const LINE_MIN: u32 = 512;
    match config.line_size < LINE_MIN {
        true => {
            Err(AppError::Usage(format!("--gcl-size {}: use {LINE_MIN} or more", config.line_size)))
        }
        false => Ok(()),
    }
}

/// The names of columns that flags give.
fn names(
    [longitude, latitude, label]: [&Option<Columns>; 3],
    flags: [&'static str; 3],
) -> ColumnNames {
    let of = |columns: &Option<Columns>| columns.as_ref().map(|columns| columns.0.clone());
    ColumnNames { longitude: of(longitude), latitude: of(latitude), label: of(label), flags }
}

fn data_names(data: &DataFlags) -> ColumnNames {
    let flags = ["--longitude", "--latitude", "--label"];
    names([&data.longitude, &data.latitude, &data.label], flags)
}

fn other_names(flags: &CommonFlags) -> ColumnNames {
    let of = [&flags.other_longitude, &flags.other_latitude, &flags.other_label];
    let told = ["--set other-longitude", "--set other-latitude", "--set other-label"];
    names(of, told)
}

/// Files of a bounded number of rows, because queries number rows by 32 bits on the wire.
fn read(path: &Path, names: &ColumnNames, space: Space) -> Result<DataFile, AppError> {
    let file = DataFile::read(path, names, space)?;
    match file.rows.is_empty() {
        true => {
            let columns = file.columns.concat().join(", ");
            let rows = file.rows_of_file();
            Err(AppError::Usage(format!(
                "{}: none of its {rows} rows has coordinates in the columns {columns}",
                path.display()
            )))
        }
        false => Ok(file),
    }
}

fn read_load(load: &LoadFlags) -> Result<Task, AppError> {
    let space = Space::of(load.data.great_circle);
    Ok(Task::Load { data: read(&load.file, &data_names(&load.data), space)?, space })
}

fn read_query(query: &QueryFlags, flags: &CommonFlags) -> Result<Query, AppError> {
    let space = Space::of(query.columns.great_circle);
    let kind = query.kind;
    let what = query.what.as_deref();
    if kind != QueryKind::Join && query.within.is_some() {
        return Err(AppError::Usage(format!(
            "--within: it is for query join; query {} has no distance",
            kind.name()
        )));
    }
    let question = question(kind, what, space)?;
    let within = query.within.map_or(Ok(0.0), |within| {
        let wrong = |what| AppError::Usage(format!("--within {within}: {what}"));
        within.within(space).map_err(wrong)
    })?;
    let csv = query.csv.as_deref().map(|path| output("--csv", path)).transpose()?;
    let data = read(&query.data, &data_names(&query.columns), space)?;
    let other = match &question {
        Question::Rows(path) => Some(read(path, &other_names(flags), space)?),
        Question::Of(_) => None,
    };
    Ok(Query {
        kind,
        space,
        question,
        data,
        other,
        within,
        count: query.count,
        check: query.check,
        csv,
    })
}

/// What a query asks.
fn question(kind: QueryKind, what: Option<&Path>, space: Space) -> Result<Question, AppError> {
    let usage = |line: String| AppError::Usage(line);
    let text = what.map(|what| what.display().to_string()).unwrap_or_default();
    let given = |numbers: usize| numbers_of(&text).filter(|given| given.len() == numbers);
    match kind {
        QueryKind::Window => {
            let sides = given(4).ok_or_else(|| {
                usage(format!(
                    "query window {text}: give the window as WEST,SOUTH,EAST,NORTH, as in 5.5,45,11,48"
                ))
            })?;
            let window = space.window(sides[0], sides[1], sides[2], sides[3]);
            let hint = match space {
                Space::Plane => "; with --great-circle a window may cross the antimeridian",
                Space::Sphere => "",
            };
            window
                .map(Question::Of)
                .map_err(|wrong| usage(format!("query window {text}: {wrong}{hint}")))
        }
        QueryKind::Point => {
            let at = given(2).ok_or_else(|| {
                usage(format!(
                    "query point {text}: give the point as LONGITUDE,LATITUDE, as in 8.55,47.45"
                ))
            })?;
            point(space, &at)
                .map(Question::Of)
                .map_err(|wrong| usage(format!("query point {text}: {wrong}")))
        }
        QueryKind::Nearest => match (given(2), what) {
            (Some(at), _) => point(space, &at)
                .map(Question::Of)
                .map_err(|wrong| usage(format!("query nearest {text}: {wrong}"))),
            (None, Some(path)) => Ok(Question::Rows(path.to_owned())),
            (None, None) => Err(usage(
                "query nearest: give a point as LONGITUDE,LATITUDE, or a CSV file".to_owned(),
            )),
        },
        QueryKind::Join => {
            let path = what.map(Path::to_owned);
            path.map(Question::Rows)
                .ok_or_else(|| usage("query join: give a second CSV file".to_owned()))
        }
    }
}

fn point(space: Space, at: &[f64]) -> Result<Area, crate::geometry::BadCorner> {
    let corner = [at[0], at[1]];
    space.boxed([corner, corner])
}

/// The numbers of a list with commas.
fn numbers_of(text: &str) -> Option<Vec<f64>> {
    text.split(',').map(|number| number.trim().parse().ok()).collect()
}
