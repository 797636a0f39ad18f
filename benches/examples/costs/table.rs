//! The tables of measurements, and whether the targets are met.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::trees::Idle;
use crate::{limits, lines, nodes};

const BEGIN: &str = "<!-- costs: begin -->";
const END: &str = "<!-- costs: end -->";

/// The counts of one measurement, per execution: instructions, misses of the first-level cache, and
/// misses of the second-level cache.
pub(crate) struct Counted {
    name: String,
    counts: [f64; 3],
}

/// Reads lines `name <tab> instructions <tab> misses <tab> misses`.
pub(crate) fn read_instructions(path: &Path) -> Result<Vec<Counted>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let line = |(number, line): (usize, &str)| {
        let wrong =
            || format!("{}:{}: name and three numbers, with tabs", path.display(), number + 1);
        let mut fields = line.split('\t');
        let name = fields.next().unwrap_or_default().to_owned();
        let numbers: Vec<f64> = fields.filter_map(|field| field.trim().parse().ok()).collect();
        let counts = numbers.try_into().map_err(|_| wrong())?;
        Ok(Counted { name, counts })
    };
    text.lines().enumerate().map(line).collect()
}

#[derive(Clone, Copy)]
struct Summary {
    least: f64,
    median: f64,
    most: f64,
}

fn summary(samples: &[f64]) -> Summary {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
    let median = f64::midpoint(at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2));
    Summary { least: at(0), median, most: at(sorted.len().saturating_sub(1)) }
}

/// The whole output.
pub(crate) fn tables(
    samples: &[(String, Vec<f64>)],
    idle: &[Idle],
    counted: &[Counted],
    rounds: u32,
) -> String {
    let mut text = machine();
    // Writing to a string does not fail.
    let _ = writeln!(text, "\nNanoseconds: median (least to most) of {rounds} rounds.\n");
    text += "| what | ns | instructions | L1 misses | L2 misses |\n";
    text += "| --- | ---: | ---: | ---: | ---: |\n";
    for (name, samples) in samples {
        let Summary { least, median, most } = summary(samples);
        let _ =
            write!(text, "| {name} | {} ({} to {}) |", short(median), short(least), short(most));
        match counted.iter().find(|counted| counted.name == *name) {
            Some(Counted { counts: [instructions, first, second], .. }) => {
                let _ = writeln!(text, " {instructions:.0} | {first:.1} | {second:.1} |");
            }
            None => text += " | | |\n",
        }
    }
    // What is only counted: no measurement here has its name.
    let is_measured = |row: &&Counted| samples.iter().any(|(name, _)| *name == row.name);
    for Counted { name, counts: [instructions, first, second] } in
        counted.iter().filter(|row| !is_measured(row))
    {
        let _ = writeln!(text, "| {name} | | {instructions:.0} | {first:.1} | {second:.1} |");
    }
    text += "\n| target | wanted | got | |\n| --- | ---: | ---: | --- |\n";
    for Target { what, most, got } in targets(samples, idle) {
        let end = if got <= most { "met" } else { "missed" };
        let _ = writeln!(text, "| {what} | <= {most:.2} | {got:.3} | {end} |");
    }
    text
}

/// A number with about three digits.
fn short(nanos: f64) -> String {
    match nanos {
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 100.0 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

struct Target {
    what: String,
    most: f64,
    got: f64,
}

fn targets(samples: &[(String, Vec<f64>)], idle: &[Idle]) -> Vec<Target> {
    let of = |name: &str| {
        let found = samples.iter().find(|(other, _)| other == name);
        summary(found.map_or(&[], |(_, samples)| samples.as_slice()))
    };
    let (median, least) = (|name: &str| of(name).median, |name: &str| of(name).least);
    let mut targets = Vec::new();
    let mut add = |what: String, most: f64, got: f64| targets.push(Target { what, most, got });
    let read = "a cached read of a line, copied out, to a hash map and the copy";
    add(format!("{read}, hot"), 1.5, median(lines::COPY_HOT) / median(limits::MAP_HOT));
    add(format!("{read}, far"), 1.5, median(lines::COPY_FAR) / median(limits::MAP_FAR));
    let copies = 2.0 * median(limits::COPY_FAR);
    add("a miss to two random copies".to_owned(), 1.5, median(lines::MISS_FAR) / copies);
    // A measurement on two cores suffers from all other work of the machine. So the smallest
    // samples of both counts are compared.
    let trips = (least(nodes::HAND_OVER) - median(limits::COPY_HOT)) / least(limits::ROUND_TRIP);
    add(
        "a hand-over without one copy, in round trips of a cache line (least)".to_owned(),
        6.0,
        trips,
    );
    for Idle { what, pairs } in idle {
        // The two measurements of a pair run one after the other, so the machine changes least
        // between them.
        let ratios: Vec<f64> = pairs.iter().map(|(one, two)| two / one).collect();
        let Summary { least, median, most } = summary(&ratios);
        let spread = format!("{least:.2} to {most:.2} of {} pairs", ratios.len());
        add(format!("{what} with an idle second node, to without ({spread})"), 1.02, median);
    }
    targets
}

/// The machine of the measurement.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let load = read("/proc/loadavg");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "Processor{}, {cores} cores; load average {}.\n",
        model.replace('\t', ""),
        load.split_whitespace().next().unwrap_or("unknown")
    )
}

/// Checks that a page has the marks for the tables.
///
/// # Errors
/// The page has no such marks.
pub(crate) fn check_page(path: &Path) -> Result<(), String> {
    place(path).map(|_| ())
}

/// Puts the tables between their marks.
///
/// # Errors
/// When there are no marks, and when the page cannot be written.
pub(crate) fn write_page(path: &Path, text: &str) -> Result<(), String> {
    let (before, after) = place(path)?;
    let page = format!("{before}{BEGIN}\n\n{text}\n{END}{after}");
    fs::write(path, page).map_err(|error| format!("{}: {error}", path.display()))
}

fn place(path: &Path) -> Result<(String, String), String> {
    let page = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before.to_owned(), after.to_owned()))
    });
    parts.ok_or_else(|| format!("{} has no {BEGIN} with {END} below it", path.display()))
}
