//! The accesses of one client, drawn one after the other.

use super::{ItemNumber, MicroKind, MicroWorkload, Region};
use crate::random::WorkloadRandom;

/// A client and its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientIndex {
    /// The compute node, from 0.
    pub node: u64,
    /// The client, from 0, counted through all nodes.
    pub client: u64,
}

/// One access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MicroAccess {
    /// Read or write.
    pub kind: MicroKind,
    /// The line, from 0.
    pub line: u64,
    /// The item in the line, from 0.
    pub item: u64,
}

/// The endless accesses of one client.
#[derive(Clone, Debug)]
pub struct AccessStream {
    workload: MicroWorkload,
    random: WorkloadRandom,
    node: u64,
    reads: Chance,
    shared: Chance,
    temporal: Chance,
    spatial: Chance,
    last: Option<(u64, u64)>,
}

/// A probability, as a bound: the event occurs if 64 random bits are below the bound.
#[derive(Clone, Copy, Debug)]
struct Chance(u128);

impl Chance {
    fn new(share: f64) -> Chance {
        Chance((share * 2f64.powi(64)) as u128)
    }

    fn draw(self, random: &mut WorkloadRandom) -> bool {
        // With probability 0 or 1, no random number is drawn.
        match self.0 {
            0 => false,
            bound if bound >> 64 > 0 => true,
            bound => u128::from(random.next_u64()) < bound,
        }
    }
}

impl AccessStream {
    /// The accesses of this client in a run with this seed.
    pub fn new(workload: &MicroWorkload, client: ClientIndex, seed: u64) -> AccessStream {
        let config = workload.config();
        AccessStream {
            random: WorkloadRandom::for_stream(seed, client.client),
            node: client.node,
            reads: Chance::new(workload.reads_of(client.node)),
            shared: Chance::new(config.sharing),
            temporal: Chance::new(config.temporal),
            spatial: Chance::new(config.spatial),
            last: None,
            workload: workload.clone(),
        }
    }

    /// The next access.
    #[inline]
    pub fn draw(&mut self) -> MicroAccess {
        let kind =
            if self.reads.draw(&mut self.random) { MicroKind::Read } else { MicroKind::Write };
        let items = self.workload.config().items_per_line;
        let (line, item) = match self.last {
            Some((line, _)) if self.temporal.draw(&mut self.random) => {
                (line, self.random.below(items))
            }
            Some(last) if self.spatial.draw(&mut self.random) => self.behind(last),
            _ => (self.line(), self.random.below(items)),
        };
        self.last = Some((line, item));
        MicroAccess { kind, line, item }
    }

    /// The item after this item. After the last item of the region, the first item of the region
    /// follows.
    fn behind(&self, (line, item): (u64, u64)) -> (u64, u64) {
        if item + 1 < self.workload.config().items_per_line {
            return (line, item + 1);
        }
        let (first, region) = self.region(line < self.workload.shared.lines);
        (first + (line + 1 - first) % region.lines, 0)
    }

    fn line(&mut self) -> u64 {
        let shared = self.shared.draw(&mut self.random);
        let workload = &self.workload;
        let (first, region) = match shared {
            true => (0, &workload.shared),
            false => (self.first_own(), &workload.private),
        };
        first
            + match &region.zipfian {
                None => self.random.below(region.lines),
                Some(zipfian) => region.place(zipfian.draw(&mut self.random)),
            }
    }

    fn region(&self, shared: bool) -> (u64, &Region) {
        match shared {
            true => (0, &self.workload.shared),
            false => (self.first_own(), &self.workload.private),
        }
    }

    fn first_own(&self) -> u64 {
        self.workload.shared.lines + self.node * self.workload.private.lines
    }
}

impl MicroAccess {
    /// The item, counted through all lines.
    pub fn number(&self, items_per_line: u64) -> ItemNumber {
        ItemNumber(self.line * items_per_line + self.item)
    }
}
