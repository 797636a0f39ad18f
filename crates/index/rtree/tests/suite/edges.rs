//! The edges of what a tree holds: no entry, one, all equal, the largest numbers, and places on the
//! globe.

use std::ops::ControlFlow;

use latchwork_coherence::testing::{LocalMemory, LocalNode, Settings, executor};
use latchwork_rtree::{Entry, NewEntry, Packing, RTree, RTreeConfig, RTreeError, Rect};

use crate::common::{check, fan_out_3, in_worlds, intersecting};

fn rect(low: [f64; 2], high: [f64; 2]) -> Rect<2> {
    Rect::new(low, high).expect("a box")
}

fn point(at: [f64; 2]) -> Rect<2> {
    Rect::point(at).expect("a point")
}

#[test]
fn a_tree_of_no_entry_and_of_one_answers_everything() {
    in_worlds(1, |node, _, memory| async move {
        let tree = RTree::<_, 2>::create(memory.clone(), fan_out_3(0)).await.expect("room");
        let at = point([1.0, 2.0]);
        for there in [false, true] {
            if there {
                tree.insert(&at, 7, &[]).await.expect("room");
            }
            let ids: Vec<u64> = if there { vec![7] } else { Vec::new() };
            assert_eq!(intersecting(&tree, &Rect::EVERYTHING).await, ids);
            assert_eq!(tree.count(&at).await.expect("counted"), ids.len() as u64);
            assert_eq!(tree.bounds().await.expect("read"), there.then_some(at));
            let near = tree.nearest([0.0; 2], 3).await.expect("found");
            assert_eq!(near.iter().map(|one| one.id).collect::<Vec<_>>(), ids);
            let mut pairs = 0;
            let visit = |_: Entry<'_, 2>, _: Entry<'_, 2>| {
                pairs += 1;
                ControlFlow::Continue(())
            };
            tree.join(&tree, f64::INFINITY, visit).await.expect("joined");
            assert_eq!(pairs, ids.len());
            assert!(!tree.remove(&at, 8).await.expect("no"), "another id");
            assert!(!tree.update(&at, 8, &at, &[]).await.expect("no"), "another id");
        }
        assert!(tree.update(&at, 7, &point([9.0, 9.0]), &[]).await.expect("moved"));
        assert!(!tree.remove(&at, 7).await.expect("no"), "it has moved");
        check(&tree, &node, 1).await;
    });
}

#[test]
fn what_is_not_a_number_or_not_finite_is_an_error_or_has_an_answer() {
    in_worlds(1, |node, _, memory| async move {
        let tree = RTree::<_, 2>::create(memory, fan_out_3(0)).await.expect("room");
        let at = |id: u64| NewEntry { rect: point([id as f64, 0.0]), id, payload: Vec::new() };
        let infinite = NewEntry { rect: point([0.0, f64::INFINITY]), id: 9, payload: Vec::new() };
        let loaded = tree.bulk_load(vec![at(1), infinite.clone(), at(2)]).await;
        assert!(matches!(loaded, Err(RTreeError::NotFinite)), "{loaded:?}");
        check(&tree, &node, 0).await;
        tree.bulk_load((0..20).map(at).collect()).await.expect("room");
        let nothing = |_: Entry<'_, 2>, _: Entry<'_, 2>| ControlFlow::Continue(());
        let joined = tree.join(&tree, f64::NAN, nothing).await;
        assert!(matches!(joined, Err(RTreeError::NotANumber { .. })), "{joined:?}");
        for coordinate in [f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN] {
            // The squares of all distances are infinite, so the ids decide.
            let near = tree.nearest([coordinate, coordinate], 3).await.expect("found");
            assert_eq!(near.iter().map(|one| one.id).collect::<Vec<_>>(), [0, 1, 2]);
            assert!(near.iter().all(|one| one.distance_squared == f64::INFINITY));
        }
        assert!(!tree.remove(&infinite.rect, 9).await.expect("no"), "an infinite box");
        let half = rect([5.0, f64::NEG_INFINITY], [f64::INFINITY, f64::INFINITY]);
        assert_eq!(intersecting(&tree, &half).await, (5..20).collect::<Vec<_>>());
        check(&tree, &node, 20).await;
    });
}

#[test]
fn an_update_to_a_box_that_is_none_is_an_error_and_changes_nothing() {
    in_worlds(1, |node, _, memory| async move {
        let tree = RTree::<_, 2>::create(memory, fan_out_3(4)).await.expect("room");
        let at = point([1.0, 2.0]);
        tree.insert(&at, 1, &[1; 4]).await.expect("room");
        let infinite = tree.update(&at, 1, &Rect::EVERYTHING, &[0; 4]).await;
        assert!(matches!(infinite, Err(RTreeError::NotFinite)), "{infinite:?}");
        let long = tree.update(&at, 1, &at, &[0; 5]).await;
        assert!(matches!(long, Err(RTreeError::PayloadLength { len: 5, expected: 4 })), "{long:?}");
        assert!(!tree.update(&Rect::EVERYTHING, 1, &at, &[0; 4]).await.expect("no"));
        let near = tree.nearest([0.0; 2], 1).await.expect("found");
        assert_eq!((near[0].rect, near[0].payload.as_slice()), (at, &[1; 4][..]));
        check(&tree, &node, 1).await;
    });
}

#[test]
fn the_largest_and_the_smallest_numbers_are_found_where_they_are() {
    in_worlds(1, |node, _, memory| async move {
        for packing in [None, Some(Packing::SortTileRecursive), Some(Packing::Hilbert)] {
            let tree = RTree::<_, 2>::create(memory.clone(), fan_out_3(0)).await.expect("room");
            let numbers = [f64::MIN, -1.0, -f64::MIN_POSITIVE, 0.0, 5e-324, 1.0, f64::MAX];
            let mut entries = Vec::new();
            for (x, y) in numbers.iter().flat_map(|x| numbers.map(|y| (*x, y))) {
                let (rect, id) = (point([x, y]), entries.len() as u64);
                entries.push(NewEntry { rect, id, payload: Vec::new() });
            }
            match packing {
                Some(packing) => tree.bulk_load_by(entries.clone(), packing).await.expect("room"),
                None => {
                    for one in &entries {
                        tree.insert(&one.rect, one.id, &[]).await.expect("room");
                    }
                }
            }
            for NewEntry { rect, id, .. } in &entries {
                assert_eq!(intersecting(&tree, rect).await, [*id], "{rect:?}");
            }
            let edge = rect([f64::MIN, f64::MIN], [f64::MIN, f64::INFINITY]);
            assert_eq!(intersecting(&tree, &edge).await.len(), numbers.len());
            for NewEntry { rect, id, .. } in &entries {
                assert!(tree.remove(rect, *id).await.expect("removed"));
            }
            assert_eq!(tree.validate().await.expect("whole").entries, 0);
            tree.release_spares().await.expect("freed");
        }
        assert_eq!(node.live_lines(), 3, "the roots are left");
    });
}

/// The tree is planar. A program cuts a box that crosses the antimeridian into two boxes with one
/// id, and asks for both halves of such a window. A box around a pole has all longitudes.
#[test]
fn boxes_over_the_antimeridian_and_the_poles_are_found_in_two_halves() {
    in_worlds(1, |node, _, memory| async move {
        let tree = RTree::<_, 2>::create(memory, fan_out_3(0)).await.expect("room");
        // Longitude and latitude: Fiji crosses the antimeridian, from 177 east to 178 west.
        let (fiji, arctic, quito) = (1, 2, 3);
        for half in [rect([177.0, -19.0], [180.0, -16.0]), rect([-180.0, -19.0], [-178.0, -16.0])] {
            tree.insert(&half, fiji, &[]).await.expect("room");
        }
        tree.insert(&rect([-180.0, 66.5], [180.0, 90.0]), arctic, &[]).await.expect("room");
        tree.insert(&point([-78.5, -0.2]), quito, &[]).await.expect("room");
        // From 179 east to 179 west.
        let mut found = Vec::new();
        for half in [rect([179.0, -20.0], [180.0, -10.0]), rect([-180.0, -20.0], [-179.0, -10.0])] {
            found.extend(intersecting(&tree, &half).await);
        }
        assert_eq!(found, [fiji, fiji]);
        for longitude in [-180.0, 0.0, 180.0] {
            assert_eq!(intersecting(&tree, &point([longitude, 90.0])).await, [arctic]);
        }
        // Inverted longitudes are an error, not an empty answer.
        let inverted = Rect::new([179.0, -20.0], [-179.0, -10.0]);
        assert!(matches!(inverted, Err(RTreeError::Inverted { axis: 0, .. })), "{inverted:?}");
        check(&tree, &node, 4).await;
    });
}

#[test]
fn a_million_identical_boxes_are_all_found() {
    const COUNT: u64 = 1_000_000;
    let mut executor = executor(1);
    let settings = Settings { line_size: 4096, frames: 1 << 15, ..Settings::CALM };
    let memory = LocalNode::new(settings).worker(executor.handle());
    executor.block_on(async move {
        let config = RTreeConfig::default();
        let tree = RTree::<LocalMemory, 2>::create(memory.clone(), config).await.expect("room");
        let same = rect([1.0, 1.0], [2.0, 2.0]);
        for id in 0..COUNT {
            tree.insert(&same, id, &[]).await.expect("room");
        }
        assert_eq!(tree.count(&same).await.expect("counted"), COUNT);
        assert_eq!(tree.count(&point([2.1, 1.0])).await.expect("counted"), 0);
        let near = tree.nearest([1.5, 1.5], 10).await.expect("found");
        assert_eq!(near.iter().map(|one| one.id).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert!(tree.remove(&same, COUNT / 2).await.expect("removed"));
        let statistics = tree.validate().await.expect("whole");
        assert_eq!(statistics.entries, COUNT - 1);
        for packing in [Packing::SortTileRecursive, Packing::Hilbert] {
            let tree = RTree::<LocalMemory, 2>::create(memory.clone(), config).await.expect("room");
            let all = (0..COUNT).map(|id| NewEntry { rect: same, id, payload: Vec::new() });
            tree.bulk_load_by(all.collect(), packing).await.expect("room");
            assert_eq!(tree.count(&same).await.expect("counted"), COUNT);
            assert_eq!(tree.validate().await.expect("whole").entries, COUNT);
        }
    });
}
