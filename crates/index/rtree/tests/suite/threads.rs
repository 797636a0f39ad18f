//! Several workers of one node, each on a thread of its own. A reader may see a page at any moment
//! of a write.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::thread;

use latchwork_coherence::testing::{LocalMemory, LocalNode, Settings, executor};
use latchwork_rtree::{Entry, RTree, RTreeConfig, Rect};
use latchwork_verbs::GlobalAddr;

use crate::common::{Random, fan_out_3, joined};

/// The entries that stay, which every query must find.
const STAY: u64 = 40;

/// Inserts, moves and removes entries of its own, and queries after each step.
async fn work(memory: LocalMemory, root: GlobalAddr, config: RTreeConfig, thread: u64) {
    let tree = RTree::<_, 2>::open(memory, root, config).await.expect("a tree");
    let mut random = Random::new(thread);
    let mut mine: Vec<(Rect<2>, u64)> = Vec::new();
    for step in 0..5000 {
        let at = random.below(mine.len().max(1) as u64) as usize;
        match (random.below(3), mine.get_mut(at)) {
            (1, Some((rect, id))) => {
                let new = random.rect(30, 6);
                assert!(tree.update(rect, *id, &new, &[]).await.expect("room"), "{id} is gone");
                *rect = new;
            }
            (2, Some(_)) => {
                let (rect, id) = mine.swap_remove(at);
                assert!(tree.remove(&rect, id).await.expect("removed"), "{id} is gone");
            }
            _ => {
                let (rect, id) = (random.rect(30, 6), (thread << 32) + step);
                tree.insert(&rect, id, &[]).await.expect("room");
                mine.push((rect, id));
            }
        }
        let mut found = BTreeSet::new();
        let visit = |entry: Entry<'_, 2>| {
            assert!(found.insert(entry.id), "{} was found twice", entry.id);
            ControlFlow::Continue(())
        };
        tree.intersecting(&Rect::EVERYTHING, visit).await.expect("in order");
        assert!((0..STAY).all(|id| found.contains(&id)), "an entry that stays was missed");
        assert!(
            mine.iter().all(|(_, id)| found.contains(id)),
            "an entry of this thread was missed"
        );
        if step % 250 == 0 {
            let pairs: BTreeSet<_> = joined(&tree, &tree, 0.0).await.into_iter().collect();
            assert!((0..STAY).all(|id| pairs.contains(&(id, id))), "a pair that stays was missed");
        }
        let near = tree.nearest(random.rect::<2>(30, 1).low(), 10_000).await.expect("in order");
        assert!(near.iter().filter(|one| one.id < STAY).count() == STAY as usize);
    }
}

#[test]
fn threads_of_one_node_see_what_stays_and_what_they_wrote() {
    for config in [fan_out_3(0), RTreeConfig::default()] {
        let node = LocalNode::new(Settings::CALM);
        let mut first = executor(1);
        let memory = node.worker(first.handle());
        let root = first.block_on(async {
            let tree = RTree::<_, 2>::create(memory, config).await.expect("room");
            let mut random = Random::new(0);
            for id in 0..STAY {
                tree.insert(&random.rect(30, 6), id, &[]).await.expect("room");
            }
            tree.root()
        });
        thread::scope(|scope| {
            for thread in 1..=3 {
                let node = &node;
                scope.spawn(move || {
                    let mut executor = executor(thread);
                    let memory = node.worker(executor.handle());
                    executor.block_on(work(memory, root, config, thread));
                });
            }
        });
        let memory = node.worker(first.handle());
        first.block_on(async {
            let tree = RTree::<_, 2>::open(memory, root, config).await.expect("a tree");
            tree.validate().await.expect("whole");
        });
    }
}
