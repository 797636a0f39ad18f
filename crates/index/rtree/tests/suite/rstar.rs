//! The answers of another R-tree, the crate `rstar`, and of a scan, on the same entries.

use std::ops::ControlFlow;
use std::path::Path;

use latchwork_coherence::testing::{LocalMemory, LocalNode, Settings, executor};
use latchwork_rtree::{Entry, NewEntry, Packing, RTree, RTreeConfig, Rect};
use rstar::AABB;
use rstar::primitives::{GeomWithData, Rectangle};

use crate::common::{Random, are_near, fan_out_3, in_worlds, intersecting, joined};

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

fn sorted(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids
}

/// Compares the answers of all kinds for each window with those of `rstar` and of a scan.
async fn compare(tree: &RTree<LocalMemory, 2>, entries: &[(Rect<2>, u64)], windows: &[Rect<2>]) {
    let other = other_of(entries);
    let scan = |belongs: &dyn Fn(&Rect<2>) -> bool| {
        let found = entries.iter().filter(|(rect, _)| belongs(rect));
        sorted(found.map(|(_, id)| *id).collect())
    };
    for window in windows {
        let envelope = AABB::from_corners(window.low(), window.high());
        let expected = scan(&|rect| rect.intersects(window));
        let meet = other.locate_in_envelope_intersecting(&envelope).map(|one| one.data);
        assert_eq!(sorted(meet.collect()), expected, "{window:?}");
        assert_eq!(intersecting(tree, window).await, expected, "{window:?}");
        assert_eq!(tree.count(window).await.expect("counted"), expected.len() as u64);

        let (mut inside, mut around) = (Vec::new(), Vec::new());
        let visit = |entry: Entry<'_, 2>| {
            inside.push(entry.id);
            ControlFlow::Continue(())
        };
        tree.inside(window, visit).await.expect("found");
        let within = other.locate_in_envelope(&envelope).map(|one| one.data);
        assert_eq!(sorted(within.collect()), scan(&|rect| window.contains(rect)), "{window:?}");
        assert_eq!(sorted(inside), scan(&|rect| window.contains(rect)), "{window:?}");

        let corner = window.low();
        let point = Rect::point(corner).expect("a point");
        let visit = |entry: Entry<'_, 2>| {
            around.push(entry.id);
            ControlFlow::Continue(())
        };
        tree.containing(&point, visit).await.expect("found");
        let at_point = other.locate_all_at_point(&corner).map(|one| one.data);
        assert_eq!(sorted(at_point.collect()), scan(&|rect| rect.contains(&point)), "{corner:?}");
        assert_eq!(sorted(around), scan(&|rect| rect.contains(&point)), "{corner:?}");

        let near = tree.nearest(corner, 5).await.expect("found");
        let near: Vec<(f64, u64)> = near.iter().map(|one| (one.distance_squared, one.id)).collect();
        let mut all: Vec<(f64, u64)> =
            entries.iter().map(|(rect, id)| (rect.distance_squared(&corner), *id)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        all.truncate(5);
        assert_eq!(near, all, "around {corner:?}");
        let nearest = other.nearest_neighbor_iter_with_distance_2(&corner).take(5);
        let nearest: Vec<f64> = nearest.map(|(_, distance)| distance).collect();
        let same = near.iter().zip(&nearest).all(|(a, b)| (a.0 - b).abs() <= 1e-9 * a.0.max(1.0));
        assert!(same, "around {corner:?}: {near:?} and {nearest:?}");
    }
    let union = entries.iter().map(|(rect, _)| *rect).reduce(|all, rect| all.union(&rect));
    let bounds = tree.bounds().await.expect("read");
    assert_eq!(bounds.is_some(), union.is_some());
    assert!(bounds.zip(union).is_none_or(|(bounds, union)| bounds.contains(&union)));
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
        compare(&tree, &entries, &windows).await;
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
            compare(&tree, &entries, &windows).await;
            for (rect, id) in entries.iter_mut().step_by(3) {
                let new = random.rect(1000, 30);
                assert!(tree.update(rect, *id, &new, &[]).await.expect("moved"));
                *rect = new;
            }
            compare(&tree, &entries, &windows).await;
        }
    });
}

/// Pairs of columns, for longitude and latitude of each place of a row.
type Columns = &'static [[&'static str; 2]];

/// The boxes around the places of each row. Rows without all of them are left out.
fn boxes(path: &Path, columns: Columns) -> Vec<(Rect<2>, u64)> {
    let mut reader = csv::Reader::from_path(path).expect("a file");
    let header = reader.headers().expect("names").clone();
    let at = |name: &str| header.iter().position(|column| column == name).expect("a column");
    let columns: Vec<[usize; 2]> = columns.iter().map(|pair| pair.map(at)).collect();
    let mut found = Vec::new();
    for record in reader.records() {
        let record = record.expect("a record");
        let places = columns.iter().map(|pair| {
            let [x, y] = pair.map(|column| record[column].parse().ok());
            Rect::point([x?, y?]).ok()
        });
        let rects: Option<Vec<Rect<2>>> = places.collect();
        let rect = rects.and_then(|rects| rects.into_iter().reduce(|a, b| a.union(&b)));
        found.extend(rect.map(|rect| (rect, found.len() as u64)));
    }
    found
}

async fn loaded(
    node: &LocalNode,
    memory: LocalMemory,
    entries: &[(Rect<2>, u64)],
    packing: Option<Packing>,
) -> RTree<LocalMemory, 2> {
    let before = node.live_lines();
    let tree = RTree::<_, 2>::create(memory, RTreeConfig::DEFAULT).await.expect("room");
    match packing {
        Some(packing) => {
            let new = entries.iter();
            let new = new.map(|&(rect, id)| NewEntry { rect, id, payload: Vec::new() });
            tree.bulk_load_by(new.collect(), packing).await.expect("room");
        }
        None => {
            for (rect, id) in entries {
                tree.insert(rect, *id, &[]).await.expect("room");
            }
        }
    }
    tree.release_spares().await.expect("freed");
    let statistics = tree.validate().await.expect("whole");
    assert_eq!(statistics.entries, entries.len() as u64);
    assert_eq!(statistics.pages(), (node.live_lines() - before) as u64);
    tree
}

/// Runways, radio aids and populated places of the world, as boxes of degrees. Without the files
/// the test prints why it does nothing.
#[test]
fn the_real_data_is_found_as_rstar_and_a_scan_find_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data");
    const PLACE: Columns = &[["longitude_deg", "latitude_deg"]];
    const ENDS: Columns =
        &[["le_longitude_deg", "le_latitude_deg"], ["he_longitude_deg", "he_latitude_deg"]];
    let files = [
        ("runways.csv", ENDS, 15_000, None),
        ("navaids.csv", PLACE, 11_000, Some(Packing::SortTileRecursive)),
        ("places.csv", PLACE, 140_000, Some(Packing::Hilbert)),
    ];
    if !files.iter().all(|(name, ..)| folder.join(name).is_file()) {
        let line = format!("skipped: the real data: there is none in {}\n", folder.display());
        // The test harness does not capture this output, as it would with `eprintln`.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        return;
    }
    let mut executor = executor(1);
    let node = LocalNode::new(Settings { line_size: 2048, frames: 1 << 14, ..Settings::CALM });
    let memory = node.worker(executor.handle());
    executor.block_on(async move {
        let mut sides = Vec::new();
        for (name, columns, least, packing) in files {
            let mut entries = boxes(&folder.join(name), columns);
            assert!(entries.len() > least, "{name}: {}", entries.len());
            let tree = loaded(&node, memory.clone(), &entries, packing).await;
            let windows = |entries: &[(Rect<2>, u64)]| {
                let some = entries.iter().step_by(entries.len() / 40);
                let around = some.zip([0.0, 0.1, 1.0, 10.0].into_iter().cycle());
                let around = around.map(|((rect, _), size)| {
                    let low = rect.low().map(|at| at - size);
                    Rect::new(low, rect.high().map(|at| at + size)).expect("a box")
                });
                around.collect::<Vec<_>>()
            };
            compare(&tree, &entries, &windows(&entries)).await;
            // A third goes, and a third moves to the place of another one.
            let places: Vec<Rect<2>> = entries.iter().map(|(rect, _)| *rect).collect();
            let mut left = Vec::new();
            for (at, (rect, id)) in entries.drain(..).enumerate() {
                match at % 3 {
                    0 => assert!(tree.remove(&rect, id).await.expect("removed"), "{rect:?}"),
                    1 => {
                        let new = places[at * 7919 % places.len()];
                        assert!(tree.update(&rect, id, &new, &[]).await.expect("moved"));
                        left.push((new, id));
                    }
                    _ => left.push((rect, id)),
                }
            }
            compare(&tree, &left, &windows(&left)).await;
            assert_eq!(tree.validate().await.expect("whole").entries, left.len() as u64);
            sides.push((tree, left));
        }
        let [(runways, boxes), (navaids, aids), (places, towns)] = sides.as_slice() else {
            panic!("three files")
        };
        let mut near: Vec<(u64, u64)> = Vec::new();
        for (one, i) in boxes {
            let two = aids.iter().filter(|(two, _)| are_near(one, two, 0.2));
            near.extend(two.map(|(_, j)| (*i, *j)));
        }
        near.sort_unstable();
        assert!(near.len() > 1000, "{}", near.len());
        assert_eq!(joined(runways, navaids, 0.2).await, near);
        let (one, two) = (other_of(towns), other_of(boxes));
        let pairs = one.intersection_candidates_with_other_tree(&two);
        let mut pairs: Vec<(u64, u64)> = pairs.map(|(one, two)| (one.data, two.data)).collect();
        pairs.sort_unstable();
        assert!(!pairs.is_empty());
        assert_eq!(joined(places, runways, 0.0).await, pairs);
    });
}
