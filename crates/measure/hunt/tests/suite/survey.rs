//! Measures the speed of worlds, and counts their faults: `cargo test --release -p latchwork-hunt
//! --test suite survey:: -- --ignored --nocapture`. `LATCHWORK_SEEDS=first..end` in the environment
//! selects other seeds.

use std::collections::BTreeMap;
use std::ops::Range;

use latchwork_hunt::{Scenario, SwarmChoice, run};

fn seeds() -> Range<u64> {
    let given = std::env::var("LATCHWORK_SEEDS").ok();
    let given = given.as_deref().and_then(|text| text.split_once(".."));
    let parsed = given.and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    parsed.unwrap_or(0..200)
}

#[test]
#[ignore = "a report for people; the other tests judge"]
fn a_survey_of_many_worlds() {
    let (mut failures, mut sums) = (BTreeMap::<String, Vec<u64>>::new(), [0u64; 6]);
    let mut strikes = Vec::new();
    for seed in seeds() {
        let scenario = Scenario::from_seed(seed, &SwarmChoice::default());
        let report = run(&scenario);
        let of = [report.events, report.verbs, report.operations, report.clean_errors];
        of.iter().zip(&mut sums).for_each(|(n, sum)| *sum += n);
        if report.events > 200_000 {
            println!("seed {seed}: {} events in {:?}", report.events, report.virtual_time);
            println!("   {:?} {:?} {:?}", scenario.protocol, scenario.workload, scenario.faults);
        }
        strikes.push((report.faults, report.node_faults));
        if let Some(failure) = report.failure {
            let first = failure.text.lines().next().unwrap_or_default().to_owned();
            let kind = failure.check.to_string();
            failures.entry(kind.clone()).or_default().push(seed);
            if failures[&kind].len() <= 5 {
                println!("seed {seed}: {kind}: {first}\n   {:?}", scenario.faults);
            }
        }
    }
    println!("events, verbs, operations, clean errors: {sums:?}");
    println!("failures: {failures:?}");
}
