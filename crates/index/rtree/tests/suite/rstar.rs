//! The answers of another R-tree, the crate `rstar`, on the same entries.

use std::ops::ControlFlow;

use latchwork_coherence::testing::LocalMemory;
use latchwork_rtree::{Entry, NewEntry, Packing, RTree, RTreeConfig, Rect};
use rstar::AABB;
use rstar::primitives::{GeomWithData, Rectangle};

use crate::common::{Random, fan_out_3, in_worlds, intersecting};

type Other = rstar::RTree<GeomWithData<Rectangle<[f64; 2]>, u64>>;

/// Longitude and latitude of cities, in degrees.
const CITIES: [[f64; 2]; 48] = [
    [139.69, 35.69],
    [77.21, 28.61],
    [121.47, 31.23],
    [-46.63, -23.55],
    [-99.13, 19.43],
    [31.24, 30.04],
    [72.88, 19.08],
    [116.41, 39.90],
    [90.41, 23.81],
    [135.50, 34.69],
    [-74.01, 40.71],
    [67.01, 24.86],
    [-58.38, -34.60],
    [28.98, 41.01],
    [88.36, 22.57],
    [120.98, 14.60],
    [3.38, 6.52],
    [-43.17, -22.91],
    [15.27, -4.44],
    [113.26, 23.13],
    [-118.24, 34.05],
    [37.62, 55.76],
    [114.06, 22.54],
    [74.34, 31.55],
    [77.59, 12.97],
    [2.35, 48.86],
    [-74.07, 4.71],
    [106.85, -6.21],
    [80.27, 13.08],
    [-77.04, -12.05],
    [100.50, 13.76],
    [126.98, 37.57],
    [-0.13, 51.51],
    [51.39, 35.69],
    [-87.63, 41.88],
    [106.63, 10.82],
    [44.36, 33.31],
    [-3.70, 40.42],
    [151.21, -33.87],
    [174.76, -36.85],
    [178.44, -18.14],
    [-149.57, -17.54],
    [-21.94, 64.15],
    [18.42, -33.92],
    [36.82, -1.29],
    [-157.86, 21.31],
    [30.52, 50.45],
    [-68.30, -54.80],
];

fn other_of(entries: &[(Rect<2>, u64)]) -> Other {
    let entries = entries
        .iter()
        .map(|(rect, id)| GeomWithData::new(Rectangle::from_corners(rect.low(), rect.high()), *id));
    rstar::RTree::bulk_load(entries.collect())
}

async fn compare(tree: &RTree<LocalMemory, 2>, other: &Other, windows: &[Rect<2>]) {
    for window in windows {
        let envelope = AABB::from_corners(window.low(), window.high());
        let sorted = |mut ids: Vec<u64>| {
            ids.sort_unstable();
            ids
        };
        let meet = other.locate_in_envelope_intersecting(&envelope).map(|one| one.data);
        assert_eq!(intersecting(tree, window).await, sorted(meet.collect()), "{window:?}");
        let mut inside = Vec::new();
        let visit = |entry: Entry<'_, 2>| {
            inside.push(entry.id);
            ControlFlow::Continue(())
        };
        tree.inside(window, visit).await.expect("found");
        let within = other.locate_in_envelope(&envelope).map(|one| one.data);
        assert_eq!(sorted(inside), sorted(within.collect()), "{window:?}");
        let near = tree.nearest(window.low(), 5).await.expect("found");
        let near: Vec<f64> = near.iter().map(|one| one.distance_squared).collect();
        let nearest = other.nearest_neighbor_iter_with_distance_2(&window.low()).take(5);
        let nearest: Vec<f64> = nearest.map(|(_, distance)| distance).collect();
        assert_eq!(near.len(), nearest.len());
        let same = near.iter().zip(&nearest).all(|(a, b)| (a - b).abs() <= 1e-9 * a.max(1.0));
        assert!(same, "around {:?}: {near:?} and {nearest:?}", window.low());
    }
}

#[test]
fn cities_are_found_as_rstar_finds_them() {
    in_worlds(1, |_, _, memory| async move {
        let entries: Vec<(Rect<2>, u64)> = CITIES
            .iter()
            .enumerate()
            .map(|(id, at)| (Rect::point(*at).expect("a point"), id as u64))
            .collect();
        let windows: Vec<Rect<2>> = CITIES
            .iter()
            .flat_map(|[x, y]| {
                [1.0, 10.0, 60.0].map(|size| {
                    Rect::new([x - size, y - size], [x + size, y + size]).expect("a box")
                })
            })
            .collect();
        let tree = RTree::<_, 2>::create(memory, fan_out_3(0)).await.expect("room");
        for (rect, id) in &entries {
            tree.insert(rect, *id, &[]).await.expect("room");
        }
        compare(&tree, &other_of(&entries), &windows).await;
    });
}

#[test]
fn random_boxes_are_found_as_rstar_finds_them_after_inserts_moves_and_loads() {
    in_worlds(2, |_, handle, memory| async move {
        let mut random = Random::new(handle.random());
        let mut entries: Vec<(Rect<2>, u64)> =
            (0..600).map(|id| (random.rect(1000, 30), id)).collect();
        let windows: Vec<Rect<2>> = (0..60).map(|_| random.rect(1000, 200)).collect();
        for packing in [None, Some(Packing::SortTileRecursive), Some(Packing::Hilbert)] {
            let config = match packing {
                None => fan_out_3(0),
                Some(_) => RTreeConfig::DEFAULT,
            };
            let tree = RTree::<_, 2>::create(memory.clone(), config).await.expect("room");
            if let Some(packing) = packing {
                let new = entries.iter();
                let new = new.map(|&(rect, id)| NewEntry { rect, id, payload: Vec::new() });
                tree.bulk_load_by(new.collect(), packing).await.expect("room");
            } else {
                for (rect, id) in &entries {
                    tree.insert(rect, *id, &[]).await.expect("room");
                }
            }
            compare(&tree, &other_of(&entries), &windows).await;
            for (rect, id) in entries.iter_mut().step_by(3) {
                let new = random.rect(1000, 30);
                assert!(tree.update(rect, *id, &new, &[]).await.expect("moved"));
                *rect = new;
            }
            compare(&tree, &other_of(&entries), &windows).await;
        }
    });
}
