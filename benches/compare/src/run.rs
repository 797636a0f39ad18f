//! The order of the measurements. A drift must affect all structures alike.

use std::time::Duration;

use std::sync::Arc;

use ferntree::OptimisticRead;
use latchwork_runtime::Clock;
use latchwork_workload::random::WorkloadRandom;

use crate::allocator::ALLOCATOR;
use crate::args::{Args, Structure, ValueSize, Workload};
use crate::content::{Content, Wide};
use crate::draws::{Source, shuffle};
use crate::error::Failure;
use crate::machine::{Machine, available_mib};
use crate::ours::Ours;
use crate::report::name;
use crate::results::{Results, What};
use crate::rivals::{
    BPlusTree, CongeeOfArcs, CongeeOfWords, Dash, Ferntree, LockedBTreeMap, Papaya, SccHash,
    SccTree, SkipList,
};
use crate::subject::{Job, Rival, Subject};

type Subjects = Vec<Box<dyn Subject>>;

/// Makes all requested measurements.
pub(crate) fn run(args: &Args) -> Result<Results, Failure> {
    let mut run = Run {
        args,
        clock: Clock::start(),
        random: WorkloadRandom::for_stream(args.seed, 0),
        source: Source::new(args.keys, args.seed),
        results: Results::new(Machine::look()),
    };
    for size in &args.value_size {
        match size {
            ValueSize::Word => run.value_size::<u64>(|| Box::new(new_rival::<CongeeOfWords>()))?,
            ValueSize::Wide => run.value_size::<Wide>(|| Box::new(new_rival::<CongeeOfArcs>()))?,
        }
    }
    Ok(run.results)
}

fn new_rival<M>() -> Rival<M> {
    Rival::new(Structure::Congee)
}

struct Run<'a> {
    args: &'a Args,
    clock: Clock,
    random: WorkloadRandom,
    source: Source,
    results: Results,
}

impl Run<'_> {
    /// All measurements with values of one size.
    fn value_size<V: Content + OptimisticRead>(
        &mut self,
        congee: impl Fn() -> Box<dyn Subject>,
    ) -> Result<(), Failure> {
        let args = self.args;
        let mut subjects: Subjects = args
            .structures()
            .into_iter()
            .map(|structure| subject::<V>(structure, args, &congee))
            .filter(|subject| self.is_asked_for(subject.as_ref()))
            .collect();
        if args.workloads().contains(&Workload::Load) {
            self.loads(V::LEN, &mut subjects)?;
        }
        if args.workloads() == [Workload::Load] {
            return Ok(());
        }
        let groups = self.groups(V::LEN, &subjects);
        for (number, group) in groups.iter().enumerate() {
            if groups.len() > 1 {
                let names: Vec<_> = group.iter().map(|i| name(subjects[*i].structure())).collect();
                say(&format!("group {} of {}: {}", number + 1, groups.len(), names.join(", ")));
            }
            self.group(V::LEN, number, &mut subjects, group)?;
            subjects.iter_mut().for_each(|subject| subject.clear());
        }
        Ok(())
    }

    /// Whether the run requests anything that this structure can do.
    fn is_asked_for(&self, subject: &dyn Subject) -> bool {
        let mut threads = self.args.threads.iter();
        threads.any(|threads| {
            let mut workloads = self.args.workloads().into_iter();
            workloads.any(|workload| subject.can(workload, *threads as usize))
        })
    }

    /// Loads each structure alone, and frees it before the next.
    fn loads(&mut self, value_size: usize, subjects: &mut Subjects) -> Result<(), Failure> {
        let (args, workload) = (self.args, Workload::Load);
        for threads in args.threads.iter().map(|threads| *threads as usize) {
            say(&format!("values of {value_size} bytes, loads, threads: {threads}"));
            let what = What { value_size, threads: Some(threads), workload, distribution: None };
            for _ in 0..args.load_repeats() {
                let mut order: Vec<usize> =
                    (0..subjects.len()).filter(|i| subjects[*i].can(workload, threads)).collect();
                shuffle(&mut order, &mut self.random);
                for i in order {
                    let subject = &mut subjects[i];
                    warm(args.keys * bytes_per_key(subject.structure(), value_size as u64));
                    subject.prepare(args.keys)?;
                    let rate = subject.load(args.keys, threads, self.clock)?;
                    subject.clear();
                    self.results.add(subject.structure(), what, 0, rate);
                }
            }
        }
        Ok(())
    }

    /// The groups of structures that are in memory together. Our tree is the first in every group.
    fn groups(&self, value_size: usize, subjects: &Subjects) -> Vec<Vec<usize>> {
        let available = || available_mib().map_or(8 << 10, |mib| mib * 6 / 10);
        let budget = self.args.memory_mb.unwrap_or_else(available);
        let need = |i: usize| {
            let keys = self.args.keys / 1000;
            keys * bytes_per_key(subjects[i].structure(), value_size as u64) / 1000
        };
        let mut groups = vec![vec![0]];
        let mut used = need(0);
        for i in 1..subjects.len() {
            let full = used + need(i) > budget;
            if full && groups.last().is_some_and(|group| group.len() > 1) {
                groups.push(vec![0]);
                used = need(0);
            }
            groups.last_mut().expect("one at least").push(i);
            used += need(i);
        }
        groups
    }

    /// Fills the structures of a group, and measures them in turn.
    fn group(
        &mut self,
        value_size: usize,
        number: usize,
        subjects: &mut Subjects,
        group: &[usize],
    ) -> Result<(), Failure> {
        let args = self.args;
        let workloads = args.workloads();
        for &i in group {
            let subject = &mut subjects[i];
            say(&format!("values of {value_size} bytes, filling {}", name(subject.structure())));
            subject.prepare(args.keys)?;
            ALLOCATOR.start();
            let loaded = subject.load(args.keys, 1, self.clock);
            let loaded = loaded.and_then(|_| subject.settle(args.keys));
            let bytes = ALLOCATOR.stop() as f64 + subject.frame_bytes() as f64;
            loaded?;
            let workload = Workload::Memory;
            if workloads.contains(&workload) && subject.can(workload, 1) {
                let what = What { value_size, threads: None, workload, distribution: None };
                self.results.add(subject.structure(), what, number, bytes / args.keys as f64);
            }
        }
        for &distribution in &args.distribution {
            for threads in args.threads.iter().map(|threads| *threads as usize) {
                let draws = (0..threads)
                    .map(|thread| self.source.draws(distribution, args.seed, thread).map(Arc::new))
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|error| Failure::Usage(error.to_string()))?;
                let mut cells: Vec<(usize, Workload)> = group
                    .iter()
                    .flat_map(|i| workloads.iter().map(|workload| (*i, *workload)))
                    .filter(|(i, workload)| {
                        !matches!(workload, Workload::Load | Workload::Memory)
                            && subjects[*i].can(*workload, threads)
                    })
                    .collect();
                if cells.is_empty() {
                    continue;
                }
                say(&format!(
                    "values of {value_size} bytes, {}, threads: {threads}; {} measurements by turns",
                    distribution.name(),
                    cells.len()
                ));
                for _ in 0..args.repeats {
                    shuffle(&mut cells, &mut self.random);
                    for &(i, workload) in &cells {
                        let job = Job {
                            workload,
                            threads,
                            draws: &draws,
                            start: self.random.below(1 << 16) as usize,
                            time: Duration::from_millis(args.time_ms),
                            clock: self.clock,
                        };
                        let rate = subjects[i].measure(&job)?;
                        let what = What {
                            value_size,
                            threads: Some(threads),
                            workload,
                            distribution: Some(distribution),
                        };
                        self.results.add(subjects[i].structure(), what, number, rate);
                    }
                }
            }
        }
        Ok(())
    }
}

fn subject<V: Content + OptimisticRead>(
    structure: Structure,
    args: &Args,
    congee: &impl Fn() -> Box<dyn Subject>,
) -> Box<dyn Subject> {
    match structure {
        Structure::Latchwork | Structure::LatchworkTwo => {
            Box::new(Ours::<V>::new(structure, args.line_size, args.seed))
        }
        Structure::Ferntree => Box::new(Rival::<Ferntree<V>>::new(structure)),
        Structure::SccTree => Box::new(Rival::<SccTree<V>>::new(structure)),
        Structure::Congee => congee(),
        Structure::Bplustree => Box::new(Rival::<BPlusTree<V>>::new(structure)),
        Structure::Skiplist => Box::new(Rival::<SkipList<V>>::new(structure)),
        Structure::Btreemap => Box::new(Rival::<LockedBTreeMap<V>>::new(structure)),
        Structure::SccHash => Box::new(Rival::<SccHash<V>>::new(structure)),
        Structure::Dashmap => Box::new(Rival::<Dash<V>>::new(structure)),
        Structure::Papaya => Box::new(Rival::<Papaya<V>>::new(structure)),
    }
}

/// A rough upper bound of the bytes per key, to decide which structures fit into memory together.
fn bytes_per_key(structure: Structure, value_size: u64) -> u64 {
    let entry = 16 + value_size;
    match structure {
        // Frames on the nodes that use the tree, and the lines of the memory node.
        Structure::Latchwork => 2 * entry * 5 / 2,
        Structure::LatchworkTwo => 3 * entry * 5 / 2,
        _ => 64 + 5 * entry / 2,
    }
}

/// Takes `bytes` from the operating system and frees them. A virtual machine waits for its host at
/// the first touch of memory that was unused for a while. That wait is random, and several times
/// longer than anything else in a load.
pub(crate) fn warm(bytes: u64) {
    std::hint::black_box(vec![1_u8; bytes as usize]);
}

/// A status line: these measurements take minutes.
pub(crate) fn say(what: &str) {
    eprintln!("compare: {what}");
}
