//! The outputs of a figure: points as CSV, claims, tables.

use std::collections::BTreeSet;
use std::path::Path;

use latchwork_report::text::csv_line;

use crate::claim::JudgedClaim;
use crate::error::{Result, read, write, wrong};
use crate::point::Point;

/// All points as CSV: labels, the command, all settings and measurements.
pub(crate) fn csv(points: &[Point]) -> String {
    let mut labels: Vec<&str> = Vec::new();
    let mut columns = BTreeSet::new();
    for point in points {
        for (name, _) in &point.labels {
            if !labels.contains(&name.as_str()) {
                labels.push(name);
            }
        }
        columns.extend(point.columns().into_keys());
    }
    labels.iter().for_each(|label| _ = columns.remove(*label));
    let head = labels.iter().copied().chain(["command"]).chain(columns.iter().map(String::as_str));
    let mut text = csv_line(head);
    for point in points {
        let own = point.columns();
        let label = |name: &&str| {
            let found = point.labels.iter().find(|(label, _)| label == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let cells = labels.iter().map(label).chain([point.command.as_str()]);
        text += &csv_line(cells.chain(columns.iter().map(|name| own.get(name).map_or("", |v| v))));
    }
    text
}

/// A line for each claim, for people.
pub(crate) fn lines(judged: &[JudgedClaim]) -> String {
    let of = |f: fn(&JudgedClaim) -> usize| judged.iter().map(f).max().unwrap_or(0);
    let (text, paper, ours) =
        (of(|j| j.text.chars().count()), of(|j| j.paper.len()), of(|j| j.ours.len()));
    let line = |j: &JudgedClaim| {
        let verdict = j.verdict();
        format!(
            "{:<9} {:<text$}  {:>paper$}  {:>ours$}  {verdict}\n",
            j.figure, j.text, j.paper, j.ours
        )
    };
    judged.iter().map(line).collect()
}

/// Claims as a table in Markdown.
pub(crate) fn markdown(judged: &[JudgedClaim]) -> String {
    let mut text = "| figure | claim | source | should be | ours | verdict |\n| --- | --- | --- | ---: | ---: | --- |\n".to_owned();
    for j in judged {
        let verdict = j.verdict();
        text += &format!(
            "| {} | {} | {} | {} | {} | {verdict} |\n",
            j.figure, j.text, j.source, j.paper, j.ours
        );
    }
    text
}

/// The claims of several figures, read from the files that this program wrote.
///
/// # Errors
/// When a file is not one of claims.
pub(crate) fn claims(paths: &[impl AsRef<Path>]) -> Result<Vec<JudgedClaim>> {
    let mut all = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        match serde_json::from_str::<Vec<JudgedClaim>>(&read(path)?) {
            Ok(judged) => all.extend(judged),
            Err(error) => return wrong(path.display(), format!("these are no claims: {error}")),
        }
    }
    Ok(all)
}

/// Puts text into a page, between the marks `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
///
/// # Errors
/// When the page has no such marks.
pub(crate) fn fill(page: &Path, name: &str, text: &str) -> Result<()> {
    let (begin, end) = (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"));
    let old = read(page)?;
    let parts = old.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        return wrong(page.display(), format!("there is no {begin} with {end} below it"));
    };
    write(page, &format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;
    use crate::rows::tests::point;

    #[test]
    fn the_csv_has_every_label_flag_and_figure() {
        let mut points = [point("series=a,b threads=8", 1.5e6), point("series=c nodes=2", 2e6)];
        points[0].command = "microbench --nic \"x\"".to_owned();
        let text = csv(&points);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("series,threads,nodes,command,app,"), "{}", lines[0]);
        assert!(lines[1].starts_with("\"a,b\",8,,\"microbench --nic \"\"x\"\"\",microbench,"));
        assert!(lines[2].starts_with("c,,2,microbench,"));
        for column in ["settings.lease", "git", "throughput_ops_s", "hit_ratio", "event_hash"] {
            assert!(lines[0].split(',').any(|name| name == column), "{column}");
        }
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn claims_come_back_and_say_when_they_are_of_a_short_run() {
        let judged = JudgedClaim {
            figure: "fig13".to_owned(),
            text: "over SEL".to_owned(),
            source: "SELCC 7.1.2".to_owned(),
            paper: "1.85x".to_owned(),
            ours: "2.09x".to_owned(),
            verdict: Verdict::Within,
            quick: true,
        };
        let json = serde_json::to_string(&[&judged]).unwrap();
        let back: Vec<JudgedClaim> = serde_json::from_str(&json).unwrap();
        assert_eq!(back.first(), Some(&judged));
        assert_eq!(
            lines(std::slice::from_ref(&judged)),
            "fig13     over SEL  1.85x  2.09x  within 30 % (quick)\n"
        );
        assert!(markdown(&[judged]).ends_with("| 1.85x | 2.09x | within 30 % (quick) |\n"));
    }
}
