//! Tables in Markdown, and their place in a page.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::args::{Args, Structure, Workload};
use crate::error::Failure;
use crate::machine::Machine;
use crate::report::names::{is_ordered, name};
use crate::results::{Cell, Results, What};

/// The lines around tables in a page.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    pub(crate) begin: &'static str,
    pub(crate) end: &'static str,
}

/// The place of these tables.
pub(crate) const MARKS: Marks =
    Marks { begin: "<!-- measured: begin -->", end: "<!-- measured: end -->" };

impl Marks {
    /// Puts `tables` between the two mark lines of `page`.
    pub(crate) fn fill(&self, path: &Path, page: &str, tables: &str) -> Result<String, Failure> {
        let Marks { begin, end } = *self;
        let no_place = || Failure::NoMarkers { path: path.to_owned(), begin, end };
        let (above, rest) = page.split_once(begin).ok_or_else(no_place)?;
        let (_, below) = rest.split_once(end).ok_or_else(no_place)?;
        Ok(format!("{above}{begin}\n\n{}\n\n{end}{below}", tables.trim()))
    }

    /// A page that has nothing but `tables`.
    pub(crate) fn page(&self, tables: &str) -> String {
        format!("{}\n{tables}\n{}\n", self.begin, self.end)
    }
}

/// The compared crates, with the versions that were built.
pub(crate) fn versions() -> BTreeMap<&'static str, &'static str> {
    let rivals =
        ["ferntree", "scc", "congee", "bplustree", "crossbeam-skiplist", "dashmap", "papaya"];
    versions_of(&rivals)
}

/// The versions of crates that were built.
pub(crate) fn versions_of(crates: &[&str]) -> BTreeMap<&'static str, &'static str> {
    let packages = include_str!("../../Cargo.lock").split("[[package]]");
    let field = |package: &'static str, field: &str| {
        let line = package.lines().find(|line| line.starts_with(field))?;
        line.split('"').nth(1)
    };
    packages
        .filter_map(|package| Some((field(package, "name")?, field(package, "version")?)))
        .filter(|(name, _)| crates.contains(name))
        .collect()
}

/// All tables, with the command and the machine.
pub(crate) fn tables(args: &Args, results: &Results) -> String {
    let mut text = head(args, results);
    let whats = results.whats();
    let mut parts: Vec<(usize, Option<usize>)> =
        whats.iter().map(|what| (what.value_size, what.threads)).collect();
    parts.dedup();
    for &(value_size, threads) in &parts {
        // The bytes per key stand beside the rates, unless there are no rates.
        if threads.is_none() && parts.iter().filter(|part| part.0 == value_size).count() > 1 {
            continue;
        }
        let _ = write!(text, "\n### Values of {value_size} bytes");
        match threads {
            Some(1) => text += ", 1 thread",
            Some(threads) => _ = write!(text, ", {threads} threads"),
            None => {}
        }
        text += "\n\n";
        let columns: Vec<What> = whats
            .iter()
            .copied()
            .filter(|what| what.value_size == value_size && what.threads == threads)
            .filter(|what| what.workload != Workload::Memory)
            .collect();
        text += &rates(results, value_size, &columns);
    }
    text += &ratios(results, &whats);
    text
}

fn head(args: &Args, results: &Results) -> String {
    let machine = &results.machine;
    let mut text = format!(
        "Medians (least to most) of {} repetitions of {} ms with {} keys; of {} repetitions for loads.\n",
        args.repeats,
        args.time_ms,
        args.keys,
        args.load_repeats(),
    );
    text += &conditions(machine, &versions());
    text
}

/// The machine and the crates.
pub(crate) fn conditions(machine: &Machine, versions: &BTreeMap<&str, &str>) -> String {
    let versions: Vec<String> =
        versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let mut text = String::new();
    let _ = writeln!(text, "\n| | |\n| --- | --- |");
    let _ = writeln!(text, "| processor | {}, {} cores |", machine.processor, machine.cores);
    let _ = writeln!(text, "| memory | {} MiB |", machine.memory_mib);
    let _ = writeln!(text, "| operating system | {} |", machine.os);
    let _ = writeln!(text, "| load average before the start | {:.1} |", machine.load_average);
    let _ = writeln!(text, "| commit | {} |", machine.git);
    let _ = writeln!(text, "| crates | {} |", versions.join(", "));
    text
}

/// A table with structures as rows and measurements as columns.
fn rates(results: &Results, value_size: usize, columns: &[What]) -> String {
    let memory = What { value_size, threads: None, workload: Workload::Memory, distribution: None };
    let has_memory = results.whats().contains(&memory);
    let mut text = String::from("| M/s |");
    if has_memory {
        text += " bytes per key |";
    }
    for what in columns {
        let _ = write!(text, " {} |", heading(*what));
    }
    text += "\n| --- |";
    text += &" ---: |".repeat(columns.len() + usize::from(has_memory));
    text += "\n";
    for structure in results.structures() {
        let cells: Vec<Option<&Cell>> =
            columns.iter().map(|what| results.cell(structure, *what)).collect();
        let bytes = results.cell(structure, memory);
        if cells.iter().all(Option::is_none) && (bytes.is_none() || !columns.is_empty()) {
            continue;
        }
        let ours = matches!(structure, Structure::Latchwork | Structure::LatchworkTwo);
        let strong = if ours { "**" } else { "" };
        let _ = write!(text, "| {strong}{}{strong} |", name(structure));
        if has_memory {
            match bytes {
                Some(cell) => _ = write!(text, " {:.1} |", cell.median),
                None => text += " |",
            }
        }
        for cell in cells {
            match cell {
                Some(cell) => _ = write!(text, " {} |", spread(cell)),
                None => text += " |",
            }
        }
        text += "\n";
    }
    text
}

fn heading(what: What) -> String {
    match what.distribution {
        Some(distribution) => format!("{}, {}", what.workload.name(), distribution.name()),
        None => what.workload.name().to_owned(),
    }
}

/// Millions per second.
fn spread(cell: &Cell) -> String {
    let millions = |rate: f64| format!("{:.2}", rate / 1e6);
    format!("{} ({} to {})", millions(cell.median), millions(cell.min), millions(cell.max))
}

/// Ratios of our tree on one node to the two structures that the targets name, and to the best
/// ordered one.
fn ratios(results: &Results, whats: &[What]) -> String {
    let rivals: Vec<Structure> =
        results.structures().into_iter().filter(|rival| *rival > Structure::LatchworkTwo).collect();
    if rivals.is_empty() || whats.iter().all(|what| what.threads.is_none()) {
        return String::new();
    }
    let mut text = String::from(
        "\n### Our tree as a multiple\n\nMedian by median, of the same group. \"16 reads\" stands beside the others' reads one at a time.\n\n",
    );
    text += "| values | threads | measured | latchwork, M/s | ferntree | scc::TreeIndex | best ordered crate |\n";
    text += "| ---: | ---: | --- | ---: | ---: | ---: | ---: |\n";
    for &what in whats {
        let (Some(threads), Some(ours)) = (what.threads, results.cell(Structure::Latchwork, what))
        else {
            continue;
        };
        let theirs = match what.workload {
            Workload::Interleaved | Workload::Tasks => What { workload: Workload::Read, ..what },
            _ => what,
        };
        let times = |rival| match results.ratio(what, rival, theirs) {
            Some(ratio) => format!("{ratio:.2}"),
            None => String::new(),
        };
        let best = rivals
            .iter()
            .filter(|rival| is_ordered(**rival))
            .filter_map(|rival| Some((results.ratio(what, *rival, theirs)?, *rival)))
            .min_by(|(a, _), (b, _)| a.total_cmp(b));
        let best =
            best.map_or_else(String::new, |(ratio, rival)| format!("{ratio:.2} ({})", name(rival)));
        let _ = writeln!(
            text,
            "| {} | {threads} | {} | {:.2} | {} | {} | {best} |",
            what.value_size,
            heading(what),
            ours.median / 1e6,
            times(Structure::Ferntree),
            times(Structure::SccTree),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_replace_what_stood_between_the_markers_and_nothing_else() {
        let Marks { begin, end } = MARKS;
        let page = format!("above\n{begin}\nold\n{end}\nbelow\n");
        let filled = MARKS.fill(Path::new("page.md"), &page, "| new |\n").unwrap();
        assert_eq!(filled, format!("above\n{begin}\n\n| new |\n\n{end}\nbelow\n"));
        assert_eq!(MARKS.fill(Path::new("page.md"), &filled, "| new |\n").unwrap(), filled);
    }

    #[test]
    fn a_page_without_a_place_is_refused() {
        let Marks { begin, end } = MARKS;
        for page in ["", begin, end, &format!("{end}\n{begin}")] {
            let refused = MARKS.fill(Path::new("page.md"), page, "x").unwrap_err().to_string();
            assert!(refused.contains("page.md") && refused.contains(begin), "{refused}");
        }
    }

    #[test]
    fn every_rival_has_a_version() {
        assert_eq!(versions().len(), 7);
    }
}
