//! Lists of faults on the command line.

use latchwork_hunt::FaultPlan;

/// The field of a plan that an item of a list sets, and the form of the item's value.
enum Item {
    /// A rate of one in N: `1/50`.
    Rate(fn(&mut FaultPlan) -> &mut u64),
    /// A count: `3`.
    Count(fn(&mut FaultPlan) -> &mut u32),
    /// A number that is not zero, with a unit in the item's name.
    Number(fn(&mut FaultPlan) -> &mut u64),
}

const ITEMS: [(&str, Item); 15] = [
    ("delay", Item::Rate(|plan| &mut plan.delay_one_in)),
    ("lose", Item::Rate(|plan| &mut plan.lose_one_in)),
    ("repeat", Item::Rate(|plan| &mut plan.repeat_one_in)),
    ("fail", Item::Rate(|plan| &mut plan.fail_one_in)),
    ("pause", Item::Count(|plan| &mut plan.pauses)),
    ("kill", Item::Count(|plan| &mut plan.deaths)),
    ("lapse", Item::Count(|plan| &mut plan.lapses)),
    ("replace", Item::Count(|plan| &mut plan.replacements)),
    ("memory", Item::Count(|plan| &mut plan.lost_memory)),
    ("slow", Item::Count(|plan| &mut plan.slow)),
    ("slow-factor", Item::Count(|plan| &mut plan.slow_factor)),
    ("delay-us", Item::Number(|plan| &mut plan.delay_us)),
    ("pause-us", Item::Number(|plan| &mut plan.pause_us)),
    ("told-us", Item::Number(|plan| &mut plan.told_us)),
    ("until-us", Item::Number(|plan| &mut plan.until_us)),
];

/// A plan with the faults of a list and no others; `none` is the empty list.
pub(crate) fn parse(text: &str) -> Result<FaultPlan, String> {
    let mut plan = FaultPlan::default();
    if text == "none" {
        return Ok(plan);
    }
    for item in text.split(',') {
        let names = || {
            let names: Vec<&str> = ITEMS.iter().map(|(name, _)| *name).collect();
            names.join(", ")
        };
        let Some((name, value)) = item.split_once('=') else {
            return Err(format!(
                "{item:?} is no fault; write none, or NAME=VALUE with a name of {}",
                names()
            ));
        };
        let Some((_, kind)) = ITEMS.iter().find(|(known, _)| *known == name.trim()) else {
            return Err(format!("there is no fault {name:?}; there are {}", names()));
        };
        let value = value.trim();
        match kind {
            Item::Rate(place) => *place(&mut plan) = rate(name, value)?,
            Item::Count(place) => {
                let wrong = |_| format!("{name}={value} is no number; write {name}=3");
                *place(&mut plan) = value.parse().map_err(wrong)?;
            }
            Item::Number(place) => {
                let number = latchwork_harness::parse::whole_micros(1..=u64::MAX)(value).ok();
                let wrong = || format!("{name}={value} is no number above 0; write {name}=300");
                *place(&mut plan) = number.ok_or_else(wrong)?;
            }
        }
    }
    Ok(plan)
}

fn rate(name: &str, value: &str) -> Result<u64, String> {
    if value == "0" {
        return Ok(0);
    }
    let one_in = value.strip_prefix("1/").and_then(|text| text.trim().parse().ok());
    one_in.filter(|&one_in| one_in > 0).ok_or_else(|| {
        let example = value.parse().unwrap_or(50_u64);
        format!("{name}={value} is no rate; write {name}=1/{example} for one in {example}, or 0")
    })
}

/// A plan as a list for the command line.
pub(crate) fn list(plan: &FaultPlan) -> String {
    let (mut plan, mut usual) = (plan.clone(), FaultPlan::default());
    if !plan.any() {
        return "none".to_owned();
    }
    let items = ITEMS.iter().filter_map(|(name, item)| match item {
        Item::Rate(place) => {
            let one_in = *place(&mut plan);
            (one_in > 0).then(|| format!("{name}=1/{one_in}"))
        }
        Item::Count(place) => {
            let count = *place(&mut plan);
            (count != *place(&mut usual)).then(|| format!("{name}={count}"))
        }
        Item::Number(place) => {
            let number = *place(&mut plan);
            (number != *place(&mut usual)).then(|| format!("{name}={number}"))
        }
    });
    items.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_sets_what_it_names_and_nothing_else() {
        let plan = parse("delay=1/50,repeat=1/200, pause=3,kill=1,pause-us=70").unwrap();
        let expected = FaultPlan {
            delay_one_in: 50,
            repeat_one_in: 200,
            pauses: 3,
            pause_us: 70,
            deaths: 1,
            ..FaultPlan::default()
        };
        assert_eq!(plan, expected);
        assert!(!parse("none").unwrap().any());
        assert!(!parse("delay=0,kill=0").unwrap().any());
    }

    #[test]
    fn a_plan_becomes_the_list_that_says_it() {
        for text in [
            "none",
            "delay=1/50,slow=2,slow-factor=3",
            "lose=1/9,kill=1,lapse=2,told-us=5,until-us=77",
        ] {
            assert_eq!(list(&parse(text).unwrap()), text);
        }
    }

    #[test]
    fn a_bad_item_is_named_with_what_would_do() {
        for (text, words) in [
            ("gremlins=1/3", &["gremlins", "delay"][..]),
            ("delay", &["\"delay\"", "NAME=VALUE"]),
            ("", &["none"]),
            ("delay=5", &["delay=5", "1/5"]),
            ("delay=1/0", &["delay=1/0", "1/50"]),
            ("kill=some", &["kill=some", "kill=3"]),
            ("kill=-1", &["kill=-1"]),
            ("until-us=0", &["until-us=0", "above 0"]),
            ("delay=1/5,delay", &["NAME=VALUE"]),
        ] {
            let error = parse(text).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
    }
}
