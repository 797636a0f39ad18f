use super::super::space::Space;
use super::*;

fn rect(west: f64, south: f64, east: f64, north: f64) -> Area {
    Rect::new([west, south], [east, north]).expect("a box")
}

fn point(longitude: f64, latitude: f64) -> Area {
    rect(longitude, latitude, longitude, latitude)
}

/// Numbers of a seed, from 0 up to 1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let mixed = (self.0 ^ self.0 >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }

    fn place(&mut self) -> [f64; 2] {
        // Whole degrees, so that sides and poles coincide often.
        [(self.next() * 361.0).floor() - 180.0, (self.next() * 181.0).floor() - 90.0]
    }

    fn area(&mut self) -> Area {
        let [west, south] = self.place();
        let wide = if self.next() < 0.1 { 359.0 } else { 40.0 };
        let east = west + (self.next() * wide).floor();
        let north = (south + (self.next() * 30.0).floor()).min(90.0);
        rect(west, south, east, north)
    }
}

/// The haversine of two places, as textbooks have it.
fn haversine(a: [f64; 2], b: [f64; 2]) -> f64 {
    let (u, v) = (a[1].to_radians(), b[1].to_radians());
    let (du, dv) = ((v - u) / 2.0, (b[0] - a[0]).to_radians() / 2.0);
    let h = du.sin().powi(2) + u.cos() * v.cos() * dv.sin().powi(2);
    2.0 * RADIUS_M * h.sqrt().min(1.0).asin()
}

/// Points on a grid over a box, its sides included.
fn grid(area: &Area, steps: usize) -> Vec<[f64; 2]> {
    let at = |low: f64, high: f64, step: usize| low + (high - low) * step as f64 / steps as f64;
    let (low, high) = (area.low(), area.high());
    let row = |j| (0..=steps).map(move |i| [at(low[0], high[0], i), at(low[1], high[1], j)]);
    (0..=steps).flat_map(row).collect()
}

#[test]
fn the_distance_of_places_is_the_haversine() {
    let mut random = Random(1);
    for _ in 0..10_000 {
        let (a, b) = (random.place(), random.place());
        let ours = distance(&point(a[0], a[1]), &point(b[0], b[1]));
        let expected = haversine(a, b);
        // The haversine is off near opposite points.
        assert!((ours - expected).abs() < 1.0, "{a:?} {b:?}: {ours} {expected}");
    }
    // Paris to New York, and one degree of the equator.
    let d = distance(&point(2.3522, 48.8566), &point(-74.0060, 40.7128));
    assert!((d - 5_837_000.0).abs() < 1_000.0, "{d}");
    let d = distance(&point(0.0, 0.0), &point(1.0, 0.0));
    assert!((d - 111_195.0).abs() < 1.0, "{d}");
    assert_eq!(distance(&point(7.0, 8.0), &point(7.0, 8.0)), 0.0);
}

#[test]
fn no_pair_of_points_of_two_boxes_is_nearer_than_the_distance() {
    let mut random = Random(2);
    for _ in 0..300 {
        let (a, b) = (random.area(), random.area());
        let ours = distance(&a, &b);
        assert!((ours - distance(&b, &a)).abs() < ROUNDING_M, "{a:?} {b:?}");
        let (left, right) = (grid(&a, 12), grid(&b, 12));
        let pairs = left.iter().flat_map(|p| right.iter().map(move |q| haversine(*p, *q)));
        let least = pairs.fold(f64::INFINITY, f64::min);
        assert!(ours <= least + 1.0, "{a:?} {b:?}: {ours}, and a pair at {least}");
        // A box of at most 40 by 30 degrees has a point of the grid within half a cell.
        let wide = a.high()[0] - a.low()[0] > 40.0 || b.high()[0] - b.low()[0] > 40.0;
        assert!(wide || least - ours < 650_000.0, "{a:?} {b:?}: {ours}, and {least} at best");
    }
}

#[test]
fn a_box_that_contains_another_is_never_farther() {
    let mut random = Random(3);
    for _ in 0..3_000 {
        let (from, inner) = (random.area(), random.area());
        let outer = inner.union(&random.area());
        let (near, far) = (Space::Sphere.bound(&from, &outer), distance(&from, &inner));
        assert!(near <= far, "{from:?} {inner:?} {outer:?}: {near} {far}");
        assert!(Space::Sphere.quick_bound(&from, &inner) <= far);
    }
}

#[test]
fn the_way_over_a_pole_is_the_short_one() {
    let d = distance(&point(0.0, 89.0), &point(180.0, 89.0));
    assert!((d - of_degrees(2.0)).abs() < 1e-3, "{d}");
    // A pole has all longitudes.
    let d = distance(&point(123.0, 90.0), &point(-50.0, 88.0));
    assert!((d - of_degrees(2.0)).abs() < 1e-3, "{d}");
    // A long parallel of the north: the nearest point from the other side is over the pole.
    let d = distance(&rect(-30.0, 80.0, 30.0, 80.0), &point(180.0, 80.0));
    let over = haversine([30.0, 80.0], [180.0, 80.0]);
    assert!((d - over).abs() < 1e-3, "{d} {over}");
    // A planar bound would be wrong here: 90 degrees of longitude are 140 metres.
    let d = distance(&point(0.0, 89.999), &point(90.0, 89.999));
    assert!((150.0..160.0).contains(&d), "{d}");
}

#[test]
fn across_the_antimeridian_the_gap_is_the_small_one() {
    let d = distance(&point(179.5, 0.0), &point(-179.5, 0.0));
    assert!((d - of_degrees(1.0)).abs() < 1e-6, "{d}");
    let fiji = Space::Sphere.boxed([[179.0, -17.0], [-179.0, -16.0]]).expect("a box");
    assert_eq!((fiji.low(), fiji.high()), ([179.0, -17.0], [181.0, -16.0]));
    for longitude in [179.5, -179.5, 180.0, -180.0] {
        assert_eq!(distance(&fiji, &point(longitude, -16.5)), 0.0, "{longitude}");
        assert!(Space::Sphere.meets(&fiji, &point(longitude, -16.5)), "{longitude}");
    }
    assert!(!Space::Sphere.meets(&fiji, &point(178.0, -16.5)));
    // 180 degrees apart both ways are equally long, and none is across.
    let half = Space::Sphere.boxed([[90.0, 0.0], [-90.0, 0.0]]).expect("a box");
    assert_eq!((half.low()[0], half.high()[0]), (-90.0, 90.0));
}

#[test]
fn windows_wrap_on_the_sphere_and_nowhere_on_a_plane() {
    let window = Space::Sphere.window(170.0, -50.0, -170.0, -30.0).expect("a window");
    assert_eq!((window.low()[0], window.high()[0]), (170.0, 190.0));
    for (longitude, is_inside) in [(175.0, true), (-175.0, true), (0.0, false), (-169.0, false)] {
        assert_eq!(
            Space::Sphere.meets(&window, &point(longitude, -40.0)),
            is_inside,
            "{longitude}"
        );
    }
    let north = Space::Sphere.window(10.0, 80.0, 20.0, 90.0).expect("a window");
    assert!(Space::Sphere.meets(&north, &point(-100.0, 90.0)), "a pole has all longitudes");
    assert!(!Space::Sphere.meets(&north, &point(-100.0, 89.9)));
    let wrong = |space: Space, west: f64, south: f64, east: f64, north: f64| {
        space.window(west, south, east, north).expect_err("no window").to_string()
    };
    assert!(wrong(Space::Plane, 170.0, 0.0, -170.0, 1.0).contains("west is above its east"));
    assert!(wrong(Space::Sphere, 0.0, 5.0, 1.0, 1.0).contains("south is above its north"));
    assert!(wrong(Space::Sphere, 0.0, 0.0, 181.0, 1.0).contains("longitude 181"));
    assert!(wrong(Space::Sphere, 0.0, -91.0, 1.0, 1.0).contains("latitude -91"));
    assert!(wrong(Space::Plane, f64::NAN, 0.0, 1.0, 1.0).contains("NaN is not a finite number"));
    assert!(wrong(Space::Sphere, 0.0, 0.0, f64::INFINITY, 1.0).contains("inf is not a finite"));
    assert!(Space::Plane.window(f64::NEG_INFINITY, 0.0, f64::INFINITY, 1.0).is_ok());
}
