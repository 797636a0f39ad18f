//! A program that only tests run, as several processes. One process, the odd one, behaves as the
//! flags say. The other processes must end with the odd one.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use latchwork_cluster::Member;
use latchwork_harness::progress::{Extent, Title};
use latchwork_harness::{
    AppError, ClusterFlags, Course, FabricFlags, MIB, Named, NamesFiles, OutputFlags,
    PhaseProgress, Plan, RunCluster, RunPart, Share, Warmup, outcome, stop,
};
use latchwork_runtime::Time;

const WORK: Title = Title { name: "work", what: "steps" };

/// A deadline far later than any test runs.
const LONG: Duration = Duration::from_secs(3600);

/// The duration of each step.
const STEP: Duration = Duration::from_millis(1);

/// The number of the step at which the odd process fails or panics.
const BEFORE: u32 = 200;

/// Several processes that work together until one of them does something else.
#[derive(Debug, Parser)]
#[command(name = "part", args_override_self = true)]
struct Cli {
    /// What the odd one does; without it all measure a run.
    #[arg(long, value_enum)]
    odd: Option<Odd>,
    /// The place of the odd one.
    #[arg(long, default_value = "1")]
    place: usize,
    /// Steps of the warm-up, of each.
    #[arg(long, default_value = "10")]
    warm: u64,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    fabric: FabricFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Odd {
    /// Its work fails.
    Fails,
    /// Its work fails as if its command line were wrong.
    Usage,
    /// One of its workers panics.
    Panics,
    /// It fails where it does nothing together with the others.
    Apart,
    /// It works while all others are done.
    Slow,
}

impl NamesFiles for Cli {
    fn files(&self) -> Vec<Named> {
        self.fabric.files().chain(self.output.files()).collect()
    }
}

fn main() -> ExitCode {
    latchwork_harness::start("part", |cli: Cli| {
        let fabric = cli.fabric.choice()?;
        let config = cli.cluster.config(1, &fabric, |_| 16 * MIB)?;
        let cluster = RunCluster::start(config, &fabric)?;
        let ended = run(&cli, &cluster);
        cluster.end(ended).map(|_| true)
    })
}

fn run(cli: &Cli, cluster: &RunCluster) -> Result<(), AppError> {
    cluster.agree("part", ClusterFlags::describe(cluster.config()))?;
    let is_odd = cluster.process().0 == cli.place;
    let odd = cli.odd.filter(|_| is_odd);
    if odd == Some(Odd::Apart) {
        return Err(AppError::Failed("it broke apart from the others".to_owned()));
    }
    let phase = Arc::new(PhaseProgress::new(cluster.process().1));
    if let Some(of_one) = cli.odd {
        let at_once = of_one == Odd::Slow && !is_odd;
        let shared = phase.clone();
        let body = move |member| work(shared.clone(), member, odd, at_once);
        cluster.run_phase(WORK, Extent::Until(Time::MAX), &phase, body)?;
        return Ok(());
    }
    let warm = cli.warm * (1 + cluster.process().0 as u64);
    let (warmup, time) = (Warmup::Operations(warm), Some(Duration::from_millis(300)));
    let plan = Plan { warmup, operations: None, time };
    let begin = cluster.now_of_all()?;
    let course = Arc::new(Course::new(plan, cluster.nodes(), 1, cluster.loop_time(), begin));
    let (shared, ending) = (course.clone(), course.clone());
    let _measuring = stop::measuring(move |signal| ending.stop(signal));
    cluster.run_course(&course, move |member| follow(shared.clone(), member))?;
    let went = course.went()?;
    let all = cluster.share((went.from, went.end))?;
    outcome::tell(None, |out| all.iter().try_for_each(|went| writeln!(out, "{went:?}")))
}

async fn work(
    phase: Arc<PhaseProgress>,
    member: Member,
    odd: Option<Odd>,
    at_once: bool,
) -> Option<()> {
    let end = member.handle.now() + LONG;
    let mut steps = 0;
    while !phase.stopped() && !at_once && member.handle.now() < end {
        member.handle.sleep(STEP).await;
        phase.count(member.index);
        steps += 1;
        match odd.filter(|_| steps == BEFORE) {
            Some(Odd::Fails) => phase.fail(AppError::Failed("it broke".to_owned())),
            Some(Odd::Usage) => phase.fail(AppError::Usage("--odd usage: use another".to_owned())),
            Some(Odd::Panics) => panic!("as it was told to"),
            Some(Odd::Apart | Odd::Slow) | None => {}
        }
    }
    Some(())
}

async fn follow(course: Arc<Course>, member: Member) -> u64 {
    let share = Share::default();
    let mut measured = 0;
    while let Some(part) = course.next(&share, member.handle.now()) {
        measured += u64::from(part == RunPart::Measured);
        member.handle.sleep(STEP).await;
    }
    measured
}
