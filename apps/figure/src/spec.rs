//! The definition of a figure: a TOML file with its axes, its series and its claims.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::claim::Claim;
use crate::error::{Result, read, wrong};
use crate::point::throughput;
use crate::rows::{RowKind, Selection};

/// A figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Spec {
    /// The title above the plot.
    pub(crate) title: String,
    pub(crate) plot: Plot,
    #[serde(default, rename = "claim")]
    pub(crate) claims: Vec<Claim>,
}

/// The plot of the rows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Plot {
    pub(crate) kind: PlotKind,
    #[serde(default)]
    pub(crate) rows: RowKind,
    /// The rows that are drawn.
    #[serde(default)]
    pub(crate) only: Selection,
    /// The column with a panel for each of its values. Without it there is one panel.
    pub(crate) panel: Option<String>,
    /// The titles of panels, by value of `panel`. Without a title, a panel shows the value itself,
    /// or the paper's name for a percentage of reads.
    #[serde(default = "mixes")]
    pub(crate) panel_titles: BTreeMap<String, String>,
    /// The column of the horizontal axis, or of a table's columns.
    pub(crate) x: String,
    /// Whether numbers stand at their own positions on the horizontal axis. Otherwise neighbouring
    /// values have equal distances.
    #[serde(default)]
    pub(crate) x_is_linear: bool,
    /// A divisor for the numbers of a linear horizontal axis.
    #[serde(default = "one")]
    pub(crate) x_unit: f64,
    #[serde(default)]
    pub(crate) x_label: String,
    /// The column of the vertical axis, or of a table's cells.
    #[serde(default = "throughput")]
    pub(crate) y: String,
    /// A divisor for the values.
    #[serde(default = "million")]
    pub(crate) y_unit: f64,
    #[serde(default = "throughput_label")]
    pub(crate) y_label: String,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub(crate) y_is_log: bool,
    /// The column that distinguishes lines, colours of bars or rows of a table, one for each of its
    /// values.
    #[serde(default = "series")]
    pub(crate) series: String,
    /// For a table: the name of the base row. Cells of other rows are ratios to it.
    pub(crate) base: Option<String>,
    /// For a line plot: bars behind the lines, which show parts on an axis of their own.
    pub(crate) bars: Option<Bars>,
}

/// Bars behind lines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Bars {
    pub(crate) y: String,
    pub(crate) label: String,
    #[serde(default)]
    pub(crate) only: Selection,
}

/// The kinds of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PlotKind {
    Lines,
    Bars,
    Table,
}

fn one() -> f64 {
    1.0
}

fn million() -> f64 {
    1e6
}

fn throughput_label() -> String {
    "M operations/s".to_owned()
}

fn series() -> String {
    "series".to_owned()
}

fn mixes() -> BTreeMap<String, String> {
    let mixes =
        [("95", "Read-intensive (95 %)"), ("50", "Write-intensive (50 %)"), ("0", "Write-only")];
    mixes.map(|(reads, title)| (reads.to_owned(), title.to_owned())).into()
}

/// Reads a figure's file.
///
/// # Errors
/// One line about the first mistake in it.
pub(crate) fn load(path: &Path) -> Result<Spec> {
    parse(&read(path)?).or_else(|problem| wrong(path.display(), problem))
}

fn parse(text: &str) -> std::result::Result<Spec, String> {
    let mut spec: Spec = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    let plot = &spec.plot;
    for (key, unit) in [("x-unit", plot.x_unit), ("y-unit", plot.y_unit)] {
        if !(unit > 0.0 && unit.is_finite()) {
            return Err(format!("{key} = {unit}: use a number above 0"));
        }
    }
    if plot.base.is_some() != (plot.kind == PlotKind::Table) {
        return Err("base belongs to plots of kind table, and every table needs it".to_owned());
    }
    if plot.bars.is_some() && plot.kind != PlotKind::Lines {
        return Err("bars go behind plots of kind lines only".to_owned());
    }
    spec.claims = spec.claims.into_iter().flat_map(Claim::cases).collect();
    spec.claims.iter().try_for_each(Claim::check)?;
    Ok(spec)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::rows::OneOrMore;

    pub(crate) const GOOD: &str = "
title = 'Access locality'
[plot]
kind = 'lines'
panel = 'reads'
x = 'threads'
[[claim]]
text = '64 threads over SEL'
source = 'SELCC 7.1.2'
of = { series = 'SELCC', threads = '8' }
to = { series = 'SEL', threads = '8' }
paper = 1.85
";

    pub(crate) fn spec(text: &str) -> Spec {
        parse(text).expect("a figure")
    }

    #[test]
    fn a_figure_has_defaults() {
        let spec = spec(GOOD);
        assert_eq!((spec.plot.y.as_str(), spec.plot.x_unit), ("throughput_ops_s", 1.0));
        assert_eq!((spec.plot.y_label.as_str(), spec.plot.y_unit), ("M operations/s", 1e6));
        assert_eq!(spec.plot.panel_titles["0"], "Write-only");
        assert_eq!((spec.plot.rows, spec.claims.len()), (RowKind::Points, 1));
    }

    #[test]
    fn cases_are_claims_that_differ_where_they_say() {
        let text = "text = '64 threads over SEL'";
        let cases = "cases = [
    { text = 'half reads', where = { reads = '50' }, paper = 1.26 },
    { text = 'write-only', where = { reads = '0' } },
]";
        let claims = spec(&GOOD.replace(text, cases)).claims;
        let told = claims.iter().map(|claim| (claim.text.as_str(), claim.paper));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [("half reads", Some(1.26)), ("write-only", Some(1.85))]
        );
        for side in [&claims[1].of, &claims[1].to] {
            assert_eq!((side.len(), &side["reads"]), (3, &OneOrMore::One("0".to_owned())));
        }
        let line = parse(&GOOD.replace(text, "")).expect_err("no text");
        assert_eq!(line, "a claim of SELCC 7.1.2 has no text");
    }

    #[test]
    fn what_is_wrong_is_one_line_with_its_place() {
        for (from, to, problem) in [
            ("kind = 'lines'", "kind = 'pie'", "line 4: unknown variant"),
            ("x = 'threads'", "z = 'threads'", "line 6: unknown field"),
            ("x = 'threads'", "x = 'threads'\ny-unit = 0.0", "y-unit = 0: use a number above 0"),
            ("kind = 'lines'", "kind = 'table'", "every table needs it"),
            ("kind = 'lines'", "kind = 'bars'\nbars = { y = 'a', label = '' }", "lines only"),
            ("paper = 1.85", "", "64 threads over SEL: say what it should be"),
            (
                "paper = 1.85",
                "paper = 1.85\nat-least = 1",
                "64 threads over SEL: say what it should be",
            ),
            (
                "paper = 1.85",
                "kind = 'value'\npaper = 1.85",
                "64 threads over SEL: a value has no `to`",
            ),
            ("to = {", "each = ['reads']\nto = {", "64 threads over SEL: `each` and `take`"),
            ("paper = 1.85", "paper = -1", "64 threads over SEL: paper = -1"),
        ] {
            assert!(GOOD.contains(from));
            let problem_found = parse(&GOOD.replace(from, to)).expect_err(to);
            assert!(problem_found.contains(problem), "{to}: {problem_found}");
            assert!(!problem_found.contains('\n'), "{to}: {problem_found}");
        }
    }
}
