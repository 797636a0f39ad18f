//! Draws scenarios from seeds, as swarm testing does (Groce and others, ISSTA 2012). Each world has
//! only a few random features. If one feature hides a bug, a world without the feature can show the
//! bug.

use latchwork_cluster::Protocol;
use latchwork_memnode::Geometry;
use latchwork_strict::strict_assert;
use latchwork_txn::Scheme;
use latchwork_verbs_sim::NicProfile;
use latchwork_workload::random::WorkloadRandom;

use super::{
    BufferedLoad, FaultPlan, LinesLoad, LocksLoad, MemoryLoad, Network, QueueLoad, RtreeLoad,
    Scenario, ScenarioStoreOrder, TreeLoad, TxnLoad, Vary, Workload, WorkloadKind, YcsbLoad,
};

/// The choices from which [`Scenario::from_seed`] draws.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwarmChoice {
    /// The workloads. An empty list means all.
    pub workloads: Vec<WorkloadKind>,
    /// The networks. An empty list means the three named networks, and a NIC profile in every fifth
    /// world. NIC profiles are less frequent, because fewer messages overtake each other there.
    pub networks: Vec<Network>,
    /// Whether worlds have faults.
    pub faults: bool,
    /// Whether worlds vary the settings of the protocol and the line size.
    pub vary: Vary,
    /// Whether nodes die in all worlds, and their lines are recovered. Such worlds are crowded: all
    /// nodes use the same few lines, and deaths come in the middle of hand-overs.
    pub recoveries: bool,
}

impl Default for SwarmChoice {
    fn default() -> Self {
        SwarmChoice {
            workloads: Vec::new(),
            networks: Vec::new(),
            faults: true,
            vary: Vary::Nothing,
            recoveries: false,
        }
    }
}

/// The random stream that decides whether a world has the workload `locks`. A later feature has a
/// stream of its own, so that older seeds without the feature give the same worlds as before.
const LOCKS: u64 = (1 << 40) + 2;

/// The protocols of some worlds: one in this many, drawn from this random stream. `None` is the
/// world's first stream. All other worlds have [`Protocol::default`]. A later protocol has a stream
/// of its own, for the same reason as [`LOCKS`]. If a seed draws several, the last one counts. The
/// seeds of `apps/sim/worlds.txt` draw no later protocol from these streams.
const PROTOCOLS: [(Protocol, u64, Option<u64>); 3] = [
    (Protocol::Sel, 6, None),
    (Protocol::Gam, 8, Some((1 << 40) + 70)),
    (Protocol::ScaleStore, 8, Some((1 << 40) + 244)),
];

/// The random stream that decides whether a world has death notices. This stream is separate for
/// the same reason as [`LOCKS`].
const DEPARTURES: u64 = (1 << 40) + 14;

/// The random stream that decides the line size where settings vary. This stream is separate for
/// the same reason as [`LOCKS`].
const LINE_SIZES: u64 = (1 << 40) + 16;

/// The random stream that decides whether the homes of the lines are at the compute nodes, where
/// the protocol has homes. This stream is separate for the same reason as [`LOCKS`].
const COMPUTE_HOMES: u64 = (1 << 40) + 300;

/// The random stream of the settings that only ScaleStore has. This stream is separate for the same
/// reason as [`LOCKS`].
const WAYS_OF_CONFLICT: u64 = (1 << 40) + 17;

/// The random stream of worlds that recover lines. This stream is separate for the same reason as
/// [`LOCKS`].
const RECOVERIES: u64 = (1 << 40) + 20;

/// The line sizes of most worlds, in bytes. Small lines make fast worlds.
const SMALL_LINES: [u32; 2] = [512, 1024];
const _: () = assert!(
    SMALL_LINES[0] < SMALL_LINES[1]
        && SMALL_LINES[0].is_power_of_two()
        && SMALL_LINES[1].is_power_of_two()
);
const _: () = assert!(
    LOCKS != DEPARTURES && DEPARTURES != LINE_SIZES && LOCKS != LINE_SIZES,
    "two draws share a number"
);

/// The line size of a random sixth of the worlds, where settings vary: each size that a pool offers
/// has the same probability. Most worlds keep small lines, because large lines make slow worlds.
fn any_line_size(seed: u64, vary: Vary) -> Option<u32> {
    let mut draw = Draw(WorkloadRandom::for_stream(seed, LINE_SIZES));
    if vary == Vary::Nothing || !draw.chance(6) {
        return None;
    }
    let (least, most) = (Geometry::MIN_LINE.ilog2(), Geometry::MAX_LINE.ilog2());
    Some(1 << draw.between(least.into(), most.into()))
}

/// Adds lost nodes and death notices to a random quarter of the worlds.
fn departures(scenario: &mut Scenario) {
    let mut draw = Draw(WorkloadRandom::for_stream(scenario.seed, DEPARTURES));
    if !draw.chance(4) {
        return;
    }
    let plan = &mut scenario.faults;
    plan.told_us = draw.one_of(&[20, 200, 1_000, 4_000]);
    let room = |plan: &FaultPlan| scenario.compute_nodes as u64 - 1 - u64::from(plan.departures());
    plan.lapses = draw.between(0, room(plan)) as u32;
    if plan.departures() == 0 {
        plan.deaths = draw.between(1, room(plan)) as u32;
    }
}

/// Puts the homes at the compute nodes in a random third of the worlds with homes. With a memory
/// node, such a world would lose a compute node, so it has no fault of that kind.
fn compute_homes(scenario: &mut Scenario) {
    let mut draw = Draw(WorkloadRandom::for_stream(scenario.seed, COMPUTE_HOMES));
    if scenario.protocol.has_homes() && scenario.faults.lost_memory == 0 && draw.chance(3) {
        scenario.settings.insert("home".to_owned(), "compute".to_owned());
    }
}

/// Makes a world crowded, and lets nodes die in it whose lines are recovered.
fn recoveries(scenario: &mut Scenario) {
    let mut draw = Draw(WorkloadRandom::for_stream(scenario.seed, RECOVERIES));
    scenario.protocol = Protocol::Selcc;
    scenario.settings.insert("survive".to_owned(), "on".to_owned());
    scenario.compute_nodes = draw.between(4, 6) as usize;
    scenario.memory_nodes = draw.between(1, 2) as usize;
    scenario.workers = draw.between(1, 2) as usize;
    scenario.tasks = draw.one_of(&[2, 4]);
    scenario.operations = 40;
    scenario.frames = draw.one_of(&[4, 8, 16]);
    let lines = draw.one_of(&[1, 2, 4, 8]);
    match &mut scenario.workload {
        Workload::Lines(load) => {
            (load.lines, load.writes) = (lines, draw.one_of(&[5, 10, 20, 40]));
        }
        Workload::Buffered(load) => load.lines = lines,
        Workload::Locks(load) => load.lines = lines,
        _ => {}
    }
    // A delay of a hand-over's operation on the word makes the time long in which a death leaves
    // the new holder with the only copy.
    scenario.faults = FaultPlan {
        deaths: draw.between(1, 3) as u32,
        told_us: draw.one_of(&[4, 50, 300]),
        until_us: draw.one_of(&[100, 300]),
        delay_one_in: draw.one_of(&[2, 4, 10]),
        delay_us: draw.one_of(&[20, 100]),
        fail_one_in: draw.one_of(&[0, 0, 30]),
        repeat_one_in: draw.one_of(&[0, 0, 3]),
        slow: draw.one_of(&[0, 0, 1, 2]),
        pauses: draw.one_of(&[0, 0, 2]),
        ..FaultPlan::default()
    };
    let plan = &mut scenario.faults;
    plan.lapses = draw.one_of(&[0, 0, 1]).min(scenario.compute_nodes as u32 - 1 - plan.deaths);
    plan.replacements = draw.one_of(&[0, 0, 1, 2]).min(plan.departures());
    if let Workload::Buffered(_) = &scenario.workload {
        // Each task has its place in a line.
        plan.replacements = plan.replacements.min(1);
    }
}

struct Draw(WorkloadRandom);

impl Draw {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        strict_assert!(least <= most, "a draw from nothing");
        least + self.0.below(most - least + 1)
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        strict_assert!(!of.is_empty(), "a draw from nothing");
        of[self.0.below(of.len() as u64) as usize].clone()
    }

    fn chance(&mut self, one_in: u64) -> bool {
        strict_assert!(one_in > 0, "a chance of one in none");
        self.0.below(one_in) == 0
    }
}

impl Scenario {
    /// The scenario of a seed, drawn from the given choices. The worlds are small. The scenarios of
    /// neighbouring seeds are independent draws.
    pub fn from_seed(seed: u64, of: &SwarmChoice) -> Scenario {
        let mut draw = Draw(WorkloadRandom::for_stream(seed, 0));
        let kind = draw.kind(seed, of);
        let mut scenario = Scenario {
            seed,
            compute_nodes: draw.between(2, 6) as usize,
            memory_nodes: draw.between(1, 3) as usize,
            workers: draw.between(1, 3) as usize,
            tasks: draw.between(1, 3) as usize,
            operations: 0,
            protocol: draw.protocol(seed),
            network: draw.network(of),
            frames: draw.between(4, 32) as usize,
            line_size: draw.one_of(&SMALL_LINES),
            workload: draw.workload(kind),
            settings: of.vary.draw(seed),
            ..Scenario::default()
        };
        if of.recoveries {
            recoveries(&mut scenario);
        }
        if let Workload::Locks(load) = &mut scenario.workload
            && scenario.frames < LocksLoad::frames_to_look(scenario.workers * scenario.tasks)
        {
            load.looks = 0;
        }
        scenario.frames = scenario.frames_at_least();
        if let Some(line_size) = any_line_size(seed, of.vary) {
            scenario.line_size = line_size;
        }
        let tasks = (scenario.compute_nodes * scenario.workers * scenario.tasks) as u64;
        let operations = match kind {
            // An operation is a transaction of several steps, and may run more than once.
            WorkloadKind::Txn => draw.between(40, 160),
            _ => draw.between(200, 800),
        };
        if !of.recoveries || matches!(kind, WorkloadKind::Txn) {
            scenario.operations = (operations / tasks).max(5);
        }
        if of.faults && !of.recoveries {
            scenario.faults = draw.faults(&scenario);
            departures(&mut scenario);
        }
        compute_homes(&mut scenario);
        scenario.deadline_us = patience(&scenario);
        scenario.settle_deaths();
        scenario
    }

    /// Where lines of dead nodes are recovered, accesses have the time to wait for the recovery.
    /// Where the recovery cannot be judged, no line is recovered.
    pub fn settle_deaths(&mut self) {
        if self.faults.departures() == 0 || !self.settings.contains_key("survive") {
            return;
        }
        if !self.recovers() {
            self.settings.remove("survive");
        }
        self.deadline_us = patience(self);
    }

    /// Draws the settings that only the protocol of this scenario has, unless they are set. Callers
    /// call this when the protocol and the faults are final.
    pub fn vary_ways_of_conflict(&mut self) {
        if !self.protocol.has_ways_of_conflict() {
            return;
        }
        let mut draw = Draw(WorkloadRandom::for_stream(self.seed, WAYS_OF_CONFLICT));
        let chaining = draw.one_of(&["on", "on", "fifo", "polling"]);
        let taken = draw.one_of(&["copy", "copy", "copy", "move"]);
        for (name, value, default) in
            [("chaining", chaining, "on"), ("reader-takes", taken, "copy")]
        {
            if value != default {
                self.settings.entry(name.to_owned()).or_insert_with(|| value.to_owned());
            }
        }
    }
}

/// The deadline of an access, in microseconds. Where no access may fail, the deadline is far above
/// the longest access. Without invalidation messages (SEL), an access may wait for luck, so the
/// deadline is longer.
fn patience(scenario: &Scenario) -> u64 {
    let plan = &scenario.faults;
    let slow = if plan.slow > 0 { u64::from(plan.slow_factor) } else { 1 };
    let network = if scenario.network == Network::Harsh { 3 } else { 1 };
    match scenario.protocol.requests_lines() {
        _ if scenario.may_fail_operations() => 10_000,
        _ if scenario.recovers() => 200_000 * slow * network,
        true => 20_000 * slow * network,
        false => 1_000_000 * slow * network,
    }
}

impl Draw {
    fn protocol(&mut self, seed: u64) -> Protocol {
        let mut drawn = Protocol::default();
        for (protocol, one_in, stream) in PROTOCOLS {
            let is_drawn = match stream {
                None => self.chance(one_in),
                Some(stream) => Draw(WorkloadRandom::for_stream(seed, stream)).chance(one_in),
            };
            drawn = if is_drawn { protocol } else { drawn };
        }
        drawn
    }

    fn network(&mut self, of: &SwarmChoice) -> Network {
        if !of.networks.is_empty() {
            return self.one_of(&of.networks);
        }
        if self.chance(5) {
            let names: Vec<_> = NicProfile::kinds().collect();
            return Network::Nic(self.one_of(&names).to_owned());
        }
        self.one_of(&[Network::Calm, Network::Rough, Network::Harsh])
    }

    fn kind(&mut self, seed: u64, of: &SwarmChoice) -> WorkloadKind {
        if !of.workloads.is_empty() {
            return self.one_of(&of.workloads);
        }
        // The draw of `locks` has its own stream: see [`LOCKS`]. The R-tree, the queues and the
        // transactions are drawn only if the caller names them, for the same reason.
        let [others @ .., locks, _rtree, _queue, _txn] = WorkloadKind::ALL;
        let other = self.one_of(&others);
        if WorkloadRandom::for_stream(seed, LOCKS).below(6) == 0 { locks } else { other }
    }

    fn workload(&mut self, kind: WorkloadKind) -> Workload {
        match kind {
            WorkloadKind::Lines => {
                let writes = self.one_of(&[0, 10, 30, 50]);
                Workload::Lines(LinesLoad {
                    lines: self.one_of(&[1, 2, 4, 8, 16, 40]),
                    writes,
                    upgrades: self.one_of(&[0, 10, 30]),
                    dropped: self.one_of(&[0, 0, 15]),
                    atomics: self.one_of(&[0, 5]),
                    zipfian: self.chance(2),
                })
            }
            WorkloadKind::Buffered => Workload::Buffered(BufferedLoad {
                lines: self.one_of(&[1, 2, 4, 8, 16]),
                order: self.one_of(&[ScenarioStoreOrder::Tso, ScenarioStoreOrder::Pso]),
                writes: self.one_of(&[30, 50, 70]),
                fences: self.one_of(&[0, 3, 10]),
                updates: self.one_of(&[0, 5]),
                dropped: self.one_of(&[0, 0, 20]),
                batch: self.one_of(&[1, 2, 4, 8, 32]),
                linger_us: self.one_of(&[0, 5, 20]),
                write_deadline_us: self.one_of(&[0, 0, 0, 60, 300, 2_000]),
                zipfian: self.chance(2),
            }),
            WorkloadKind::Locks => Workload::Locks(LocksLoad {
                lines: self.one_of(&[1, 2, 4, 8, 16]),
                most: self.one_of(&[1, 2, 3, 5]),
                upgrades: self.one_of(&[0, 30, 100]),
                audits: self.one_of(&[0, 10, 30]),
                flags: self.one_of(&[0, 20, 50]),
                looks: self.one_of(&[0, 10, 20]),
                dropped: self.one_of(&[0, 0, 10]),
            }),
            WorkloadKind::Memory => {
                Workload::Memory(MemoryLoad { slots: self.one_of(&[1, 4, 12, 28]) })
            }
            WorkloadKind::Ycsb => Workload::Ycsb(YcsbLoad {
                mix: self.one_of(&["a", "b", "c", "d", "e", "f"]).to_owned(),
                records: self.between(2, 50),
                entries_per_page: self.one_of(&[3, 3, 0]),
            }),
            WorkloadKind::Rtree => Workload::Rtree(RtreeLoad {
                boxes: self.between(4, 80),
                dropped: self.one_of(&[0, 0, 20]),
                entries_per_page: self.one_of(&[3, 3, 3, 0]),
            }),
            WorkloadKind::Queue => {
                let queues = self.one_of(&[1, 1, 2, 5]);
                Workload::Queue(QueueLoad {
                    keys: self.between(6 * queues, 60),
                    queues,
                    dropped: self.one_of(&[0, 0, 20]),
                    entries_per_page: self.one_of(&[3, 3, 3, 0]),
                })
            }
            WorkloadKind::Txn => {
                let keys = self.between(2, 20);
                Workload::Txn(TxnLoad {
                    scheme: self.one_of(&Scheme::ALL),
                    keys,
                    hot: self.one_of(&[0, 1, 2, 4]).min(keys),
                    steps: self.one_of(&[2, 4, 4, 8]),
                    updates: self.one_of(&[10, 30]),
                    inserts: self.one_of(&[0, 15, 30]),
                    deletes: self.one_of(&[0, 10, 20]),
                    scans: self.one_of(&[0, 15, 20]),
                    dropped: self.one_of(&[0, 0, 10]),
                    rows_per_line: self.one_of(&[0, 0, 1, 3]),
                    elder_after: self.one_of(&[16, 16, 2]),
                })
            }
            WorkloadKind::Tree => {
                let keys = self.between(4, 60);
                Workload::Tree(TreeLoad {
                    keys,
                    loaded: self.one_of(&[0, keys]),
                    dropped: self.one_of(&[0, 0, 20]),
                    entries_per_page: self.one_of(&[3, 3, 3, 0]),
                    ..TreeLoad::default()
                })
            }
        }
    }

    /// A few faults, each with its own rate. A random third of the worlds has none.
    fn faults(&mut self, of: &Scenario) -> FaultPlan {
        let mut plan = FaultPlan::default();
        if self.chance(3) {
            return plan;
        }
        plan.until_us = self.one_of(&[100, 300, 1_000, 3_000]);
        plan.delay_us = self.one_of(&[5, 50, 300]);
        plan.pause_us = self.one_of(&[20, 200, 1_500]);
        for _ in 0..self.between(1, 3) {
            match self.between(0, 9) {
                0 | 1 => plan.delay_one_in = self.one_of(&[3, 20, 200]),
                2 | 3 => plan.repeat_one_in = self.one_of(&[2, 10, 100]),
                4 | 5 => plan.pauses = self.between(1, 4) as u32,
                6 => {
                    plan.slow = self.between(1, of.compute_nodes as u64) as u32;
                    plan.slow_factor = self.one_of(&[2, 10, 30]);
                }
                7 => plan.fail_one_in = self.one_of(&[20, 100, 500]),
                8 => plan.lose_one_in = self.one_of(&[10, 50, 300]),
                _ if self.chance(3) => plan.lost_memory = 1,
                _ => plan.deaths = self.between(1, of.compute_nodes as u64 - 1) as u32,
            }
        }
        plan
    }
}
