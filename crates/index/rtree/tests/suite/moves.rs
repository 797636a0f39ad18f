//! Entries that move while queries of all kinds read the tree.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use latchwork_cache::WriteGuard;
use latchwork_coherence::CoherentMemory as _;
use latchwork_coherence::testing::{LocalMemory, LocalNode, Settings};
use latchwork_rtree::{Entry, RTree, RTreeConfig, RTreeError, RTreeRules, Rect};
use latchwork_runtime::Handle;

use crate::common::{Random, WORLDS, are_near, executor, fan_out_3, in_worlds};

const OBJECTS: u64 = 24;

/// A place of an object, and the times between which the object may have been there.
#[derive(Clone, Copy)]
struct Stay {
    rect: Rect<2>,
    since: u64,
    until: u64,
}

/// What the tasks of a test know of the objects.
#[derive(Default)]
struct Known {
    /// Counts the events.
    now: u64,
    stays: BTreeMap<u64, Vec<Stay>>,
    faults: Vec<String>,
}

impl Known {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// The object may be at `rect` from now on.
    fn begins(&mut self, id: u64, rect: Rect<2>) {
        let since = self.tick();
        self.stays.entry(id).or_default().push(Stay { rect, since, until: u64::MAX });
    }

    /// The object is not at its place before the last one any more.
    fn ended(&mut self, id: u64) {
        let until = self.tick();
        if let Some([.., old, _]) = self.stays.get_mut(&id).map(Vec::as_mut_slice) {
            old.until = until;
        }
    }

    /// Compares what a query has found since `begin` with the places of the objects.
    fn judge(&mut self, begin: u64, found: &[(u64, Rect<2>)], belongs: impl Fn(&Rect<2>) -> bool) {
        let end = self.tick();
        for (id, during) in self.places(begin, end) {
            let shown: Vec<Rect<2>> =
                found.iter().filter(|(other, _)| *other == id).map(|one| one.1).collect();
            let fault = match shown.as_slice() {
                [] if during.iter().all(&belongs) => "nowhere",
                [one] if !during.contains(one) => "at a place where it was not",
                [] | [_] => continue,
                _ => "twice",
            };
            self.faults.push(format!("object {id} was found {fault}: {shown:?} of {during:?}"));
        }
    }

    /// The places of each object at some time between `begin` and `end`.
    fn places(&self, begin: u64, end: u64) -> BTreeMap<u64, Vec<Rect<2>>> {
        let during = |stays: &[Stay]| {
            let during = stays.iter().filter(|one| one.since <= end && one.until >= begin);
            during.map(|one| one.rect).collect()
        };
        self.stays.iter().map(|(&id, stays)| (id, during(stays))).collect()
    }

    /// Compares the pairs that a join of the tree with itself has found since `begin` with the
    /// places of the objects. A pair that is near wherever its two objects were is there once.
    fn judge_pairs(
        &mut self,
        begin: u64,
        found: &Pairs,
        near: impl Fn(&Rect<2>, &Rect<2>) -> bool,
    ) {
        let end = self.tick();
        let places = self.places(begin, end);
        for (pair, shown) in found {
            let known = |id, at| places.get(&id).is_none_or(|places| places.contains(at));
            let fault = match shown.as_slice() {
                [(one, two)] if !known(pair.0, one) || !known(pair.1, two) => {
                    "at a place where it was not"
                }
                [(one, two)] if !near(one, two) => "although it is not near",
                [_] => continue,
                _ => "twice",
            };
            self.faults.push(format!("the pair {pair:?} was found {fault}: {shown:?}"));
        }
        for ((i, ones), (j, twos)) in
            places.iter().flat_map(|one| places.iter().map(move |two| (one, two)))
        {
            let always = ones.iter().all(|one| twos.iter().all(|two| near(one, two)));
            if always && !found.contains_key(&(*i, *j)) {
                let fault = format!("the pair ({i}, {j}) was missed at {ones:?} and {twos:?}");
                self.faults.push(fault);
            }
        }
    }
}

type Shared = Rc<RefCell<Known>>;

/// The boxes of each pair of ids that a join has found, once for each time.
type Pairs = BTreeMap<(u64, u64), Vec<(Rect<2>, Rect<2>)>>;

/// Moves objects of this task, near and far.
async fn move_objects(
    tree: RTree<LocalMemory, 2>,
    known: Shared,
    task: u64,
    seed: u64,
    steps: u64,
) {
    let mut random = Random::new(seed ^ task << 32);
    let mine: Vec<u64> = (0..OBJECTS).filter(|id| id % 4 == task).collect();
    let mut places: BTreeMap<u64, Rect<2>> = BTreeMap::new();
    for id in &mine {
        places.insert(*id, known.borrow().stays[id][0].rect);
    }
    for _ in 0..steps {
        let id = mine[random.below(mine.len() as u64) as usize];
        let old = places[&id];
        let new = match random.below(3) {
            0 => Rect::new(old.low().map(|at| at + 1.0), old.high().map(|at| at + 1.0))
                .expect("a box"),
            _ => random.rect(40, 4),
        };
        known.borrow_mut().begins(id, new);
        let payload = random.next().to_le_bytes();
        let moved = tree.update(&old, id, &new, &payload).await.expect("memory is in order");
        assert!(moved, "object {id} is not at {old:?}");
        known.borrow_mut().ended(id);
        places.insert(id, new);
    }
}

/// Inserts and removes other entries, so that pages are split, shrink and die.
async fn come_and_go(tree: RTree<LocalMemory, 2>, seed: u64, steps: u64) {
    let mut random = Random::new(seed);
    let mut there: Vec<(Rect<2>, u64)> = Vec::new();
    for step in 0..steps {
        if random.below(2) == 0 || there.is_empty() {
            let (rect, id) = (random.rect(40, 4), 1000 + step);
            tree.insert(&rect, id, &[0; 8]).await.expect("room");
            there.push((rect, id));
        } else {
            let (rect, id) = there.swap_remove(random.below(there.len() as u64) as usize);
            assert!(tree.remove(&rect, id).await.expect("removed"), "{id} is gone");
        }
    }
    for (rect, id) in there {
        assert!(tree.remove(&rect, id).await.expect("removed"), "{id} is gone");
    }
}

async fn query(tree: &RTree<LocalMemory, 2>, known: &Shared, random: &mut Random) {
    let window: Rect<2> = match random.below(4) {
        0 => Rect::EVERYTHING,
        _ => random.rect(40, 30),
    };
    let begin = known.borrow_mut().tick();
    let mut found: Vec<(u64, Rect<2>)> = Vec::new();
    let visit = |entry: Entry<'_, 2>| {
        found.push((entry.id, entry.rect));
        ControlFlow::Continue(())
    };
    match random.below(6) {
        0 | 1 => {
            tree.intersecting(&window, visit).await.expect("in order");
            known.borrow_mut().judge(begin, &found, |rect| rect.intersects(&window));
        }
        2 => {
            tree.inside(&window, visit).await.expect("in order");
            known.borrow_mut().judge(begin, &found, |rect| window.contains(rect));
        }
        3 => {
            let point = Rect::point(random.rect::<2>(40, 1).low()).expect("a point");
            tree.containing(&point, visit).await.expect("in order");
            known.borrow_mut().judge(begin, &found, |rect| rect.contains(&point));
        }
        4 => {
            let distance = [0.0, 8.0, f64::INFINITY][random.below(3) as usize];
            let mut pairs = Pairs::new();
            let visit = |one: Entry<'_, 2>, two: Entry<'_, 2>| {
                pairs.entry((one.id, two.id)).or_default().push((one.rect, two.rect));
                ControlFlow::Continue(())
            };
            tree.join(tree, distance, visit).await.expect("in order");
            let near = |one: &Rect<2>, two: &Rect<2>| are_near(one, two, distance);
            known.borrow_mut().judge_pairs(begin, &pairs, near);
        }
        _ => {
            let point = random.rect::<2>(40, 1).low();
            let count = [1, 4, 10_000][random.below(3) as usize];
            let near = tree.nearest(point, count).await.expect("in order");
            let found: Vec<_> = near.iter().map(|one| (one.id, one.rect)).collect();
            // What is nearer than the last of as many as were wanted must be there.
            let last = near.last().filter(|_| near.len() == count);
            let reach = last.map_or(f64::INFINITY, |last| last.distance_squared);
            let belongs = |rect: &Rect<2>| rect.distance_squared(&point) < reach;
            known.borrow_mut().judge(begin, &found, belongs);
        }
    }
}

/// Moves, other writers and queries at the same time. Returns the faults of the queries.
async fn everything(handle: &Handle, memory: LocalMemory, config: RTreeConfig) -> Vec<String> {
    let tree = RTree::<_, 2>::create(memory, config).await.expect("room");
    let known: Shared = Rc::default();
    let seed = handle.random();
    let mut random = Random::new(seed);
    for id in 0..OBJECTS {
        let rect = random.rect(40, 4);
        tree.insert(&rect, id, &[0; 8]).await.expect("room");
        known.borrow_mut().begins(id, rect);
    }
    let mut tasks = Vec::new();
    for task in 0..4 {
        tasks.push(handle.spawn(move_objects(tree.clone(), known.clone(), task, seed, 60)));
    }
    tasks.push(handle.spawn(come_and_go(tree.clone(), seed ^ 77, 60)));
    for task in 0..3 {
        let (tree, known) = (tree.clone(), known.clone());
        tasks.push(handle.spawn(async move {
            let mut random = Random::new(seed ^ 99 ^ task << 32);
            for _ in 0..60 {
                query(&tree, &known, &mut random).await;
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    query(&tree, &known, &mut random).await;
    let statistics = tree.validate().await.expect("whole");
    if config.rules == RTreeRules::ALL {
        assert_eq!(statistics.entries, OBJECTS, "{statistics:?}");
    }
    known.take().faults
}

#[test]
fn an_object_that_moves_is_found_once_at_a_place_where_it_was() {
    in_worlds(12, |_, handle, memory| async move {
        let faults = everything(&handle, memory, fan_out_3(8)).await;
        assert!(faults.is_empty(), "{faults:#?}");
    });
}

/// Bug: the entry is inserted at the new place before it is removed at the old one, and nothing
/// else is done. Mechanism: a query visits the new leaf before the insert and the old leaf after
/// the remove. Fix: the entry stays in the old leaf, as departed.
#[test]
fn an_insert_before_the_remove_is_not_enough_for_a_move() {
    let rules = RTreeRules { departed_stay: false, ..RTreeRules::ALL };
    let config = RTreeConfig { rules, ..fan_out_3(8) };
    let mut faults = Vec::new();
    for (seed, settings) in (0..8).flat_map(|seed| WORLDS.map(|settings| (seed, settings))) {
        let mut executor = executor(seed);
        let memory = LocalNode::new(settings).worker(executor.handle());
        let handle = executor.handle();
        faults.extend(executor.block_on(async move { everything(&handle, memory, config).await }));
    }
    for fault in ["nowhere", "the pair"] {
        assert!(faults.iter().any(|text| text.contains(fault)), "{fault}: {faults:#?}");
    }
}

/// Several tasks move and remove the same objects. Exactly one of them finds each place of each
/// object, and no object is there twice.
#[test]
fn one_of_several_writers_of_an_object_finds_it() {
    in_worlds(6, |_, handle, memory| async move {
        let tree = RTree::<_, 2>::create(memory, fan_out_3(8)).await.expect("room");
        let seed = handle.random();
        let mut random = Random::new(seed);
        let places: Vec<Vec<Rect<2>>> =
            (0..12).map(|_| (0..8).map(|_| random.rect(40, 4)).collect()).collect();
        for (id, places) in (0..).zip(&places) {
            tree.insert(&places[0], id, &[0; 8]).await.expect("room");
        }
        let tasks: Vec<_> = (0..5)
            .map(|task| {
                let (tree, places) = (tree.clone(), places.clone());
                let mut random = Random::new(seed ^ task);
                handle.spawn(async move {
                    let mut removed = [0_u64; 12];
                    for _ in 0..60 {
                        let id = random.below(12);
                        let mine = &places[id as usize];
                        let [from, to] = [0; 2].map(|_| &mine[random.below(8) as usize]);
                        if random.below(20) == 0 {
                            let gone = tree.remove(from, id).await.expect("in order");
                            removed[id as usize] += u64::from(gone);
                        } else {
                            tree.update(from, id, to, &[1; 8]).await.expect("in order");
                        }
                    }
                    removed
                })
            })
            .collect();
        let mut removed = [0; 12];
        for task in tasks {
            let more = task.await.expect("no panic");
            (0..12).for_each(|id| removed[id] += more[id]);
        }
        let left = crate::common::intersecting(&tree, &Rect::EVERYTHING).await;
        let expected: Vec<u64> = (0..12).filter(|id| removed[*id as usize] == 0).collect();
        assert!(removed.iter().all(|count| *count <= 1), "{removed:?}");
        assert_eq!(left, expected);
        assert_eq!(tree.validate().await.expect("whole").entries, left.len() as u64);
    });
}

/// Polls a future some times. `None`: it has not ended.
async fn poll_times<F: Future>(
    handle: &Handle,
    mut future: Pin<&mut F>,
    times: usize,
) -> Option<F::Output> {
    for _ in 0..times {
        let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        handle.yield_now().await;
    }
    None
}

/// A point in one of two leaves.
fn point(is_far: bool, step: f64) -> Rect<2> {
    let from = if is_far { 1000.0 } else { 0.0 };
    Rect::point([from + step, from]).expect("a point")
}

/// A tree of two leaves, in which entries may move to other leaves. The leaf of entry 7 has no
/// other entry. If not `swapped`, that is the near one.
async fn two_leaves(memory: LocalMemory, swapped: bool) -> RTree<LocalMemory, 2> {
    let tree = RTree::<_, 2>::create(memory, fan_out_3(0)).await.expect("room");
    let at = |near: bool, step: f64| point(near == swapped, step);
    for (near, step, id) in [(true, 0.0, 7), (true, 1.0, 8), (false, 0.0, 1), (false, 1.0, 2)] {
        tree.insert(&at(near, step), id, &[]).await.expect("room");
    }
    // From the third update on, entries may move to other leaves.
    for step in 0..4 {
        let (old, new) = (at(false, f64::from(step)), at(false, f64::from(step + 1)));
        assert!(tree.update(&old, 1, &new, &[]).await.expect("in order"));
    }
    assert!(tree.remove(&at(true, 1.0), 8).await.expect("in order"));
    tree
}

/// Bug: a query read a pending entry of a move that had been dropped behind its step U2. Then the
/// record was confirmed, and the departed entry was removed. The query found no departed entry, and
/// took the pending one for one that was never committed. Fix: the query looks at the record again.
///
/// The update is dropped after each number of polls, and the query is held up after each number.
#[test]
fn a_query_finds_an_entry_whose_dropped_move_is_confirmed_under_it() {
    for (swapped, dropped_at, held_at) in [false, true].into_iter().flat_map(|swapped| {
        (1..60).flat_map(move |at| (1..16).map(move |held| (swapped, at, held)))
    }) {
        let mut executor = executor(1);
        let node = LocalNode::new(Settings::WITHOUT_CACHE);
        let (memory, handle) = (node.worker(executor.handle()), executor.handle());
        executor.block_on(async move {
            let at = |near: bool, step: f64| point(near == swapped, step);
            let tree = two_leaves(memory, swapped).await;
            {
                let (old, new) = (at(true, 0.0), at(false, 2.5));
                let mut update = pin!(tree.update(&old, 7, &new, &[]));
                poll_times(&handle, update.as_mut(), dropped_at).await;
            }
            // An earlier query lets the record be marked, and stay.
            let mut earlier = Box::pin(tree.count(&Rect::EVERYTHING));
            poll_times(&handle, earlier.as_mut(), 2).await;
            tree.release_spares().await.expect("freed");
            let mut found = Vec::new();
            let visit = |entry: Entry<'_, 2>| {
                found.push(entry.id);
                ControlFlow::Continue(())
            };
            {
                let mut query = pin!(tree.intersecting(&Rect::EVERYTHING, visit));
                let ended = poll_times(&handle, query.as_mut(), held_at).await;
                drop(earlier);
                tree.release_spares().await.expect("freed");
                if ended.is_none() {
                    query.await.expect("in order");
                }
            }
            found.sort_unstable();
            assert_eq!(found, [1, 2, 7], "dropped at {dropped_at}, held at {held_at}, {swapped}");
        });
    }
}

/// Bug: if the header of a leaf was damaged, a query at the new place of a dropped move showed
/// nothing, and a remove found no entry. Mechanism: a record that names a leaf which is no page of
/// the tree counted as a record that is gone, and a damaged page counted as such a leaf. Fix: only
/// a line without the tag of the tree, or of a dead page, has left the tree.
#[test]
fn a_damaged_leaf_of_a_dropped_move_is_an_error() {
    let (mut moved, mut errors) = (0, 0);
    for (dropped_at, damaged) in (1..60).flat_map(|at| (0..8).map(move |line| (at, line))) {
        let mut executor = executor(1);
        let node = LocalNode::new(Settings::WITHOUT_CACHE);
        let (memory, handle) = (node.worker(executor.handle()), executor.handle());
        executor.block_on(async {
            let tree = two_leaves(memory.clone(), false).await;
            let (old, new) = (point(false, 0.0), point(true, 2.5));
            {
                let mut update = pin!(tree.update(&old, 7, &new, &[]));
                poll_times(&handle, update.as_mut(), dropped_at).await;
            }
            let count = tree.count(&new).await.expect("in order");
            let Some(addr) = node.addresses().get(damaged).copied() else { return };
            let damage = |guard: &mut WriteGuard<'_>| {
                // More entries than have room.
                guard.words().set_word(1, 0xffff);
                guard.mark_dirty(0..16);
            };
            let _ = memory.write(addr, damage).await;
            let is_right = |answer: Result<u64, RTreeError>| match answer {
                Ok(found) => found == count,
                Err(RTreeError::Corrupt { page, .. }) => page == addr,
                Err(_) => false,
            };
            moved += count;
            let found = tree.count(&new).await;
            errors += u64::from(found.is_err());
            assert!(is_right(found), "dropped at {dropped_at}, line {damaged}");
            let removed = tree.remove(&new, 7).await.map(u64::from);
            assert!(is_right(removed), "dropped at {dropped_at}, line {damaged}: remove");
        });
    }
    assert!(moved > 0 && errors > 0, "{moved} moves, {errors} errors");
}
