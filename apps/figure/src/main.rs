//! Makes a figure from the results of many runs: a plot, a table of all points, and a verdict for
//! each claim.
//!
//! ```text
//!   scripts/reproduce/figNN.sh ──► points, each a result document with labels
//!                                      │
//!   figNN.toml: axes, claims ──► figure draw ──► points.csv, plot.svg, claims.json
//!                                                      │
//!                                figure claims ──► one table of all figures
//!                                figure page   ──► a page of the book with tables in it
//! ```

#![forbid(unsafe_code)]

mod claim;
mod error;
mod output;
mod plot;
mod point;
mod rows;
mod spec;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use latchwork_cluster::ClusterConfig;
use latchwork_harness::outcome::tell;
use latchwork_harness::{Named, NamesFiles, folded};

use error::{Result, write, wrong};
use rows::Row;

/// Figures of the results of microbench and ycsb; scripts/reproduce runs it.
#[derive(Debug, Parser)]
#[command(name = "figure", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One figure: writes points.csv, plot.svg and claims.json, of a table also table.md, and
    /// prints a line for each claim.
    Draw(Draw),
    /// The claims of several figures, as a table in Markdown.
    Claims(Claims),
    /// Puts text into a page, each between its marks `<!-- NAME: begin -->` and `<!-- NAME: end
    /// -->`.
    Page(Page),
    /// The settings of the protocol with each value besides the default that is worth a try, a line
    /// for each.
    Switches,
}

#[derive(Debug, Args)]
struct Draw {
    /// Axes, series and claims.
    #[arg(long, value_name = "TOML")]
    spec: PathBuf,
    /// The points: a line for each, of the result document, the command and labels, with tabs
    /// between them.
    #[arg(long, value_name = "FILE")]
    points: PathBuf,
    /// An existing directory for what is written.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The points come of short runs; verdicts say so.
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
struct Claims {
    /// The files claims.json of the figures.
    #[arg(required = true, value_name = "CLAIMS")]
    files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct Page {
    /// The page.
    page: PathBuf,
    /// What goes into it, from which file.
    #[arg(required = true, value_name = "NAME=FILE")]
    parts: Vec<String>,
}

/// The files of one figure.
const DRAWN: [&str; 4] = ["points.csv", "plot.svg", "claims.json", "table.md"];

impl NamesFiles for Cli {
    fn files(&self) -> Vec<Named> {
        match &self.command {
            Command::Draw(draw) => {
                let inputs =
                    [Named::read("--spec", &draw.spec), Named::read("--points", &draw.points)];
                let drawn = DRAWN.map(|name| Named::written("--out", draw.out.join(name)));
                inputs.into_iter().chain(drawn).collect()
            }
            Command::Page(page) => {
                let parts = page.parts.iter().filter_map(|part| part.split_once('='));
                let parts = parts.map(|(name, file)| Named::read(format!("{name}="), file));
                parts.chain([Named::written("PAGE", &page.page)]).collect()
            }
            Command::Claims(_) | Command::Switches => Vec::new(),
        }
    }
}

fn main() -> ExitCode {
    latchwork_harness::main("figure", Cli::try_parse(), |cli| {
        let text = match cli.command {
            Command::Draw(arguments) => draw(&arguments),
            Command::Claims(arguments) => {
                output::claims(&arguments.files).map(|judged| output::markdown(&judged))
            }
            Command::Page(arguments) => page(&arguments),
            Command::Switches => Ok(switches()),
        }?;
        tell(None, |out| out.write_all(text.as_bytes()))?;
        Ok(true)
    })
}

fn draw(arguments: &Draw) -> Result<String> {
    let spec = spec::load(&arguments.spec)?;
    let points = point::load(&arguments.points)?;
    if !arguments.out.is_dir() {
        return wrong(arguments.out.display(), "this is no directory; make it first");
    }
    let name = arguments.spec.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let rows = rows::rows(&points, spec.plot.rows)?;
    write(&arguments.out.join("points.csv"), &output::csv(&points))?;
    write(&arguments.out.join("plot.svg"), &plot::draw(&spec, &rows)?)?;
    if spec.plot.base.is_some() {
        let drawn: Vec<&Row> = rows.iter().filter(|row| row.is(&spec.plot.only)).collect();
        let table = plot::Table::new(&spec, &drawn)?.markdown(&spec.plot.x_label);
        write(&arguments.out.join("table.md"), &table)?;
    }
    let judged: Result<Vec<_>> =
        spec.claims.iter().map(|claim| claim.judge(&name, &points, arguments.quick)).collect();
    let judged = judged?;
    let json = serde_json::to_string_pretty(&judged).or_else(|error| wrong("claims", error))?;
    write(&arguments.out.join("claims.json"), &(json + "\n"))?;
    let commits: BTreeSet<_> = points.iter().map(|point| point.document.git.as_str()).collect();
    if commits.len() > 1 {
        let commits: Vec<_> = commits.into_iter().collect();
        // The commits do not change the figure, but a reader of the claims must know of them.
        let _ = writeln!(
            std::io::stderr(),
            "figure: {name}: the points come of several commits: {}",
            commits.join(", ")
        );
    }
    Ok(folded(&output::lines(&judged)))
}

fn page(arguments: &Page) -> Result<String> {
    for part in &arguments.parts {
        let Some((name, file)) = part.split_once('=') else {
            return wrong(part, "use NAME=FILE");
        };
        output::fill(&arguments.page, name, &error::read(Path::new(file))?)?;
    }
    Ok(String::new())
}

fn switches() -> String {
    let mut text = String::new();
    for setting in ClusterConfig::settings() {
        for value in setting.tries {
            text += &format!("{}\t{value}\n", setting.name);
        }
    }
    text
}
