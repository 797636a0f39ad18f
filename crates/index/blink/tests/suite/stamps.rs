//! Leaf stamps against a model. The tests check the promises of an unchanged leaf and the
//! timestamps that a leaf must keep. They also check that a leaf without a change stays unchanged.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use latchwork_blink::{
    Insertion, Leaf, LeafStamp, ReplaceOutcome, Split, Tree, TreeConfig, TreeValue,
};
use latchwork_verbs::GlobalAddr;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{LocalMemory, LocalNode, Settings, executor};

/// The number of possible keys.
const KEYS: u64 = 60;

fn key(number: u64) -> Vec<u8> {
    // Groups with prefixes of their own, so that many pages have a common prefix which other pages
    // do not have.
    let mut key = vec![(number >> 3) as u8, 9, 9, number as u8 & 7];
    // Neighbouring keys have different lengths, so that pages have all shapes.
    key.resize(4 + (number % 3) as usize * 12, 7);
    key
}

fn number(key: &[u8]) -> u64 {
    u64::from(key[0]) << 3 | u64::from(key[3])
}

fn value(kind: u64) -> Vec<u8> {
    vec![kind as u8; [8, 8, 0, 70][kind as usize % 4]]
}

fn bytes(value: TreeValue<'_>) -> Vec<u8> {
    value.to_vec()
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    /// Inserts this number of adjacent keys.
    InsertRun(u64, u64, u64),
    Replace(u64, u64),
    Remove(u64, u64, u64),
    /// An operation without regard to leaf stamps.
    Plain(u64, u64, u8),
    RaiseRead(u64, u64),
    /// Raises the timestamp of a leaf that was seen some time ago.
    RaiseOld(prop::sample::Index, u64),
    LookAt(u64),
    Scan {
        from: Bound<u64>,
        /// The end of an upward scan.
        to: Bound<u64>,
        limit: usize,
        down: bool,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let number = || 0..KEYS;
    let bound = || {
        prop_oneof![
            1 => Just(Bound::Unbounded),
            2 => number().prop_map(Bound::Included),
            2 => number().prop_map(Bound::Excluded),
        ]
    };
    prop_oneof![
        6 => (number(), any::<u64>()).prop_map(|(number, kind)| Op::Insert(number, kind)),
        3 => (number(), 1..10u64, any::<u64>())
            .prop_map(|(number, count, kind)| Op::InsertRun(number, count, kind)),
        2 => (number(), any::<u64>()).prop_map(|(number, kind)| Op::Replace(number, kind)),
        3 => (number(), 0..1000u64, 0..1000u64).prop_map(|(n, read, removed)| Op::Remove(n, read, removed)),
        2 => (number(), any::<u64>(), any::<u8>()).prop_map(|(n, kind, what)| Op::Plain(n, kind, what)),
        3 => (number(), 0..1000u64).prop_map(|(number, to)| Op::RaiseRead(number, to)),
        1 => (any::<prop::sample::Index>(), 0..1000u64).prop_map(|(at, to)| Op::RaiseOld(at, to)),
        2 => number().prop_map(Op::LookAt),
        3 => (bound(), bound(), 0..20usize, any::<bool>())
            .prop_map(|(from, to, limit, down)| Op::Scan { from, to, limit, down }),
    ]
}

/// A result that was seen, and the leaves on which it depends.
struct Seen {
    leaves: Vec<Leaf>,
    /// The keys that certainly belong to these leaves, with their number of changes at that time.
    changes: Vec<(u64, u64)>,
}

/// The tree, its expected content, and the results that were seen.
struct World {
    tree: Tree<LocalMemory>,
    content: BTreeMap<u64, Vec<u8>>,
    /// The number of changes of each key: inserts, removals and new values.
    changes: Vec<u64>,
    /// The timestamps that the leaf of each key, existing or not, must have at least.
    times: Vec<(u64, u64)>,
    seen: Vec<Seen>,
}

impl World {
    fn new(tree: Tree<LocalMemory>) -> World {
        let (changes, times) = (vec![0; KEYS as usize], vec![(0, 0); KEYS as usize]);
        let (content, seen) = (BTreeMap::new(), Vec::new());
        World { tree, content, changes, times, seen }
    }

    /// The leaf of a key.
    async fn leaf(&self, number: u64) -> Leaf {
        let (found, leaf) = self.tree.get_stamped(&key(number), bytes).await.unwrap();
        assert_eq!(found.as_ref(), self.content.get(&number));
        leaf
    }

    /// The leaf stamps of all leaves, by address.
    async fn leaves(&self) -> BTreeMap<GlobalAddr, LeafStamp> {
        let mut leaves = BTreeMap::new();
        let leaf = |leaf: Leaf| assert!(leaves.insert(leaf.addr, leaf.stamp).is_none());
        let go_on = |_: &[u8], _: &[u8]| ControlFlow::Continue(());
        let all = Bound::Unbounded;
        self.tree.scan_up_stamped(all, all, usize::MAX, go_on, leaf).await.unwrap();
        leaves
    }

    fn set(&mut self, number: u64, value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.content.insert(number, value),
            None => self.content.remove(&number),
        };
        self.changes[number as usize] += 1;
    }

    /// Raises the timestamps of all keys of a leaf.
    async fn raise(&mut self, leaf: GlobalAddr, read: u64, removed: u64) {
        for number in 0..KEYS {
            if self.leaf(number).await.addr == leaf {
                let times = &mut self.times[number as usize];
                *times = (times.0.max(read), times.1.max(removed));
            }
        }
    }

    /// A leaf that took over the keys of an empty one has the timestamps of both.
    async fn join_times(&mut self) {
        let mut of_leaf = BTreeMap::<GlobalAddr, (u64, u64)>::new();
        let mut leaves = Vec::new();
        for (number, (read, removed)) in (0..).zip(&self.times) {
            let addr = self.leaf(number).await.addr;
            let times = of_leaf.entry(addr).or_default();
            *times = (times.0.max(*read), times.1.max(*removed));
            leaves.push(addr);
        }
        for (times, addr) in self.times.iter_mut().zip(leaves) {
            *times = of_leaf[&addr];
        }
    }

    async fn apply(&mut self, op: Op) {
        match op {
            Op::LookAt(number) => {
                let leaf = self.leaf(number).await;
                let changes = vec![(number, self.changes[number as usize])];
                self.seen.push(Seen { leaves: vec![leaf], changes });
            }
            Op::Scan { from, to, limit, down } => self.scan(from, to, limit, down).await,
            Op::RaiseRead(number, to) => {
                let leaf = self.leaf(number).await;
                let raised = self.tree.raise_read(&leaf, to).await.unwrap();
                let stamp = leaf.stamp;
                assert_eq!(raised, Some(LeafStamp { read: stamp.read.max(to), ..stamp }));
                self.raise(leaf.addr, to, 0).await;
            }
            Op::RaiseOld(at, to) => {
                let leaves: Vec<_> = self.seen.iter().flat_map(|seen| &seen.leaves).collect();
                if leaves.is_empty() {
                    return;
                }
                let leaf = *leaves[at.index(leaves.len())];
                let still = self.tree.still(&leaf).await.unwrap();
                assert_eq!(self.tree.raise_read(&leaf, to).await.unwrap().is_some(), still);
                if still {
                    self.raise(leaf.addr, to, 0).await;
                }
            }
            Op::Insert(..)
            | Op::InsertRun(..)
            | Op::Replace(..)
            | Op::Remove(..)
            | Op::Plain(..) => {
                let number = match op {
                    Op::InsertRun(n, ..) => n,
                    Op::Insert(n, _) | Op::Replace(n, _) | Op::Remove(n, ..) | Op::Plain(n, ..) => {
                        n
                    }
                    _ => unreachable!(),
                };
                let (leaves, before) = (self.leaves().await, self.leaf(number).await);
                let changes = self.changes[number as usize];
                self.change(op, before).await;
                let changed = self.changes[number as usize] > changes;
                self.join_times().await;
                self.check_others(leaves, before, changed).await;
            }
        }
    }

    /// Checks the reported splits of a change that began in the leaf `before` and ended in the leaf
    /// `leaf`. Every split was reported, and its other half is unchanged since the report.
    async fn check_splits(&self, splits: &[Split], before: Leaf, leaf: Leaf) {
        let mut at = before;
        for (number, split) in splits.iter().enumerate() {
            assert_eq!(split.before, at);
            at = splits.get(number + 1).map_or(leaf, |next| next.before);
            let [left, right] = split.halves;
            let other = if left == at { right } else { left };
            assert!([left, right].contains(&at) && self.tree.still(&other).await.unwrap());
        }
        assert_eq!(at, leaf);
    }

    /// Changes one key, whose leaf is `before`.
    async fn change(&mut self, op: Op, before: Leaf) {
        let (tree, no) = (self.tree.clone(), |_: &LeafStamp| false);
        match op {
            Op::Insert(number, kind) => {
                let refused = tree
                    .insert_stamped(&key(number), &value(kind), no, bytes, |_| panic!("refused"))
                    .await;
                let mut asked = Vec::new();
                let admit = |stamp: &LeafStamp| {
                    asked.push(*stamp);
                    true
                };
                let mut splits = Vec::new();
                let split = |split| splits.push(split);
                let done =
                    tree.insert_stamped(&key(number), &value(kind), admit, bytes, split).await;
                if let Some(found) = self.content.get(&number).cloned() {
                    let exists = Insertion::Exists { found, leaf: before };
                    assert_eq!((refused.unwrap(), done.unwrap()), (exists.clone(), exists));
                    return;
                }
                assert_eq!(refused.unwrap(), Insertion::Refused(before));
                let Insertion::New { before: leaf, after } = done.unwrap() else {
                    panic!("a key that was not there")
                };
                assert_eq!((asked.first(), asked.last()), (Some(&before.stamp), Some(&leaf.stamp)));
                assert!(asked.len() > splits.len(), "it is asked anew after each split");
                self.check_splits(&splits, before, leaf).await;
                assert_ne!(leaf.stamp.structure, after.structure);
                self.set(number, Some(value(kind)));
                assert_eq!(self.leaf(number).await, Leaf { stamp: after, ..leaf });
            }
            Op::InsertRun(number, count, kind) => {
                let numbers: Vec<_> = (number..(number + count).min(KEYS)).collect();
                let entries: Vec<_> =
                    numbers.iter().map(|&n| (key(n), value(kind.wrapping_add(n / 4)))).collect();
                let entries: Vec<_> = entries.iter().map(|(k, v)| (&k[..], &v[..])).collect();
                let refused = tree
                    .insert_run_stamped(&entries, no, bytes, |_| panic!("refused"))
                    .await
                    .unwrap();
                let mut splits = Vec::new();
                let split = |split| splits.push(split);
                let done = tree.insert_run_stamped(&entries, |_| true, bytes, split).await.unwrap();
                if let Some(found) = self.content.get(&number).cloned() {
                    let exists = (0, Insertion::Exists { found, leaf: before });
                    assert_eq!((refused, done), (exists.clone(), exists));
                    return;
                }
                assert_eq!(refused, (0, Insertion::Refused(before)));
                let (new @ 1.., Insertion::New { before: leaf, after }) = done else {
                    panic!("a key that was not there")
                };
                self.check_splits(&splits, before, leaf).await;
                assert_ne!(leaf.stamp.structure, after.structure);
                for (&number, (_, value)) in numbers.iter().zip(&entries).take(new) {
                    assert!(!self.content.contains_key(&number));
                    self.set(number, Some(value.to_vec()));
                    assert_eq!(self.leaf(number).await, Leaf { stamp: after, ..leaf });
                }
            }
            Op::Replace(number, kind) => {
                let (old, new) = (self.content.get(&number).cloned(), value(kind));
                let other = tree.replace_stamped(&key(number), b"other", &new, |_| true).await;
                let Some(old) = old else {
                    assert_eq!(other.unwrap(), ReplaceOutcome::Missing(before));
                    return;
                };
                assert_eq!(other.unwrap(), ReplaceOutcome::Different(before));
                let refused = tree.replace_stamped(&key(number), &old, &new, no).await;
                assert_eq!(refused.unwrap(), ReplaceOutcome::Refused(before));
                let done = tree.replace_stamped(&key(number), &old, &new, |_| true).await.unwrap();
                let ReplaceOutcome::Done { before: leaf, after } = done else {
                    panic!("{done:?} for a value that was right")
                };
                self.set(number, Some(new));
                assert_eq!(self.leaf(number).await, Leaf { stamp: after, ..leaf });
            }
            Op::Remove(number, read, removed) => {
                let other = tree.remove_stamped(&key(number), b"other", read, removed).await;
                assert!(!other.unwrap());
                let old = self.content.get(&number).cloned();
                let old_value = old.as_deref().unwrap_or_default();
                let done =
                    tree.remove_stamped(&key(number), old_value, read, removed).await.unwrap();
                assert_eq!(done, old.is_some());
                if done {
                    self.set(number, None);
                    // The leaf may have left the tree: another one has its keys and timestamps.
                    let leaf = self.leaf(number).await.addr;
                    self.raise(leaf, read, removed).await;
                }
            }
            Op::Plain(number, kind, what) => {
                let (key, old) = (key(number), self.content.get(&number).cloned());
                let new = match what % 6 {
                    0 => tree.insert(&key, &value(kind)).await.ok().map(|()| value(kind)),
                    1 => tree.upsert(&key, &value(kind)).await.ok().map(|_| value(kind)),
                    2 => tree.update(&key, &value(kind)).await.ok().map(|()| value(kind)),
                    3 => {
                        let set = |value: &mut latchwork_blink::ValueMut<'_>| {
                            value.write(0, &vec![what; value.len()]);
                            value.to_vec()
                        };
                        tree.modify(&key, set).await.ok()
                    }
                    4 => {
                        if tree.remove(&key).await.unwrap() {
                            self.set(number, None);
                        }
                        return;
                    }
                    _ => {
                        let grow = |value: TreeValue<'_>, to: &mut Vec<u8>| {
                            value.append_to(to);
                            to.truncate(90);
                            to.push(what);
                            to.clone()
                        };
                        tree.replace_with(&key, grow).await.ok()
                    }
                };
                // An empty value in place of an empty value is no change.
                if let Some(new) = new
                    && (old.as_ref() != Some(&new) || !new.is_empty())
                {
                    self.set(number, Some(new));
                }
            }
            _ => unreachable!(),
        }
    }

    /// Checks that all leaves except the leaf of a changed key have their structure. Empty leaves
    /// may have left the tree, and others may have their timestamps. If the key did not change, its
    /// leaf is also unchanged.
    async fn check_others(
        &self,
        mut leaves: BTreeMap<GlobalAddr, LeafStamp>,
        before: Leaf,
        changed: bool,
    ) {
        let after = self.leaves().await;
        leaves.remove(&before.addr);
        for (addr, stamp) in leaves {
            match after.get(&addr) {
                Some(now) => assert_eq!(now.structure, stamp.structure, "a leaf without a change"),
                None => assert!(changed && !self.tree.still(&Leaf { addr, stamp }).await.unwrap()),
            }
        }
        assert_eq!(self.tree.still(&before).await.unwrap(), !changed, "the leaf of the change");
    }

    async fn scan(&mut self, from: Bound<u64>, to: Bound<u64>, limit: usize, down: bool) {
        let (bytes, end) = (from.map(key), to.map(key));
        let bytes = bytes.as_ref().map(Vec::as_slice);
        let (leaves, shown) = (&std::cell::RefCell::new(Vec::new()), &mut Vec::new());
        let leaf = |leaf| leaves.borrow_mut().push(leaf);
        let visit = |key: &[u8], value: &[u8]| {
            // The leaf is reported before its entries.
            assert!(!leaves.borrow().is_empty());
            shown.push((number(key), value.to_vec()));
            ControlFlow::Continue(())
        };
        let all = (0..KEYS).map(|number| (number, self.content.get(&number).cloned()));
        let in_range = |number: &u64| match from {
            Bound::Unbounded => true,
            Bound::Included(from) => *number == from || (*number < from) == down,
            Bound::Excluded(from) => *number != from && (*number < from) == down,
        };
        let is_behind = |number: &u64| match to {
            Bound::Included(to) if !down => *number > to,
            Bound::Excluded(to) if !down => *number >= to,
            _ => false,
        };
        let is_asked_for = |number: &u64| in_range(number) && !is_behind(number);
        let mut all: Vec<_> = all.filter(|(number, _)| is_asked_for(number)).collect();
        if down {
            all.reverse();
            self.tree.scan_down_stamped(bytes, limit, visit, leaf).await.unwrap();
        } else {
            let end = end.as_ref().map(Vec::as_slice);
            self.tree.scan_up_stamped(bytes, end, limit, visit, leaf).await.unwrap();
        }
        let wanted = all.iter().filter_map(|(number, value)| Some((*number, value.clone()?)));
        assert_eq!(*shown, wanted.take(limit).collect::<Vec<_>>());
        // The scan reached this entry, or the end.
        let end = match shown.last() {
            Some((last, _)) if shown.len() == limit => {
                all.iter().position(|(number, _)| number == last).map_or(0, |at| at + 1)
            }
            _ => all.len(),
        };
        let end = if limit == 0 { 0 } else { end };
        let changes = all[..end].iter().map(|(n, _)| (*n, self.changes[*n as usize])).collect();
        self.seen.push(Seen { leaves: leaves.take(), changes });
    }

    /// Checks all recorded results again: if their leaves are unchanged, so are their keys.
    async fn check_seen(&self) {
        for Seen { leaves, changes } in &self.seen {
            let mut still = true;
            for leaf in leaves {
                still &= self.tree.still(leaf).await.unwrap();
            }
            for (number, count) in changes {
                let now = self.changes[*number as usize];
                assert!(!still || now == *count, "key {number} changed unnoticed");
            }
        }
        for (number, (read, removed)) in (0..).zip(&self.times) {
            let stamp = self.leaf(number).await.stamp;
            assert_eq!((stamp.read, stamp.removed), (*read, *removed), "times of key {number}");
        }
    }
}

fn config() -> impl Strategy<Value = TreeConfig> {
    let stamped = TreeConfig { stamped: true, ..TreeConfig::default() };
    prop_oneof![
        1 => Just(stamped),
        2 => Just(TreeConfig { max_entries_leaf: Some(3), max_entries_inner: Some(3), ..stamped }),
        1 => Just(TreeConfig { max_entries_leaf: Some(2), max_entries_inner: Some(4), ..stamped }),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    prop_oneof![Just(Settings::CALM), Just(Settings::TINY), Just(Settings::WITHOUT_CACHE)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_leaf_that_is_still_as_it_was_has_no_key_that_changed(
        ops in vec(op(), 1..150),
        settings in settings(),
        config in config(),
        loaded in prop_oneof![2 => Just(0), 1 => 0..40usize],
        seed in any::<u64>(),
    ) {
        let mut executor = executor(seed);
        let memory = LocalNode::new(settings).worker(executor.handle());
        executor.block_on(async {
            let tree = Tree::create(memory, config).await.unwrap();
            let mut world = World::new(tree.clone());
            // Includes results that were seen before a bulk load.
            world.apply(Op::LookAt(0)).await;
            world.apply(Op::RaiseRead(KEYS - 1, 5)).await;
            let entries = (0..KEYS).step_by(2).take(loaded).map(|number| (number, value(number)));
            for (number, value) in entries.clone() {
                world.set(number, Some(value));
            }
            let entries = entries.map(|(number, value)| (key(number), value));
            tree.bulk_load(entries, 0.8).await.unwrap();
            for some in ops.chunks(10) {
                for op in some {
                    world.apply(op.clone()).await;
                }
                world.check_seen().await;
            }
            tree.validate().await.unwrap();
        });
    }
}
