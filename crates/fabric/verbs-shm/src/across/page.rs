//! [`Page`]: the file in which a compute node shows its state to the processes of its peers. The
//! steps P, B and K are those of the parent module's argument.

use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, Region, RegionKey, WORD};

/// The layout in words of 8 bytes: first constant words, then words that change. Each kind is on
/// CPU cache lines of its own.
///
/// ```text
///   word 0 1            2        16      32..36            48     64..576           1024..3072
///   magic  incarnation  node id  active  parked: 256 bits  count  regions: 128 × 4  spots: 256 × 8
///                                                                 key, file, bytes  rung, turn
/// ```
///
/// Other processes write only the words of the parking spots. The node's own process writes all
/// words.
#[cfg(not(loom))]
mod layout {
    pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"latchpg1");
    pub(super) const ACTIVE: usize = 16;
    pub(super) const PARKED: usize = 32;
    pub(super) const COUNT: usize = 48;
    pub(super) const REGIONS: usize = 64;
    pub(super) const REGIONS_MAX: usize = 128;
    pub(super) const BEDS: usize = 1024;
    pub(super) const BEDS_MAX: usize = 256;
    pub(super) const BED_WORDS: usize = 8;
}

/// A small layout for the model checker, which tracks every word.
#[cfg(loom)]
mod layout {
    pub(super) const MAGIC: u64 = 1;
    pub(super) const ACTIVE: usize = 3;
    pub(super) const PARKED: usize = 4;
    pub(super) const COUNT: usize = 5;
    pub(super) const REGIONS: usize = 6;
    pub(super) const REGIONS_MAX: usize = 0;
    pub(super) const BEDS: usize = 6;
    pub(super) const BEDS_MAX: usize = 2;
    pub(super) const BED_WORDS: usize = 2;
}

use layout::{ACTIVE, BED_WORDS, BEDS, COUNT, MAGIC, PARKED, REGIONS, REGIONS_MAX};

// Indices of words, which both layouts share.
const INCARNATION: usize = 1;
const NODE: usize = 2;
/// The number of words of an entry in the table of regions.
const REGION_WORDS: usize = 4;
/// The number of bits of a word.
const BITS: usize = u64::BITS as usize;
#[cfg(not(loom))]
const _: () = assert!(
    layout::ACTIVE > NODE
        && layout::PARKED > layout::ACTIVE
        && layout::COUNT >= layout::PARKED + layout::BEDS_MAX.div_ceil(BITS),
    "the fields of a page do not overlap"
);
#[cfg(not(loom))]
const _: () = assert!(
    layout::REGIONS + layout::REGIONS_MAX * REGION_WORDS <= layout::BEDS
        && layout::REGIONS > layout::COUNT,
    "the table of regions ends before the parking spots"
);
const _: () = assert!(layout::BED_WORDS >= 2, "a parking spot has a ring and a turn");
const _: () = assert!(ComputeNodeId::MAX as usize <= BITS, "each sender has a bit of a ring");

/// The page of one compute node; see the layout above.
pub(crate) struct Page(Arc<Region>);

impl Page {
    /// Bytes of the file.
    pub(crate) const BYTES: usize = (layout::BEDS + layout::BEDS_MAX * BED_WORDS) * WORD;
    /// The number of workers of one node that other processes can wake.
    pub(crate) const BEDS_MAX: usize = layout::BEDS_MAX;

    /// Makes the page of a new node in a region of zeros.
    pub(crate) fn create(region: Arc<Region>, incarnation: u64, id: ComputeNodeId) -> Self {
        let words = region.words();
        words.set_word(INCARNATION, incarnation);
        words.set_word(NODE, id.get().into());
        words.set_word(0, MAGIC);
        Page(region)
    }

    /// Opens the page of a peer; `None` when the region is not the page of this node.
    pub(crate) fn open(region: Arc<Region>, incarnation: u64, id: ComputeNodeId) -> Option<Self> {
        let words = region.words();
        let head = [words.word(0), words.word(INCARNATION), words.word(NODE)];
        let fits = region.len() == Self::BYTES && head == [MAGIC, incarnation, id.get().into()];
        fits.then(|| Page(region))
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.0.atomics()[index]
    }

    // ---- polling workers ------------------------------------------------------------------------

    /// The number of the node's workers that are active. Only the node's own process changes the
    /// count.
    #[inline]
    pub(crate) fn active(&self) -> &AtomicU64 {
        self.word(ACTIVE)
    }

    /// Step P: records that the worker of this parking spot is about to park. The change is an
    /// atomic read-modify-write, because several threads of the node's process change the same
    /// word.
    pub(crate) fn set_parked(&self, bed: usize) {
        strict_assert!(bed < Self::BEDS_MAX, "parking spot {bed} is outside the page");
        self.word(PARKED + bed / BITS).fetch_or(1 << (bed % BITS), Ordering::Relaxed);
    }

    /// Records that the worker of this parking spot is awake.
    pub(crate) fn clear_parked(&self, bed: usize) {
        strict_assert!(bed < Self::BEDS_MAX, "parking spot {bed} is outside the page");
        self.word(PARKED + bed / BITS).fetch_and(!(1 << (bed % BITS)), Ordering::Relaxed);
    }

    /// A parking spot whose worker is parked, according to the page; `None` when there is none.
    fn parked(&self) -> Option<usize> {
        (0..Self::BEDS_MAX.div_ceil(BITS)).find_map(|word| {
            let bits = self.word(PARKED + word).load(Ordering::Relaxed);
            let bed = word * BITS + bits.trailing_zeros() as usize;
            (bits != 0 && bed < Self::BEDS_MAX).then_some(bed)
        })
    }

    // ---- parking spots --------------------------------------------------------------------------

    fn rung(&self, bed: usize) -> &AtomicU64 {
        strict_assert!(bed < Self::BEDS_MAX, "parking spot {bed} is outside the page");
        self.word(BEDS + bed * BED_WORDS)
    }

    /// The index of the word `turn`, which every wake changes.
    fn turn(bed: usize) -> usize {
        strict_assert!(bed < Self::BEDS_MAX, "parking spot {bed} is outside the page");
        BEDS + bed * BED_WORDS + 1
    }

    /// The value of `turn`. A worker reads it before the last check of whether to sleep.
    pub(crate) fn turn_of(&self, bed: usize) -> u64 {
        // Acquire: a thread that sees the change sees everything before the change.
        self.word(Self::turn(bed)).load(Ordering::Acquire)
    }

    /// Sleeps until a wake changes `turn`, for at most `at_most`.
    pub(crate) fn sleep_while_turn_is(&self, bed: usize, turn: u64, at_most: Option<Duration>) {
        // The low 32 bits are enough, because four billion wakes do not happen between the read of
        // `turn` and the sleep.
        self.0.sleep_while(Self::turn(bed), turn as u32, at_most);
    }

    /// Whether another process has rung this parking spot since the last call. The call clears the
    /// bits of all senders. To be called after [`Page::turn_of`], before each sleep.
    pub(crate) fn take_rung(&self, bed: usize) -> bool {
        // Acquire: the next sweep finds the messages that were sent before the bit was set.
        self.rung(bed).load(Ordering::Relaxed) != 0
            && self.rung(bed).swap(0, Ordering::Acquire) != 0
    }

    /// Step K: wakes one of the parked workers for a message of node `by`. The caller has executed
    /// a full memory fence after it stored the message.
    #[cold]
    pub(crate) fn wake_one(&self, by: ComputeNodeId) {
        let Some(bed) = self.parked() else { return };
        let bit = 1 << by.index();
        // If the bit is already set, another thread of this process has woken the worker or is
        // about to.
        if self.rung(bed).fetch_or(bit, Ordering::Release) & bit == 0 {
            self.wake(bed);
        }
    }

    /// The first half of step K, for a process that is killed before the second half.
    #[cfg(all(test, loom))]
    pub(crate) fn ring_and_die(&self, by: ComputeNodeId) {
        latchwork_runtime::sync::fence(Ordering::SeqCst);
        if let Some(bed) = self.parked() {
            self.rung(bed).fetch_or(1 << by.index(), Ordering::Release);
        }
    }

    /// Ends the sleep on a parking spot. The caller has stored everything that the sleeper must
    /// see.
    pub(crate) fn wake(&self, bed: usize) {
        self.word(Self::turn(bed)).fetch_add(1, Ordering::Release);
        self.0.wake_sleepers(Self::turn(bed));
    }

    /// Takes a node's bit out of all parking spots, and wakes the worker of each spot at which any
    /// bit was set. The wake is needed because the node may have died after it set the bit and
    /// before it woke the worker.
    pub(crate) fn forget(&self, by: ComputeNodeId) {
        for bed in 0..Self::BEDS_MAX {
            if self.rung(bed).fetch_and(!(1 << by.index()), Ordering::Relaxed) != 0 {
                self.wake(bed);
            }
        }
    }

    // ---- regions --------------------------------------------------------------------------------

    /// Publishes a region to peers: its key, the number of its file, and its length in bytes.
    /// Returns false when the page has no free entry. Two threads must not call this function at
    /// the same time.
    pub(crate) fn add_region(&self, key: RegionKey, file: u64, bytes: usize) -> bool {
        let count = self.word(COUNT).load(Ordering::Relaxed) as usize;
        if count >= REGIONS_MAX {
            return false;
        }
        let entry = REGIONS + count * REGION_WORDS;
        strict_assert!(
            entry + REGION_WORDS <= BEDS,
            "the table of regions runs into the parking spots"
        );
        for (word, value) in [u64::from(key.0), file, bytes as u64].into_iter().enumerate() {
            self.word(entry + word).store(value, Ordering::Relaxed);
        }
        self.word(COUNT).store(count as u64 + 1, Ordering::Release);
        true
    }

    /// The number of a region's file, and its length in bytes; `None` when no region has this key.
    pub(crate) fn find_region(&self, key: RegionKey) -> Option<(u64, usize)> {
        let count = self.word(COUNT).load(Ordering::Acquire) as usize;
        (0..count.min(REGIONS_MAX)).find_map(|index| {
            let entry = REGIONS + index * REGION_WORDS;
            let word = |word| self.word(entry + word).load(Ordering::Relaxed);
            (word(0) == u64::from(key.0)).then(|| (word(1), word(2) as usize))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).unwrap()
    }

    fn page() -> Page {
        Page::create(Region::zeroed(Page::BYTES).unwrap(), 99, node(3))
    }

    #[test]
    fn a_page_is_opened_as_that_of_its_node_alone() {
        let page = page();
        for (incarnation, id, fits) in [(99, 3, true), (98, 3, false), (99, 4, false)] {
            assert_eq!(Page::open(page.0.clone(), incarnation, node(id)).is_some(), fits);
        }
        let short = Region::zeroed(Page::BYTES - 8).unwrap();
        assert!(Page::open(Page::create(short, 99, node(3)).0, 99, node(3)).is_none());
    }

    #[test]
    fn each_node_rings_a_bed_once_until_it_is_made_again() {
        let page = page();
        page.wake_one(node(1));
        let turn = |bed| page.turn_of(bed);
        assert!((0..Page::BEDS_MAX).all(|bed| turn(bed) == 0), "nobody is parked");
        page.set_parked(200);
        for (by, turns) in [(1, 1), (1, 1), (58, 2), (1, 2)] {
            page.wake_one(node(by));
            assert_eq!(turn(200), turns, "rung by node {by}");
        }
        assert!(page.take_rung(200) && !page.take_rung(200));
        page.wake_one(node(1));
        assert_eq!(turn(200), 3);
        page.forget(node(2));
        page.wake_one(node(1));
        assert_eq!(turn(200), 4, "woken, so that nobody relies on one who is gone");
        page.forget(node(1));
        page.wake_one(node(1));
        assert_eq!(turn(200), 6);
        page.clear_parked(200);
        page.wake_one(node(7));
        assert_eq!(turn(200), 6);
    }

    #[test]
    fn regions_are_found_by_their_keys_as_long_as_there_is_room() {
        let page = page();
        assert_eq!(page.find_region(RegionKey(0)), None);
        for key in 0..REGIONS_MAX as u16 {
            assert!(page.add_region(RegionKey(key * 2), u64::from(key) + 5, 4096));
        }
        assert!(!page.add_region(RegionKey(1), 1, 8));
        assert_eq!(page.find_region(RegionKey(6)), Some((8, 4096)));
        assert_eq!(page.find_region(RegionKey(7)), None);
    }
}
