use super::*;
use crate::rows::tests::{point, selection};

fn claim(kind: ClaimKind, of: &str, to: &str, paper: f64) -> Claim {
    Claim {
        text: "a claim".to_owned(),
        source: "nobody".to_owned(),
        kind,
        measure: throughput(),
        rows: RowKind::Points,
        of: selection(of),
        of_take: None,
        to: selection(to),
        to_take: None,
        each: Vec::new(),
        take: None,
        paper: Some(paper),
        at_least: None,
        at_most: None,
        cases: Vec::new(),
    }
}

fn points() -> Vec<Point> {
    [("SELCC", 8, 3e6), ("SEL", 8, 1e6), ("SELCC", 1, 0.5e6), ("SEL", 1, 1e6)]
        .map(|(series, threads, ops)| point(&format!("series={series} threads={threads}"), ops))
        .into()
}

fn judge(claim: &Claim) -> (String, Verdict) {
    let judged = claim.judge("fig", &points(), false).expect("a verdict");
    (judged.ours, judged.verdict)
}

fn problem(claim: &Claim) -> String {
    claim.judge("fig", &points(), false).expect_err("a problem").to_string()
}

const OF: &str = "series='SELCC' threads='8'";
const TO: &str = "series='SEL' threads='8'";

#[test]
fn a_ratio_is_near_on_the_same_side_or_missed() {
    use Verdict::*;
    for (paper, verdict) in [
        (2.9, Within),
        (2.31, Within),
        (2.3, Direction),
        (4.28, Within),
        (4.3, Direction),
        (0.9, Missed),
        (1.0, Missed),
    ] {
        assert_eq!(
            judge(&claim(ClaimKind::Ratio, OF, TO, paper)),
            ("3.00x".to_owned(), verdict),
            "{paper}"
        );
    }
    // The number is near the paper's number, but on the wrong side of 1.
    let wrong_side = claim(ClaimKind::Ratio, TO, "series='SEL' threads='1'", 1.26);
    assert_eq!(judge(&wrong_side), ("1.00x".to_owned(), Missed));
}

#[test]
fn gains_and_losses_are_compared_as_such() {
    use Verdict::*;
    let cases = [
        (ClaimKind::Gain, OF, TO, 1.8, "+200.0 %", Within),
        (ClaimKind::Gain, OF, TO, 0.4, "+200.0 %", Direction),
        (ClaimKind::Gain, TO, OF, 0.4, "-66.7 %", Missed),
        (ClaimKind::Loss, TO, OF, 0.6, "-66.7 %", Within),
        (ClaimKind::Loss, OF, TO, 0.6, "+200.0 %", Missed),
    ];
    for (kind, of, to, paper, ours, verdict) in cases {
        assert_eq!(
            judge(&claim(kind, of, to, paper)),
            (ours.to_owned(), verdict),
            "{kind:?} {paper}"
        );
    }
}

#[test]
fn a_value_is_near_or_missed_and_bounds_hold_or_do_not() {
    let mut hits = claim(ClaimKind::Part, OF, "", 0.6);
    hits.measure = "hit_ratio".to_owned();
    assert_eq!(judge(&hits), ("50.0 %".to_owned(), Verdict::Within));
    hits.paper = Some(0.9);
    assert_eq!(judge(&hits).1, Verdict::Missed);
    for (least, most, verdict) in [
        (Some(0.5), None, Verdict::Holds),
        (Some(0.51), None, Verdict::Missed),
        (None, Some(0.5), Verdict::Holds),
        (None, Some(0.49), Verdict::Missed),
    ] {
        let bound = Claim { paper: None, at_least: least, at_most: most, ..hits.clone() };
        assert_eq!(judge(&bound).1, verdict);
    }
}

#[test]
fn each_cell_counts_and_the_worst_is_reported() {
    let mut all = claim(ClaimKind::Ratio, "series='SELCC'", "series='SEL'", 1.0);
    (all.paper, all.at_least) = (None, Some(1.0));
    (all.each, all.take) = (vec!["threads".to_owned()], Some(Take::Least));
    assert_eq!(judge(&all), ("0.500x".to_owned(), Verdict::Missed));
    all.take = Some(Take::Most);
    assert_eq!(judge(&all), ("3.00x".to_owned(), Verdict::Holds));
    all.of = selection("series='ours'");
    assert_eq!(problem(&all), "fig: claim a claim: `of` selects no point");
    all.of = selection("series='SELCC'");
    all.to = selection("series='SEL' threads='8'");
    assert_eq!(
        problem(&all),
        "fig: claim a claim: beside point series=SELCC threads=1, `to` selects no point"
    );
}

#[test]
fn no_point_or_several_are_an_error() {
    let none = claim(ClaimKind::Ratio, "series='GAM'", TO, 2.0);
    assert_eq!(problem(&none), "fig: claim a claim: `of` selects no point");
    let mut several = claim(ClaimKind::Ratio, OF, "series='SEL'", 2.0);
    let line = problem(&several);
    assert!(
        line.contains("`to` selects 2 points, among them point series=SEL threads=8"),
        "{line}"
    );
    several.to_take = Some(Take::Sum);
    assert_eq!(judge(&several).0, "1.50x");
    let nothing = Claim { measure: "latency".to_owned(), ..claim(ClaimKind::Ratio, OF, TO, 2.0) };
    assert!(problem(&nothing).contains("there is no number in column latency"));
}

#[test]
fn nodes_of_a_point_can_be_compared() {
    let mut nodes = claim(
        ClaimKind::Ratio,
        "node='1' series='SELCC' threads='8'",
        "node='2' series='SELCC' threads='8'",
        1.0,
    );
    nodes.rows = RowKind::Nodes;
    assert_eq!(judge(&nodes), ("0.333x".to_owned(), Verdict::Missed));
}
