//! The order of the measurements. A drift must affect all structures alike.

use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_workload::random::WorkloadRandom;

use super::args::SpatialArgs;
use super::data::Data;
use super::ours::Ours;
use super::results::{Results, What};
use super::rivals::{Rival, Rstar, Static};
use super::subject::{Built, Job, Structure, Subject, Work};
use crate::draws::shuffle;
use crate::error::Failure;
use crate::machine::Machine;
use crate::run::{say, warm};

/// Bytes of memory that a load of one box may take anywhere.
const BYTES_PER_BOX: u64 = 400;
/// The most loads of each structure: a load of a million boxes takes a second.
const LOADS_MAX: u64 = 7;

/// Makes all measurements.
pub(crate) fn run(args: &SpatialArgs) -> Result<Results, Failure> {
    say("boxes, queries, and their answers by a search without a tree");
    let mut run = Run {
        args,
        clock: Clock::start(),
        random: WorkloadRandom::for_stream(args.seed, 0),
        data: Data::new(args.boxes, args.seed),
        results: Results::new(Machine::look()),
    };
    for built in [Built::Packed, Built::Grown] {
        let mut subjects = run.subjects(built);
        run.loads(built, &mut subjects)?;
        run.queries(built, &mut subjects)?;
        if built == Built::Grown {
            run.changes(&mut subjects)?;
        }
    }
    Ok(run.results)
}

struct Run<'a> {
    args: &'a SpatialArgs,
    clock: Clock,
    random: WorkloadRandom,
    data: Data,
    results: Results,
}

impl Run<'_> {
    fn subjects(&self, built: Built) -> Vec<Box<dyn Subject>> {
        let ours = |structure| Box::new(Ours::new(structure, self.args.line_size, self.args.seed));
        let mut subjects: Vec<Box<dyn Subject>> =
            vec![ours(Structure::Latchwork), Box::new(Rival::<Rstar>::new())];
        if built == Built::Packed {
            subjects.push(ours(Structure::LatchworkTwo));
            subjects.push(Box::new(Rival::<Static>::new()));
        }
        subjects.retain(|subject| subject.can(built));
        subjects
    }

    /// Fills all trees, and keeps those of the last repetition.
    fn loads(&mut self, built: Built, subjects: &mut [Box<dyn Subject>]) -> Result<(), Failure> {
        // A grown tree takes many seconds, and each of its inserts is measured later again.
        let repeats = if built == Built::Packed { self.args.repeats.min(LOADS_MAX) } else { 1 };
        for repeat in 0..repeats {
            say(&format!("filling {built:?} trees, {} of {repeats}", repeat + 1));
            for subject in subjects.iter_mut() {
                let structure = subject.structure();
                // The two nodes share one load with the one node: it is the same.
                let counts = structure != Structure::LatchworkTwo;
                if !counts && repeat + 1 < repeats {
                    continue;
                }
                warm(self.args.boxes * BYTES_PER_BOX);
                let rate = subject.fill(built, &self.data, self.clock)?;
                if counts {
                    let what = What { built, threads: 1, work: Work::Load };
                    self.results.add(structure, what, rate);
                }
            }
        }
        for subject in subjects.iter().filter(|s| s.structure() == Structure::Latchwork) {
            if let Some(ratio) = subject.memory(&self.data)? {
                let what = What { built, threads: 1, work: Work::Memory };
                self.results.add(subject.structure(), what, ratio);
            }
        }
        Ok(())
    }

    fn queries(&mut self, built: Built, subjects: &mut [Box<dyn Subject>]) -> Result<(), Failure> {
        let threads: &[usize] = if built == Built::Packed { &[1, 2] } else { &[1] };
        let mut cells = Vec::new();
        for (at, subject) in subjects.iter().enumerate() {
            for &threads in threads {
                let is_across = subject.structure() == Structure::LatchworkTwo;
                if !is_across || threads.is_multiple_of(2) {
                    cells.extend(Work::QUERIES.map(|work| (at, threads, work)));
                }
            }
        }
        say(&format!("queries of {built:?} trees; {} measurements by turns", cells.len()));
        for _ in 0..self.args.repeats {
            shuffle(&mut cells, &mut self.random);
            let start = self.random.below(1 << 16) as usize;
            for &(at, threads, work) in &cells {
                let job = Job {
                    work,
                    threads,
                    data: &self.data,
                    start,
                    time: Duration::from_millis(self.args.time_ms),
                    clock: self.clock,
                };
                let rate = subjects[at].measure(job)?;
                let what = What { built, threads, work };
                self.results.add(subjects[at].structure(), what, rate);
            }
        }
        Ok(())
    }

    /// Inserts and removes.
    fn changes(&mut self, subjects: &mut [Box<dyn Subject>]) -> Result<(), Failure> {
        say("inserts and removes by turns");
        for _ in 0..self.args.repeats {
            for subject in subjects.iter_mut() {
                let (inserts, removes) = subject.churn(&self.data, self.clock)?;
                let what = |work| What { built: Built::Grown, threads: 1, work };
                self.results.add(subject.structure(), what(Work::Insert), inserts);
                self.results.add(subject.structure(), what(Work::Remove), removes);
            }
        }
        Ok(())
    }
}
