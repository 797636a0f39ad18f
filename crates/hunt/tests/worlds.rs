//! Worlds without a plant are clean, and worlds with one are not.

use latchwork_hunt::{Choice, Plant, Scenario, run};

#[test]
fn worlds_without_a_bug_are_clean() {
    for seed in 0..40 {
        let scenario = Scenario::from_seed(seed, &Choice::default());
        let report = run(&scenario);
        assert_eq!(report.failure, None, "{}", scenario.to_toml());
        assert!(report.operations > 0);
    }
}

#[test]
fn plants_are_found() {
    for plant in [Plant::Remembers, Plant::Forgets, Plant::ForgetsDirty] {
        let found = (0..100).find_map(|seed| {
            let scenario = Scenario::from_seed(seed, &Choice::default());
            let failure = run(&Scenario { plant: Some(plant), ..scenario }).failure?;
            Some((seed, failure))
        });
        println!("{plant:?}: {found:?}");
        assert!(found.is_some(), "{plant:?}");
    }
}
