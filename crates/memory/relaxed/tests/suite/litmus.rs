//! Litmus tests: small programs with an outcome that distinguishes consistency levels. If a level
//! forbids the outcome, no world may show it. If a level allows the outcome, some world must show
//! it, or the test would prove nothing. An abstract machine of each level produces all allowed
//! outcomes. Every outcome of a run, also of a random program, must be an outcome of that machine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use latchwork_cluster::{Member, Protocol};
use latchwork_coherence::CoherentMemory;
use latchwork_history::calls::ProcessStep::{Fence, Read, Write};
use latchwork_history::calls::check_store_order;
use latchwork_relaxed::{Consistency, WriteBuffer};
use latchwork_simulation::Random;
use latchwork_verbs::GlobalAddr;

use crate::common::programs::{LOCATIONS, Litmus, Program, TELLING, all, order, place};
use crate::common::{LIMIT, Meeting, pause, protocol, rc, settings, world};

/// The outcome of one run of a program.
struct Outcome {
    /// The program, with the values that were read.
    program: Program,
    finals: BTreeMap<char, u64>,
}

const WORKERS: usize = 4;

/// Runs the programs one after the other in one world, and returns their outcomes.
fn run(level: Consistency, seed: u64, programs: Vec<Program>) -> Vec<Outcome> {
    let outcomes = rc(Vec::new());
    let meeting = Rc::new(Meeting::default());
    let running = rc(programs[0].clone());
    let programs = Rc::new(programs);
    let cluster = world(seed);
    let all = {
        let outcomes = outcomes.clone();
        cluster.run(LIMIT, move |member| {
            let (meeting, outcomes) = (meeting.clone(), outcomes.clone());
            let (running, programs) = (running.clone(), programs.clone());
            async move { worker(member, level, seed, &meeting, &programs, &running, &outcomes).await }
        })
    };
    all.unwrap_or_else(|error| panic!("{level}, seed {seed}: {error}"));
    drop(cluster);
    outcomes.take()
}

async fn worker(
    member: Member,
    level: Consistency,
    seed: u64,
    meeting: &Meeting,
    programs: &[Program],
    running: &RefCell<Program>,
    outcomes: &RefCell<Vec<Outcome>>,
) {
    let memory = &member.memory;
    let lines = meeting.lines(&member, 4).await;
    let on_loss = |lost| panic!("{lost}");
    let buffer =
        WriteBuffer::new(memory.clone(), settings(level, seed + 7 * member.index as u64), on_loss)
            .expect("settings");
    let mut met = 0;
    for (round, program) in programs.iter().enumerate() {
        meeting.meet(&member, WORKERS, &mut met).await;
        if member.index == 0 {
            for line in &lines {
                memory.write(*line, clear_words).await.expect("a line");
            }
            running.replace(program.clone());
        }
        meeting.meet(&member, WORKERS, &mut met).await;
        // The ownership of the lines differs from round to round.
        for line in &lines {
            touch(&member, *line).await;
        }
        meeting.meet(&member, WORKERS, &mut met).await;
        let process = (member.index + round + seed as usize) % WORKERS;
        // Workers without a part in the program want its lines.
        for _ in 0..if process < program.len() { 0 } else { 8 } {
            pause(&member).await;
            // Line 0 three times as often as line 1, so that stores to them take different times.
            touch(&member, lines[member.handle.random_below(4) as usize / 3]).await;
        }
        for (at, step) in program.get(process).into_iter().flatten().enumerate() {
            pause(&member).await;
            let mut word = [0; 8];
            match *step {
                Write(location, value) => {
                    let (line, offset) = place(&lines, location);
                    buffer.write(line, offset, &value.to_le_bytes()).await.expect("no loss");
                }
                Read(location, _) => {
                    let (line, offset) = place(&lines, location);
                    buffer.read(line, offset, &mut word).await.expect("no loss");
                    running.borrow_mut()[process][at] = Read(location, u64::from_le_bytes(word));
                }
                Fence => buffer.flush().await.expect("no loss"),
            }
        }
        buffer.flush().await.expect("no loss");
        meeting.meet(&member, WORKERS, &mut met).await;
        if member.index == 0 {
            let mut finals = BTreeMap::new();
            for location in LOCATIONS {
                let (line, offset) = place(&lines, location);
                finals
                    .insert(location, memory.read(line, |w| w.u64(offset)).await.expect("a line"));
            }
            outcomes.borrow_mut().push(Outcome { program: running.borrow().clone(), finals });
        }
    }
    buffer.leave().await.expect("no loss");
}

/// Makes a line shared, or this node's, or leaves it as it is.
async fn touch(member: &Member, line: GlobalAddr) {
    match member.handle.random_below(4) {
        0 => member.memory.write(line, |_| ()).await.expect("a line"),
        1 | 2 => member.memory.read(line, |_| ()).await.expect("a line"),
        _ => {}
    }
}

fn clear_words(guard: &mut latchwork_cache::WriteGuard<'_>) {
    guard.words().clear(0..16);
    guard.mark_dirty(0..16);
}

/// How often a world runs a program.
fn rounds(test: &Litmus) -> usize {
    // An outcome that some level allows has to be seen.
    if test.from.is_some() { 14 } else { 5 }
}

const WORLDS: u64 = 72;

#[test]
fn no_world_shows_what_a_level_forbids_and_some_world_what_it_allows() {
    let all = all();
    let order_of = |k: usize| vec![k; rounds(&all[k])];
    let of: Vec<usize> = (0..all.len()).flat_map(order_of).collect();
    let programs: Vec<Program> = of.iter().map(|test| all[*test].program.clone()).collect();
    for level in Consistency::ALL {
        // For each protocol.
        let mut seen = Protocol::ALL.map(|_| vec![0; all.len()]);
        for seed in 0..WORLDS {
            let of_seed = Protocol::ALL.iter().position(|of| *of == protocol(seed));
            let seen = &mut seen[of_seed.expect("one of them")];
            for (round, outcome) in run(level, seed, programs.clone()).into_iter().enumerate() {
                let test = &all[of[round]];
                let finals = test.finals.iter().all(|(at, value)| outcome.finals[at] == *value);
                seen[of[round]] += usize::from(outcome.program == test.program && finals);
                check_store_order(order(level), &outcome.program, &outcome.finals).unwrap_or_else(
                    |error| {
                        panic!(
                            "{} at {level}, seed {seed}, {:?}: {error}",
                            test.name, outcome.program
                        )
                    },
                );
            }
        }
        for (at, test) in all.iter().enumerate() {
            let allowed = test.from.is_some_and(|from| from as usize <= level as usize);
            let seen = seen.each_ref().map(|seen| seen[at]);
            let runs = WORLDS as usize * rounds(test);
            println!("{:16} {level:10} {seen:?} of {runs}", test.name);
            let text = format!("{} at {level}: seen {seen:?} times", test.name);
            assert_eq!(seen.iter().any(|seen| *seen > 0), allowed, "{text}");
            if TELLING.contains(&test.name) {
                assert_eq!(seen.iter().all(|seen| *seen > 0), allowed, "{text}");
            }
        }
    }
}

/// Depends on `seed` alone: every worker stores values of its own to some of the locations, and
/// reads some.
fn random_program(seed: u64) -> Program {
    let mut random = Random::new(seed);
    let mut value = 0;
    let mut step = |locations: &[char]| {
        let location = locations[random.below(locations.len() as u64) as usize];
        match random.below(10) {
            0..5 => {
                value += 1;
                Write(location, value)
            }
            5..9 => Read(location, 0),
            _ => Fence,
        }
    };
    let locations = [&['x', 'y'][..], &['x', 'y', 'z'], &['x', 'X', 'Y']][(seed % 3) as usize];
    (0..WORKERS).map(|_| (0..5).map(|_| step(locations)).collect()).collect()
}

#[test]
fn random_programs_see_only_what_their_levels_machine_shows() {
    for level in Consistency::ALL {
        // The number of outcomes that the machine of each level cannot show.
        let mut refused = [0; 3];
        for seed in 100..118 {
            let programs = (0..30).map(|round| random_program(1000 * seed + round)).collect();
            for Outcome { program, finals } in run(level, seed, programs) {
                for (of, refused) in Consistency::ALL.into_iter().zip(&mut refused) {
                    let judged = check_store_order(order(of), &program, &finals);
                    *refused += usize::from(judged.is_err());
                    if of == level
                        && let Err(error) = judged
                    {
                        panic!("{level}, seed {seed}: {program:?}, {finals:?}: {error}");
                    }
                }
            }
        }
        println!("{level}: refused by each level's machine {refused:?}");
        for stricter in 0..level as usize {
            assert!(refused[stricter] > 0, "{level} looked like a stricter level: {refused:?}");
        }
    }
}
