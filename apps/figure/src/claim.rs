//! Claims: a paper's figures for its points, compared with the figures here.

use serde::{Deserialize, Serialize};

use crate::error::{Result, wrong};
use crate::point::{Point, throughput};
use crate::rows::{Row, RowKind, Selection, rows};

/// How far a measured number may differ from the paper's number: 30 % of the paper's number.
const WITHIN: f64 = 0.3;

/// A claim, in the form of the figure's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Claim {
    #[serde(default)]
    pub(crate) text: String,
    /// The source of the claim.
    pub(crate) source: String,
    #[serde(default)]
    pub(crate) kind: ClaimKind,
    /// The column of the claim.
    #[serde(default = "throughput")]
    pub(crate) measure: String,
    #[serde(default)]
    pub(crate) rows: RowKind,
    /// The row of the claim: exactly one, unless `of-take` chooses one of several.
    pub(crate) of: Selection,
    pub(crate) of_take: Option<Take>,
    /// The row to compare with. It is exactly one, unless `to-take` chooses one of several.
    #[serde(default)]
    pub(crate) to: Selection,
    pub(crate) to_take: Option<Take>,
    /// With these columns the claim is about all rows that `of` selects. Each row is compared with
    /// the row of `to` that has the same values in these columns. `take` chooses the row that
    /// counts.
    #[serde(default)]
    pub(crate) each: Vec<String>,
    pub(crate) take: Option<Take>,
    /// The number in the paper.
    pub(crate) paper: Option<f64>,
    /// The bound, if the paper gives no number.
    pub(crate) at_least: Option<f64>,
    pub(crate) at_most: Option<f64>,
    /// Several claims that differ only in these parts. Each case has its own text.
    #[serde(default)]
    pub(crate) cases: Vec<Case>,
}

/// The part of a claim that differs from similar claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Case {
    pub(crate) text: String,
    /// An additional selection for both `of` and `to`.
    #[serde(rename = "where")]
    pub(crate) at: Selection,
    pub(crate) paper: Option<f64>,
}

/// What a claim compares. Percentages of the paper are fractions here: 37.7 % is 0.377.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClaimKind {
    /// The number divided by the number of the other row.
    #[default]
    Ratio,
    /// A relative increase: 0.4 for a ratio of 1.4.
    Gain,
    /// A relative decrease: 0.4 for a ratio of 0.6.
    Loss,
    /// The number itself.
    Value,
    /// The number itself, as a part of 1, shown in per cent.
    Part,
}

/// How one number is chosen from several rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Take {
    Least,
    Most,
    Sum,
}

impl Take {
    fn of(self, numbers: impl Iterator<Item = f64>) -> Option<f64> {
        numbers.reduce(match self {
            Take::Least => f64::min,
            Take::Most => f64::max,
            Take::Sum => |a, b| a + b,
        })
    }
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verdict {
    #[serde(rename = "within 30 %")]
    Within,
    #[serde(rename = "direction only")]
    Direction,
    #[serde(rename = "missed")]
    Missed,
    #[serde(rename = "holds")]
    Holds,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verdict::Within => "within 30 %",
            Verdict::Direction => "direction only",
            Verdict::Missed => "missed",
            Verdict::Holds => "holds",
        }
    }
}

/// A claim with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JudgedClaim {
    pub(crate) figure: String,
    pub(crate) text: String,
    pub(crate) source: String,
    pub(crate) paper: String,
    pub(crate) ours: String,
    pub(crate) verdict: Verdict,
    /// Whether the result is of a short run.
    pub(crate) quick: bool,
}

impl JudgedClaim {
    pub(crate) fn verdict(&self) -> String {
        let quick = if self.quick { " (quick)" } else { "" };
        format!("{}{quick}", self.verdict.name())
    }
}

impl Claim {
    /// The claim itself, or its cases as claims.
    pub(crate) fn cases(self) -> Vec<Claim> {
        if self.cases.is_empty() {
            return vec![self];
        }
        let one = |case: &Case| {
            let mut claim = Claim { text: case.text.clone(), cases: Vec::new(), ..self.clone() };
            claim.of.extend(case.at.clone());
            claim.to.extend(case.at.clone());
            claim.paper = case.paper.or(self.paper);
            claim
        };
        self.cases.iter().map(one).collect()
    }

    /// Checks that the claim is consistent, before any points are known.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        let refuse = |problem: &str| Err(format!("claim {}: {problem}", self.text));
        if self.text.is_empty() {
            return Err(format!("a claim of {} has no text", self.source));
        }
        let said = [self.paper, self.at_least, self.at_most];
        if said.iter().flatten().count() != 1 {
            return refuse("say what it should be, by one of paper, at-least and at-most");
        }
        if let Some(paper) = self.paper.filter(|paper| !(*paper > 0.0 && paper.is_finite())) {
            return refuse(&format!("paper = {paper}: use a number above 0"));
        }
        let is_value = matches!(self.kind, ClaimKind::Value | ClaimKind::Part);
        if self.of.is_empty() || self.to.is_empty() != is_value {
            return refuse(if is_value {
                "a value has no `to`, only `of`"
            } else {
                "it needs `of` and `to`"
            });
        }
        if self.each.is_empty() != self.take.is_none() {
            return refuse("`each` and `take` belong together");
        }
        if !self.each.is_empty() && self.of_take.is_some() {
            return refuse(
                "with `each` every row of `of` counts for itself, so there is no `of-take`",
            );
        }
        Ok(())
    }

    /// Compares the claim with the points.
    ///
    /// # Errors
    /// When the claim selects no row, or several where it needs exactly one.
    pub(crate) fn judge(&self, figure: &str, points: &[Point], quick: bool) -> Result<JudgedClaim> {
        let rows = rows(points, self.rows)?;
        let place = |problem: String| wrong(format!("{figure}: claim {}", self.text), problem);
        let ours = match self.ours(&rows) {
            Ok(ours) => ours,
            Err(problem) => return place(problem),
        };
        let verdict = match (self.paper, self.at_least, self.at_most) {
            (Some(paper), ..) => self.compare(ours, paper),
            (_, Some(least), _) if ours >= least => Verdict::Holds,
            (_, _, Some(most)) if ours <= most => Verdict::Holds,
            _ => Verdict::Missed,
        };
        let paper = match (self.paper, self.at_least, self.at_most) {
            (Some(paper), ..) => self.show(paper),
            (_, Some(least), _) => format!("at least {}", self.show(least)),
            (_, _, most) => format!("at most {}", self.show(most.unwrap_or_default())),
        };
        Ok(JudgedClaim {
            figure: figure.to_owned(),
            text: self.text.clone(),
            source: self.source.clone(),
            paper,
            ours: self.show(ours),
            verdict,
            quick,
        })
    }

    fn ours(&self, rows: &[Row]) -> std::result::Result<f64, String> {
        if self.each.is_empty() {
            let of = self.number(rows, &self.of, self.of_take, "of")?;
            return self.relate(of, || self.number(rows, &self.to, self.to_take, "to"));
        }
        let mut all = Vec::new();
        for row in rows.iter().filter(|row| row.is(&self.of)) {
            let of = row.number(&self.measure).map_err(|error| error.to_string())?;
            let same =
                |other: &&Row| self.each.iter().all(|name| other.text(name) == row.text(name));
            for name in &self.each {
                if row.text(name).is_none() {
                    return Err(format!("{} has no column {name}", row.name()));
                }
            }
            let peers: Vec<Row> = rows.iter().filter(same).cloned().collect();
            let of = self.relate(of, || self.number(&peers, &self.to, self.to_take, "to"));
            all.push(of.map_err(|problem| format!("beside {}, {problem}", row.name()))?);
        }
        let take = self.take.unwrap_or(Take::Least);
        take.of(all.into_iter()).ok_or_else(|| "`of` selects no point".to_owned())
    }

    fn relate(
        &self,
        of: f64,
        to: impl FnOnce() -> std::result::Result<f64, String>,
    ) -> std::result::Result<f64, String> {
        if matches!(self.kind, ClaimKind::Value | ClaimKind::Part) {
            return Ok(of);
        }
        let to = to()?;
        if to <= 0.0 {
            return Err(format!("`to` is {to}, to which nothing can be compared"));
        }
        Ok(match self.kind {
            ClaimKind::Gain => of / to - 1.0,
            ClaimKind::Loss => 1.0 - of / to,
            _ => of / to,
        })
    }

    fn number(
        &self,
        rows: &[Row],
        selection: &Selection,
        take: Option<Take>,
        which: &str,
    ) -> std::result::Result<f64, String> {
        let selected: Vec<_> = rows.iter().filter(|row| row.is(selection)).collect();
        if selected.is_empty() {
            return Err(format!("`{which}` selects no point"));
        }
        if selected.len() > 1 && take.is_none() {
            let (first, second) = (selected[0].name(), selected[1].name());
            let count = selected.len();
            return Err(format!(
                "`{which}` selects {count} points, among them {first} and {second}"
            ));
        }
        let numbers: Result<Vec<f64>> =
            selected.iter().map(|row| row.number(&self.measure)).collect();
        let numbers = numbers.map_err(|error| error.to_string())?;
        take.unwrap_or(Take::Least)
            .of(numbers.into_iter())
            .ok_or_else(|| format!("`{which}` selects no point"))
    }

    /// The verdict for our number. "Within" means within 30 % of the paper's number. "Direction"
    /// means on the same side of "no difference". For gains and losses the differences are
    /// compared: a gain of 3 % does not reproduce a gain of 17 %, although 1.03 is near 1.17.
    fn compare(&self, ours: f64, paper: f64) -> Verdict {
        let near = (ours / paper - 1.0).abs() <= WITHIN;
        let same_side = match self.kind {
            // A ratio of 1 in the paper says "comparable", which has no direction.
            ClaimKind::Ratio if paper == 1.0 => near,
            ClaimKind::Ratio => (ours > 1.0) == (paper > 1.0),
            ClaimKind::Gain | ClaimKind::Loss => ours > 0.0,
            ClaimKind::Value | ClaimKind::Part => near,
        };
        match (near, same_side) {
            (true, true) => Verdict::Within,
            (false, true) => Verdict::Direction,
            (_, false) => Verdict::Missed,
        }
    }

    fn show(&self, number: f64) -> String {
        // The addition of 0.0 removes a minus sign before zero.
        let percent = |part: f64| (part * 1000.0).round() / 10.0 + 0.0;
        match self.kind {
            // Three decimals show on which side of 1 a ratio below 1 is.
            ClaimKind::Ratio if (0.0995..1.0).contains(&number) => format!("{number:.3}x"),
            ClaimKind::Ratio => format!("{}x", digits(number)),
            ClaimKind::Gain => format!("{:+.1} %", percent(number)),
            ClaimKind::Loss => format!("{:+.1} %", percent(-number)),
            ClaimKind::Part => format!("{:.1} %", percent(number)),
            ClaimKind::Value => digits(number),
        }
    }
}

/// About three digits.
pub(crate) fn digits(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        large if large >= 99.95 => format!("{number:.0}"),
        ten if ten >= 9.995 => format!("{number:.1}"),
        one if one >= 0.0995 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

#[cfg(test)]
mod tests;
