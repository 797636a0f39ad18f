//! The lines. All workers allocate and fill them, and all workers read them at the end of the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_coherence::CoherentMemory as _;
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_verbs::{GlobalAddr, LINE_HEADER};
use latchwork_workload::micro::{ItemLayout, ItemNumber, ItemTag, WriteKind};
use serde::{Deserialize, Serialize};

use crate::settings::{Settings, allocated};

/// The layout of items in a line.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) layout: ItemLayout,
    pub(crate) items: u64,
}

impl Place {
    pub(crate) fn of(settings: &Settings) -> Place {
        let items = settings.workload.config().items_per_line;
        Place { layout: settings.layout, items }
    }

    /// The offset of an item in the line's payload.
    pub(crate) fn offset(&self, item: u64) -> usize {
        item as usize * self.layout.bytes()
    }

    /// The item's number: the global address of the item, which is unique.
    pub(crate) fn number(&self, line: GlobalAddr, item: u64) -> ItemNumber {
        ItemNumber(line.bits() + (LINE_HEADER + self.offset(item)) as u64)
    }
}

/// The lines that the run accesses.
pub(crate) struct Lines {
    pub(crate) settings: Arc<Settings>,
    pub(crate) all: Vec<GlobalAddr>,
}

/// The numbers of `0..count` in the share of a worker, by its place among so many workers.
fn share(count: u64, (index, workers): (usize, usize)) -> std::ops::Range<u64> {
    let part = |index: usize| count * index as u64 / workers as u64;
    part(index)..part(index + 1)
}

/// Allocates one worker's share of the lines, and fills their items with the first stamp. Returns
/// the addresses of the lines as bits.
pub(crate) async fn make(
    settings: Arc<Settings>,
    phase: Arc<PhaseProgress>,
    member: Member,
) -> Result<Vec<u64>, AppError> {
    let (memory, place) = (&member.memory, Place::of(&settings));
    let count = allocated(settings.workload.lines(), &settings.common.cluster);
    let mut lines = Vec::new();
    for _ in share(count, (member.index, settings.common.workers())) {
        if phase.stopped() {
            // The phase reports why some lines are missing.
            break;
        }
        let made = async {
            let line = memory.allocate().await?;
            let filled = memory.write(line, |guard| {
                let words = guard.words();
                for item in 0..place.items {
                    let offset = place.offset(item);
                    let set = |at: usize, word| words.set_u64(offset + 8 * at, word);
                    place.layout.write(place.number(line, item), ItemTag::default(), set);
                }
                let end = words.len();
                guard.mark_dirty(0..end);
            });
            filled.await.map(|()| line.bits())
        };
        lines.push(made.await.map_err(|error| settings.memory_error(&error))?);
        phase.count(member.index);
    }
    Ok(lines)
}

/// The lines to access, out of all allocated lines. Each memory node has the same number of them.
/// Lines with consecutive numbers are on different memory nodes.
pub(crate) fn spread(made: impl Iterator<Item = GlobalAddr>, lines: u64) -> Vec<GlobalAddr> {
    let mut nodes: BTreeMap<_, Vec<GlobalAddr>> = BTreeMap::new();
    for line in made {
        nodes.entry(line.node()).or_default().push(line);
    }
    let mut nodes: Vec<_> = nodes.into_values().map(|lines| lines.into_iter()).collect();
    let mut spread = Vec::with_capacity(lines as usize);
    while spread.len() < lines as usize {
        let before = spread.len();
        spread.extend(nodes.iter_mut().filter_map(Iterator::next));
        if spread.len() == before {
            break;
        }
    }
    spread.truncate(lines as usize);
    spread
}

/// What one worker found at the end.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) items: u64,
    /// The sum of all stamps.
    pub(crate) stamps: u64,
    /// The number of items with contents that no write has produced, and the first of them.
    pub(crate) garbage: u64,
    pub(crate) first: Option<String>,
    /// The largest stamp of each client, if each client has its own stamps.
    pub(crate) last_of: Vec<u64>,
}

impl Found {
    pub(crate) fn merge(&mut self, other: Found) {
        self.items += other.items;
        self.stamps = self.stamps.wrapping_add(other.stamps);
        self.garbage += other.garbage;
        self.first = self.first.take().or(other.first);
        self.last_of.resize(self.last_of.len().max(other.last_of.len()), 0);
        for (mine, other) in self.last_of.iter_mut().zip(other.last_of) {
            *mine = other.max(*mine);
        }
    }
}

/// Reads one worker's share of the lines, by its place among those that read.
pub(crate) async fn inspect(
    lines: Arc<Lines>,
    phase: Arc<PhaseProgress>,
    of: (usize, usize),
    member: Member,
) -> Result<Found, AppError> {
    let Lines { settings, all } = &*lines;
    let (memory, place) = (&member.memory, Place::of(settings));
    // Only blind writes have stamps of their client.
    let clients = match settings.workload.config().writes {
        WriteKind::Locked => 0,
        WriteKind::Blind => settings.clients(),
    };
    let mut found = Found { last_of: vec![0; clients], ..Found::default() };
    let mut stamps = Vec::new();
    for at in share(all.len() as u64, of) {
        member.handle.coop().await;
        if phase.stopped() {
            break;
        }
        let line = all[at as usize];
        let read = memory.read(line, |words| {
            stamps.clear();
            stamps.extend((0..place.items).map(|item| {
                let offset = place.offset(item);
                place.layout.read(place.number(line, item), |at| words.u64(offset + 8 * at))
            }));
        });
        read.await.map_err(|error| settings.memory_error(&error))?;
        phase.count(member.index);
        for (item, stamp) in stamps.iter().enumerate() {
            found.items += 1;
            match stamp {
                Ok(ItemTag(stamp)) => {
                    found.stamps = found.stamps.wrapping_add(*stamp);
                    if let (Some(of), 1..) = (stamp.checked_sub(1), clients) {
                        let last = &mut found.last_of[(of % clients as u64) as usize];
                        *last = (*last).max(of / clients as u64 + 1);
                    }
                }
                Err(garbage) => {
                    found.garbage += 1;
                    found.first.get_or_insert_with(|| {
                        format!("item {item} of line {line}, word {}", garbage.word)
                    });
                }
            }
        }
    }
    Ok(found)
}
