//! The parameters of a life, drawn from its seed. A life is the time from a restart to the next
//! crash.

use std::time::Duration;

use latchwork_simulation::Random;
use latchwork_txn::Scheme;
use latchwork_wal::CommitMode;

/// The fault of the device before the end of a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// No fault.
    Calm,
    /// The device is full for a while.
    Full,
    /// The power goes off during an operation of the device.
    Off,
    /// A sync of the device fails.
    Sync,
}

/// The parameters of a life.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) seed: u64,
    pub(crate) scheme: Scheme,
    pub(crate) mode: CommitMode,
    pub(crate) nodes: usize,
    /// The number of timestamps that a worker draws at once.
    pub(crate) block: u64,
    /// Each node mostly changes rows of its own, so clocks rarely learn of each other.
    pub(crate) apart: bool,
    /// Rows move in the secondary index, whose leaves also raise clocks.
    pub(crate) moves: bool,
    /// For each node, the longest pause of its tasks before a transaction.
    pub(crate) paces: Vec<Duration>,
    /// One transaction in this many is slow between its reads and its writes; zero: none.
    pub(crate) slow: u64,
    /// The last node starts when the other nodes are already running transactions.
    pub(crate) late: bool,
    /// All nodes take part in the recovery, and have opened the database before it.
    pub(crate) together: bool,
    /// Commits release their locks early.
    pub(crate) early: bool,
    /// One transaction in this many only reads one row; zero: none.
    pub(crate) looks: u64,
    /// The time of a sync.
    pub(crate) sync: Duration,
    /// The longest pause between two checkpoints; `None`: no checkpoints.
    pub(crate) checkpoints: Option<Duration>,
    pub(crate) fate: Fate,
}

impl Habits {
    /// Life number `number` of the world `seed`.
    pub(crate) fn draw(seed: u64, number: u64, scheme: Scheme, mode: CommitMode) -> Habits {
        let seed = seed * 10 + number;
        let mut random = Random::new(seed);
        let mut one_in = |n: u64| random.below(n) == 0;
        // A database may continue under any scheme after a restart.
        let scheme = if one_in(6) { Scheme::ALL[one_in(2) as usize] } else { scheme };
        let (apart, slow, late) = (one_in(2), one_in(2), one_in(4));
        let moves = one_in(2);
        let (together, often, seldom) = (one_in(2), one_in(2), one_in(2));
        let block = if one_in(2) { 64 } else { 1 };
        let fate = match random.below(8) {
            0 | 1 => Fate::Full,
            2 | 3 => Fate::Off,
            4 => Fate::Sync,
            _ => Fate::Calm,
        };
        let nodes = 1 + random.below(4) as usize;
        let pace = |_| Duration::from_micros([1, 1, 200, 1500][random.below(4) as usize]);
        let paces = (0..nodes).map(pace).collect();
        let checkpoints = match (often, seldom) {
            (true, _) => Some(Duration::from_micros(200)),
            (false, true) => Some(Duration::from_micros(2000)),
            (false, false) => None,
        };
        let slow = if slow { 8 } else { 0 };
        let early = random.below(2) == 0;
        let looks = if random.below(3) > 0 { 3 } else { 0 };
        let sync = Duration::from_micros([50, 50, 400][random.below(3) as usize]);
        let late = late && nodes > 1;
        Habits {
            seed,
            scheme,
            mode,
            nodes,
            block,
            apart,
            moves,
            paces,
            slow,
            late,
            together,
            early,
            looks,
            sync,
            checkpoints,
            fate,
        }
    }
}
