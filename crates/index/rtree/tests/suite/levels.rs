//! Walks over the pages of a tree, compared with queries.

use latchwork_coherence::testing::LocalMemory;
use latchwork_rtree::{NewEntry, RTree, Rect, WalkedPage};

use crate::common::{Random, check, fan_out_3, in_worlds, intersecting};

/// The ids that a walk finds, sorted, and the number of levels. Each page is inside of its box.
async fn walked(tree: &RTree<LocalMemory, 2>) -> (Vec<u64>, usize) {
    let walk = tree.walk().await.expect("memory is in order");
    let (mut ids, mut levels) = (Vec::new(), 0);
    let mut todo = vec![(walk.root(), Rect::EVERYTHING, None)];
    while let Some((link, cover, above)) = todo.pop() {
        match walk.read(link).await.expect("memory is in order") {
            WalkedPage::Inner { level, children } => {
                assert!(above.is_none_or(|above| above == level + 1), "levels descend by one");
                levels = levels.max(usize::from(level) + 1);
                for (rect, child) in children {
                    assert!(cover.contains(&rect), "{rect:?} outside of {cover:?}");
                    todo.push((child, rect, Some(level)));
                }
            }
            WalkedPage::Leaf(entries) => {
                assert!(above.is_none_or(|above| above == 1), "leaves are on level 0");
                levels = levels.max(1);
                for NewEntry { rect, id, payload } in entries {
                    assert!(cover.contains(&rect), "{rect:?} outside of {cover:?}");
                    assert_eq!(payload, id.to_le_bytes());
                    ids.push(id);
                }
            }
        }
    }
    ids.sort_unstable();
    (ids, levels)
}

#[test]
fn a_walk_sees_each_entry_once_whatever_has_happened_to_the_tree() {
    in_worlds(3, |node, handle, memory| async move {
        let mut random = Random::new(handle.random());
        let tree = RTree::<_, 2>::create(memory, fan_out_3(8)).await.expect("room");
        assert_eq!(walked(&tree).await, (vec![], 1), "an empty tree has one leaf");
        let mut model: Vec<(Rect<2>, u64)> = Vec::new();
        for id in 0..200_u64 {
            match random.below(10) {
                0..5 => {
                    let rect = random.rect(60, 8);
                    tree.insert(&rect, id, &id.to_le_bytes()).await.expect("room");
                    model.push((rect, id));
                }
                5..7 if !model.is_empty() => {
                    let at = random.below(model.len() as u64) as usize;
                    let (rect, id) = model.swap_remove(at);
                    assert!(tree.remove(&rect, id).await.expect("room"));
                }
                _ if !model.is_empty() => {
                    let at = random.below(model.len() as u64) as usize;
                    let (to, (from, id)) = (random.rect(60, 8), model[at]);
                    let moved = tree.update(&from, id, &to, &id.to_le_bytes()).await;
                    assert!(moved.expect("room"));
                    model[at].0 = to;
                }
                _ => {}
            }
            if id % 20 == 0 {
                assert_eq!(walked(&tree).await.0, intersecting(&tree, &Rect::EVERYTHING).await);
            }
        }
        let (ids, levels) = walked(&tree).await;
        assert_eq!(ids, intersecting(&tree, &Rect::EVERYTHING).await);
        let statistics = tree.validate().await.expect("whole");
        assert_eq!(levels, statistics.pages_per_level.len());
        check(&tree, &node, model.len()).await;
    });
}
