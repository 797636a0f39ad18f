//! Lists the smaller shapes of a scenario.

use toml::{Table, Value};

use crate::{FaultPlan, Network, Scenario};

/// All valid scenarios that are one step smaller. The first has no faults. Then each number is made
/// smaller in turn, with the largest step first.
pub(super) fn smaller(of: &Scenario) -> Vec<Scenario> {
    // A failure without faults is the easiest to understand.
    let mut shapes = vec![Scenario { faults: FaultPlan::default(), ..of.clone() }];
    operations(of, &mut shapes);
    sizes(of, &mut shapes);
    workload(of, &mut shapes);
    settings(of, &mut shapes);
    faults(of, &mut shapes);
    network(of, &mut shapes);
    shapes.retain(|shape| shape != of && shape.check().is_ok());
    shapes
}

/// Some numbers below `n`, from `least` upwards.
fn below(n: u64, least: u64) -> impl Iterator<Item = u64> {
    let mut numbers = vec![least, n / 4, n / 2, n * 3 / 4, n.saturating_sub(1)];
    numbers.retain(|&number| number >= least && number < n);
    numbers.dedup();
    numbers.into_iter()
}

fn operations(of: &Scenario, shapes: &mut Vec<Scenario>) {
    let shape = |operations| Scenario { operations, ..of.clone() };
    shapes.extend(below(of.operations, 1).map(shape));
}

type Size = (u64, fn(&mut Scenario) -> &mut usize);

fn sizes(of: &Scenario, shapes: &mut Vec<Scenario>) {
    let sizes: [Size; 4] = [
        (2, |scenario| &mut scenario.compute_nodes),
        (1, |scenario| &mut scenario.tasks),
        (1, |scenario| &mut scenario.workers),
        (1, |scenario| &mut scenario.memory_nodes),
    ];
    for (least, size) in sizes {
        let now = *size(&mut of.clone()) as u64;
        for smaller in below(now, least) {
            let mut shape = of.clone();
            *size(&mut shape) = smaller as usize;
            // With fewer nodes, fewer nodes can have faults.
            let most = shape.compute_nodes as u32 - 1;
            shape.faults.deaths = shape.faults.deaths.min(most);
            shape.faults.lapses = shape.faults.lapses.min(most - shape.faults.deaths);
            shape.faults.lost_memory = shape.faults.lost_memory.min(shape.memory_nodes as u32);
            shape.faults.slow = shape.faults.slow.min(shape.compute_nodes as u32);
            // The failure may need as many operations in total as before.
            let operations = (of.operations * now).div_ceil(smaller);
            let busier = Scenario { operations, ..shape.clone() };
            shapes.push(shape);
            shapes.push(busier);
        }
    }
    if of.line_size > 512 {
        shapes.push(Scenario { line_size: 512, ..of.clone() });
    }
    // A cache without evictions is simpler.
    if of.frames < 16 {
        shapes.push(Scenario { frames: 16, ..of.clone() });
    }
}

/// Adds shapes with a simpler workload: one switch off, or one number smaller.
fn workload(of: &Scenario, shapes: &mut Vec<Scenario>) {
    let Ok(document) = of.to_toml().parse::<Table>() else { return };
    let Some(Value::Table(kinds)) = document.get("workload") else { return };
    for (kind, settings) in kinds {
        let Value::Table(settings) = settings else { continue };
        for (key, value) in settings {
            let values: Vec<Value> = match value {
                Value::Boolean(true) => vec![Value::Boolean(false)],
                Value::Integer(n) => {
                    let n = u64::try_from(*n).unwrap_or(0);
                    let numbers = below(n, 0).chain((n > 1).then_some(1));
                    numbers.map(|n| Value::Integer(n as i64)).collect()
                }
                _ => Vec::new(),
            };
            for value in values {
                let mut changed = document.clone();
                if let Some(place) = changed
                    .get_mut("workload")
                    .and_then(|workload| workload.get_mut(kind))
                    .and_then(|settings| settings.get_mut(key))
                {
                    *place = value;
                    // `parse` refuses values that are not valid.
                    shapes.extend(Scenario::parse(&changed.to_string()));
                }
            }
        }
    }
}

/// Adds shapes with one setting at its default.
fn settings(of: &Scenario, shapes: &mut Vec<Scenario>) {
    for name in of.settings.keys() {
        let mut shape = of.clone();
        shape.settings.remove(name);
        shapes.push(shape);
    }
}

fn faults(of: &Scenario, shapes: &mut Vec<Scenario>) {
    let mut push = |change: &dyn Fn(&mut FaultPlan)| {
        let mut shape = of.clone();
        change(&mut shape.faults);
        shapes.push(shape);
    };
    push(&|plan| plan.delay_one_in = 0);
    push(&|plan| plan.lose_one_in = 0);
    push(&|plan| plan.repeat_one_in = 0);
    push(&|plan| plan.fail_one_in = 0);
    push(&|plan| plan.told_us = 0);
    push(&|plan| plan.told_us /= 2);
    let counts: [fn(&mut FaultPlan) -> &mut u32; 6] = [
        |plan| &mut plan.pauses,
        |plan| &mut plan.deaths,
        |plan| &mut plan.lapses,
        |plan| &mut plan.replacements,
        |plan| &mut plan.lost_memory,
        |plan| &mut plan.slow,
    ];
    for count in counts {
        let now = *count(&mut of.faults.clone());
        for fewer in below(u64::from(now), 0) {
            push(&|plan| *count(plan) = fewer as u32);
        }
    }
    if of.faults.any() && of.faults.until_us > 50 {
        push(&|plan| plan.until_us /= 2);
    }
}

fn network(of: &Scenario, shapes: &mut Vec<Scenario>) {
    if of.network != Network::Calm {
        shapes.push(Scenario { network: Network::Calm, ..of.clone() });
    }
    if of.network == Network::Harsh {
        shapes.push(Scenario { network: Network::Rough, ..of.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{LinesLoad, Workload};

    fn full() -> Scenario {
        let faults = FaultPlan { delay_one_in: 9, deaths: 2, pauses: 1, ..FaultPlan::default() };
        let load = LinesLoad { lines: 8, writes: 30, zipfian: true, ..LinesLoad::default() };
        let workload = Workload::Lines(load);
        let network = Network::Harsh;
        let settings = [("evict-batch".to_owned(), "1".to_owned())].into();
        Scenario {
            compute_nodes: 4,
            frames: 4,
            network,
            settings,
            workload,
            faults,
            ..Scenario::default()
        }
    }

    #[test]
    fn every_part_of_a_scenario_can_become_smaller() {
        let full = full();
        let shapes = smaller(&full);
        assert!(shapes.iter().all(|shape| shape.check().is_ok()));
        let some = |change: &dyn Fn(&Scenario) -> bool| shapes.iter().any(change);
        assert!(some(&|s| s.operations == 1));
        assert!(some(&|s| s.compute_nodes == 2 && s.faults.deaths == 1), "one has to live");
        assert!(some(&|s| s.tasks == 1));
        assert!(some(&|s| s.frames == 16));
        assert!(some(&|s| s.network == Network::Calm));
        assert!(some(&|s| !s.faults.any()));
        assert!(some(&|s| s.settings.is_empty()));
        assert!(some(&|s| s.faults.delay_one_in == 0 && s.faults.deaths == 2));
        assert!(some(&|s| s.faults.deaths == 1 && s.compute_nodes == 4));
        let load = |s: &Scenario| match &s.workload {
            Workload::Lines(load) => Some(load.clone()),
            #[allow(unreachable_patterns, reason = "more kinds come")]
            _ => None,
        };
        assert!(some(&|s| load(s).is_some_and(|load| load.lines == 1)));
        assert!(some(&|s| load(s).is_some_and(|load| !load.zipfian)));
        assert!(some(&|s| load(s).is_some_and(|load| load.writes == 0)));
    }

    #[test]
    fn shapes_come_to_an_end() {
        // Each way to choose among smaller shapes ends at a smallest shape.
        for pick in [0_usize, 1, 7] {
            let mut scenario = full();
            for step in 0.. {
                let shapes = smaller(&scenario);
                let Some(next) = shapes.get(pick % shapes.len().max(1)) else { break };
                scenario = next.clone();
                assert!(step < 1000, "{scenario:?}");
            }
            assert_eq!((scenario.operations, scenario.compute_nodes), (1, 2));
        }
    }
}
