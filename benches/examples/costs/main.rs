//! The cost of accesses, beside the best that the machine can do, in one run.
//!
//! ```text
//! cargo run --release -p latchwork-benches --example costs
//! cargo run --release -p latchwork-benches --example costs -- --only "tree get, hot" --count 100000
//! ```
//!
//! ```text
//!   limits   loads, copies, a hash map, an atomic, two cores    no code of this project
//!   lines    one node: hits, upgrades, misses                   ┐
//!   nodes    two nodes take a line from each other              ├ Embedded, shared memory
//!   trees    a B-link tree, all cached; an idle second node     ┘
//!      └──►  table: median, least and most, targets
//! ```
//!
//! Each round makes all measurements, in a random order. So a drift of the machine affects all
//! measurements alike.

mod limits;
mod lines;
mod measure;
mod nodes;
mod table;
mod trees;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use latchwork_benches::Draws;
use latchwork_benches::access::LINE;

use measure::{Measure, Sizes, nanos};

/// What an access costs, beside what the machine can do at best.
#[derive(Parser)]
struct Arguments {
    /// Rounds; medians are shown.
    #[arg(long = "repeats", value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Milliseconds of each measurement in each round.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    time_ms: u64,
    /// MiB of lines that are too many for the processor's caches.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(8..=65_536))]
    far_mib: u32,
    /// Keys of the tree that is too large for the processor's caches.
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1000..=1 << 30))]
    far_keys: u64,
    /// Makes only this measurement, once, so often as --count says: for a profiler.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// How often --only does what it measures.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Lists the names of all measurements that work alone under a profiler, and ends.
    #[arg(long)]
    names: bool,
    /// Instructions and misses, as scripts/instructions.sh has written them.
    #[arg(long, value_name = "FILE")]
    instructions: Option<PathBuf>,
    /// Writes the tables into a page that has a place for them.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("costs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let far_lines = (arguments.far_mib as usize * 1024 * 1024) / LINE;
    let once = arguments.only.is_some();
    let sizes = Sizes { far_lines, far_keys: arguments.far_keys, once };
    // Each measurement makes its data at its first use.
    let measures: Vec<Measure> =
        [limits::all(sizes), lines::all(sizes), nodes::all(), trees::all(sizes)]
            .into_iter()
            .flatten()
            .collect();
    if arguments.names {
        measures.iter().filter(|m| m.alone).for_each(|measure| println!("{}", measure.name));
        return Ok(());
    }
    if let Some(name) = &arguments.only {
        let Some(measure) = measures.iter().find(|measure| measure.name == *name) else {
            return Err(format!("there is no measurement \"{name}\"; --names lists them"));
        };
        let time = (measure.time)(arguments.count);
        println!("{name}: {:.1} ns", nanos(time, arguments.count));
        return Ok(());
    }
    let instructions = match &arguments.instructions {
        Some(path) => table::read_instructions(path)?,
        None => Vec::new(),
    };
    // The page is checked before any measurement.
    arguments.markdown.as_deref().map_or(Ok(()), table::check_page)?;
    let samples = measured(&measures, arguments);
    let idle = trees::idle_node(arguments.rounds.max(8) * 3, arguments.time_ms);
    let text = table::tables(&samples, &idle, &instructions, arguments.rounds);
    print!("{text}");
    arguments.markdown.as_deref().map_or(Ok(()), |path| table::write_page(path, &text))
}

/// Nanoseconds of each measurement, for every round.
fn measured(measures: &[Measure], arguments: &Arguments) -> Vec<(String, Vec<f64>)> {
    let wanted = Duration::from_millis(arguments.time_ms);
    // The number of executions that takes about the wanted time. The first executions also make the
    // data and warm them.
    let counts: Vec<u64> = measures.iter().map(|measure| count_for(measure, wanted)).collect();
    let mut samples: Vec<(String, Vec<f64>)> =
        measures.iter().map(|measure| (measure.name.clone(), Vec::new())).collect();
    let mut order: Vec<usize> = (0..measures.len()).collect();
    let mut random = Draws::new(1 << 32, 7);
    for _ in 0..arguments.rounds {
        for i in (1..order.len()).rev() {
            order.swap(i, random.draw() as usize % (i + 1));
        }
        for &i in &order {
            let time = (measures[i].time)(counts[i]);
            samples[i].1.push(nanos(time, counts[i]));
        }
    }
    samples
}

fn count_for(measure: &Measure, wanted: Duration) -> u64 {
    let mut count = 64;
    loop {
        // The smaller of two times counts, because an interruption of this thread would count as
        // work.
        let time = (measure.time)(count).min((measure.time)(count));
        // The time is now long enough to compute the count from it.
        if time * 4 > wanted || count >= 1 << 26 {
            let share = wanted.as_secs_f64() / time.as_secs_f64().max(1e-9);
            return ((count as f64 * share) as u64).clamp(16, 1 << 28);
        }
        count *= 4;
    }
}
