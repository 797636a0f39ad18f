//! One operation after the other, compared with a list that is searched from end to end.

use std::ops::ControlFlow;

use latchwork_coherence::testing::LocalMemory;
use latchwork_rtree::{Entry, NewEntry, Packing, RTree, RTreeConfig, RTreeError, Rect};

use crate::common::{Random, are_near, check, fan_out_3, in_worlds, intersecting};

type Model<const D: usize> = Vec<(Rect<D>, u64)>;

fn ids<const D: usize>(model: &Model<D>, keep: impl Fn(&Rect<D>) -> bool) -> Vec<u64> {
    let mut ids: Vec<u64> =
        model.iter().filter(|(rect, _)| keep(rect)).map(|&(_, id)| id).collect();
    ids.sort_unstable();
    ids
}

/// Compares queries of all kinds with the model.
async fn compare<const D: usize>(
    tree: &RTree<LocalMemory, D>,
    model: &Model<D>,
    random: &mut Random,
) {
    for _ in 0..10 {
        let window = random.rect::<D>(60, 30);
        let expected = ids(model, |rect| rect.intersects(&window));
        assert_eq!(intersecting(tree, &window).await, expected, "{window:?}");
        assert_eq!(tree.count(&window).await.expect("counted"), expected.len() as u64);

        let mut found = Vec::new();
        let note = |entry: Entry<'_, D>| {
            assert_eq!(entry.payload, &entry.id.to_le_bytes()[..entry.payload.len()]);
            found.push(entry.id);
            ControlFlow::Continue(())
        };
        tree.inside(&window, note).await.expect("found");
        found.sort_unstable();
        assert_eq!(found, ids(model, |rect| window.contains(rect)));

        let point = Rect::point(window.low()).expect("a point");
        let mut found = Vec::new();
        let note = |entry: Entry<'_, D>| {
            found.push(entry.id);
            ControlFlow::Continue(())
        };
        tree.containing(&point, note).await.expect("found");
        found.sort_unstable();
        assert_eq!(found, ids(model, |rect| rect.contains(&point)));

        let count = random.below(7) as usize;
        let near = tree.nearest(window.low(), count).await.expect("found");
        let mut expected: Vec<(f64, u64)> =
            model.iter().map(|(rect, id)| (rect.distance_squared(&window.low()), *id)).collect();
        expected.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        expected.truncate(count);
        let near: Vec<_> = near.iter().map(|one| (one.distance_squared, one.id)).collect();
        assert_eq!(near, expected);
    }
    assert_eq!(intersecting(tree, &Rect::EVERYTHING).await, ids(model, |_| true));
}

fn inserts_and_removes<const D: usize>(payload_len: usize) {
    in_worlds(4, |node, handle, memory| async move {
        let mut random = Random::new(handle.random());
        let config = fan_out_3(payload_len);
        let tree = RTree::<_, D>::create(memory, config).await.expect("room");
        let mut model: Model<D> = Vec::new();
        for phase in 0..6 {
            // Phases with more inserts and phases with more removes, until the tree is empty.
            for step in 0..80_u64 {
                if random.below(3) == 0 && !model.is_empty() {
                    let at = random.below(model.len() as u64) as usize;
                    let (old, id) = model[at];
                    let new = random.rect(60, 8);
                    let payload = &id.to_le_bytes()[..payload_len];
                    assert!(tree.update(&old, id, &new, payload).await.expect("moved"));
                    assert!(old == new || !tree.update(&old, id, &new, payload).await.expect("no"));
                    model[at].0 = new;
                }
                let adds = if phase % 2 == 0 { 7 } else { 2 };
                if random.below(10) < adds || model.is_empty() {
                    let (rect, id) = (random.rect(60, 8), phase * 1000 + step);
                    let payload = &id.to_le_bytes()[..payload_len];
                    tree.insert(&rect, id, payload).await.expect("room");
                    model.push((rect, id));
                } else {
                    let at = random.below(model.len() as u64) as usize;
                    let (rect, id) = model.swap_remove(at);
                    assert!(tree.remove(&rect, id).await.expect("removed"));
                    assert!(!tree.remove(&rect, id).await.expect("removed"));
                }
            }
            compare(&tree, &model, &mut random).await;
            check(&tree, &node, model.len()).await;
        }
        for (rect, id) in model.drain(..) {
            assert!(tree.remove(&rect, id).await.expect("removed"));
        }
        compare(&tree, &model, &mut random).await;
        check(&tree, &node, 0).await;
        assert_eq!(node.live_lines(), 1, "an empty tree has its root");
    });
}

#[test]
fn boxes_of_two_dimensions_are_those_of_a_list() {
    inserts_and_removes::<2>(0);
}

#[test]
fn boxes_of_three_dimensions_with_payloads_are_those_of_a_list() {
    inserts_and_removes::<3>(5);
}

#[test]
fn a_bulk_load_of_any_number_of_entries_is_whole() {
    in_worlds(1, |_, _, memory| async move {
        let counts = [0, 1, 3, 4, 9, 10, 27, 28, 100, 500];
        let both = [Packing::SortTileRecursive, Packing::Hilbert];
        for (count, packing) in counts.into_iter().flat_map(|n| both.map(|by| (n, by))) {
            let mut random = Random::new(count);
            let tree = RTree::<_, 2>::create(memory.clone(), fan_out_3(8)).await.expect("room");
            let mut model = Vec::new();
            let entries = (0..count).map(|id| {
                let rect = random.rect(60, 8);
                model.push((rect, id));
                NewEntry { rect, id, payload: id.to_le_bytes().to_vec() }
            });
            tree.bulk_load_by(entries.collect(), packing).await.expect("room");
            assert_eq!(tree.validate().await.expect("whole").entries, count);
            compare(&tree, &model, &mut random).await;
            if count > 0 {
                let again = tree.bulk_load(Vec::new()).await;
                assert!(matches!(again, Err(RTreeError::NotEmpty)), "{again:?}");
            }
            // Full pages take new entries, too.
            for id in 1000..1020 {
                let rect = random.rect(60, 8);
                model.push((rect, id));
                tree.insert(&rect, id, &id.to_le_bytes()).await.expect("room");
            }
            compare(&tree, &model, &mut random).await;
        }
    });
}

#[test]
fn any_number_of_equal_boxes_is_found() {
    in_worlds(1, |node, _, memory| async move {
        let tree = RTree::<_, 2>::create(memory, RTreeConfig::default()).await.expect("room");
        let rect = Rect::point([3.0, -0.0]).expect("a point");
        for id in 0..2000 {
            tree.insert(&rect, id, &[]).await.expect("room");
        }
        check(&tree, &node, 2000).await;
        assert_eq!(intersecting(&tree, &rect).await, (0..2000).collect::<Vec<_>>());
        let same = Rect::point([3.0, 0.0]).expect("a point");
        for id in 0..2000 {
            assert!(tree.remove(&same, id).await.expect("removed"));
        }
        check(&tree, &node, 0).await;
    });
}

#[test]
fn entries_that_are_none_are_errors_and_change_nothing() {
    in_worlds(1, |node, _, memory| async move {
        let config = fan_out_3(4);
        let tree = RTree::<_, 2>::create(memory.clone(), config).await.expect("room");
        let infinite = tree.insert(&Rect::EVERYTHING, 1, &[0; 4]).await;
        assert!(matches!(infinite, Err(RTreeError::NotFinite)), "{infinite:?}");
        let rect = Rect::point([0.0; 2]).expect("a point");
        let short = tree.insert(&rect, 1, &[0; 3]).await;
        assert!(matches!(short, Err(RTreeError::PayloadLength { len: 3, expected: 4 })));
        let nowhere = tree.nearest([f64::NAN, 0.0], 1).await;
        assert!(matches!(nowhere, Err(RTreeError::NotANumber { axis: 0 })), "{nowhere:?}");
        // Huge coordinates have infinite areas.
        for id in 0..50 {
            let end = f64::MAX / (id + 1) as f64;
            let huge = Rect::new([-end, -end], [end, end]).expect("a box");
            tree.insert(&huge, id, &[0; 4]).await.expect("room");
        }
        check(&tree, &node, 50).await;

        let other = RTree::<_, 3>::open(memory.clone(), tree.root(), config).await;
        assert!(matches!(other, Err(RTreeError::Corrupt { .. })), "{other:?}");
        let small = RTreeConfig { payload_len: 200, ..config };
        let small = RTree::<_, 2>::create(memory, small).await;
        assert!(matches!(small, Err(RTreeError::LineTooSmall { entry: 200, .. })), "{small:?}");
    });
}

#[test]
fn joins_of_trees_of_any_heights_are_those_of_lists() {
    in_worlds(1, |_, handle, memory| async move {
        let mut random = Random::new(handle.random());
        for (left, right) in [(0, 5), (1, 1), (2, 60), (200, 3), (90, 110)] {
            let mut sides = Vec::new();
            for (count, payload_len) in [(left, 8), (right, 0)] {
                let tree = RTree::<_, 2>::create(memory.clone(), fan_out_3(payload_len)).await;
                let (tree, mut model) = (tree.expect("room"), Model::new());
                for id in 0..count {
                    let rect = random.rect(60, 8);
                    let payload = &u64::to_le_bytes(id)[..payload_len];
                    tree.insert(&rect, id, payload).await.expect("room");
                    model.push((rect, id));
                }
                let all = ids(&model, |_| true);
                assert_eq!(tree.bounds().await.expect("read").is_some(), count > 0);
                assert_eq!(intersecting(&tree, &Rect::EVERYTHING).await, all);
                sides.push((tree, model));
            }
            let [(a, models_a), (b, models_b)] = sides.as_slice() else { panic!("two sides") };
            for distance in [0.0, 3.0] {
                let mut found = Vec::new();
                let visit = |one: Entry<'_, 2>, two: Entry<'_, 2>| {
                    assert_eq!(one.payload, one.id.to_le_bytes());
                    found.push((one.id, two.id));
                    ControlFlow::Continue(())
                };
                a.join(b, distance, visit).await.expect("joined");
                found.sort_unstable();
                let mut expected: Vec<(u64, u64)> = Vec::new();
                for (one, i) in models_a {
                    let near = models_b.iter().filter(|(two, _)| are_near(one, two, distance));
                    expected.extend(near.map(|(_, j)| (*i, *j)));
                }
                expected.sort_unstable();
                assert_eq!(found, expected, "{left} and {right}, {distance}");
            }
        }
    });
}
