//! Boxes of longitudes and latitudes on a sphere, and the distances between them along great
//! circles.
//!
//! Longitudes of a box begin at -180 to 180 and may end above 180: such a box crosses the
//! antimeridian. Two longitudes are the same when they differ by a multiple of 360.
//!
//! # The distance of two boxes
//!
//! 1. If the boxes have a common longitude, the nearest points are on it. The distance is the gap
//!    between the latitudes: no way is shorter than the change of its latitude.
//! 2. Otherwise let `d` be the smaller of the two gaps between the longitudes. For any latitudes
//!    `u` of one box and `v` of the other the distance falls with the gap of the longitudes. So
//!    the nearest points are `d` apart, and only `u` and `v` are left to choose.
//! 3. The cosine of the distance is `A cos(u - v) - B cos(u + v)`, with `A = (1 + cos d) / 2` and
//!    `B = (1 - cos d) / 2`. In the interior of all `u` and `v` it has a saddle and no maximum. So
//!    the nearest points have `u` or `v` at the end of its range.
//! 4. With `u` fixed the cosine is `R cos(v - t)`, with `t = atan2(sin u, cos u cos d)`. Its
//!    greatest value is at `t`, if that is in the range of `v`, else at an end of that range.
//!
//! So twelve pairs of latitudes are tried, and the result is exact. A box that reaches a pole needs
//! no rule of its own.

use std::f64::consts::PI;

use latchwork_rtree::Rect;

use super::area::Area;

/// The mean radius of the Earth in metres (IUGG: R1).
const RADIUS_M: f64 = 6_371_008.8;

/// More than the rounding of two distances differs, in metres. The angle of [`arc`] has an error of
/// some 1e-16, and a turn has some 1e7 metres.
pub(super) const ROUNDING_M: f64 = 1e-6;

/// The length of an arc of so many degrees, in metres.
pub(super) fn of_degrees(degrees: f64) -> f64 {
    degrees.to_radians() * RADIUS_M
}

/// The longitudes between two that are in order: the shorter way, which may cross the antimeridian.
pub(super) fn shorter_way(west: f64, east: f64) -> (f64, f64) {
    if east - west > 180.0 { (east, west + 360.0) } else { (west, east) }
}

/// The boxes to ask an index for. Entries begin at -180 to 180 and end below 540, and so does the
/// window. So copies of the window a turn to each side meet all that the window meets.
pub(super) fn windows(window: &Area) -> Vec<Area> {
    let ([west, south], [east, north]) = (window.low(), window.high());
    let turned = [0.0, 360.0, -360.0].map(|turn| ([west + turn, south], [east + turn, north]));
    // All longitudes meet at a pole.
    let pole = |latitude: f64| ([-180.0, latitude], [540.0, latitude]);
    let poles = [(north, 90.0), (south, -90.0)].into_iter();
    let poles = poles.filter(|(edge, pole)| edge == pole).map(|(_, latitude)| pole(latitude));
    turned.into_iter().chain(poles).filter_map(|(low, high)| Rect::new(low, high).ok()).collect()
}

/// The smaller gap between two ranges of longitudes, in degrees, 0 to 180. 0 if they have a common
/// longitude.
fn longitude_gap(a: &Area, b: &Area) -> f64 {
    let (a, b) = ((a.low()[0], a.high()[0]), (b.low()[0], b.high()[0]));
    if a.1 - a.0 >= 360.0 || b.1 - b.0 >= 360.0 {
        return 0.0;
    }
    let turn = |degrees: f64| degrees.rem_euclid(360.0);
    let is_inside = |at: f64, range: (f64, f64)| turn(at - range.0) <= range.1 - range.0;
    if is_inside(b.0, a) || is_inside(a.0, b) {
        return 0.0;
    }
    turn(b.0 - a.1).min(turn(a.0 - b.1)).min(180.0)
}

/// The least distance between points of both boxes, in metres.
pub(super) fn distance(a: &Area, b: &Area) -> f64 {
    let (u, v) = ([a.low()[1], a.high()[1]], [b.low()[1], b.high()[1]]);
    let gap = longitude_gap(a, b);
    if gap == 0.0 {
        return of_degrees((u[0] - v[1]).max(v[0] - u[1]).max(0.0));
    }
    let gap = gap.to_radians();
    let (u, v) = (u.map(f64::to_radians), v.map(f64::to_radians));
    if u[0] == u[1] && v[0] == v[1] {
        return RADIUS_M * arc(u[0], v[0], gap);
    }
    RADIUS_M * nearest(u, v, gap).min(nearest(v, u, gap))
}

/// The least arc from the ends of `fixed` to any latitude of `free`, in radians.
fn nearest(fixed: [f64; 2], free: [f64; 2], gap: f64) -> f64 {
    let mut least = f64::INFINITY;
    for u in fixed {
        let best = u.sin().atan2(u.cos() * gap.cos());
        let inside = Some(best).filter(|best| free[0] < *best && *best < free[1]);
        for v in free.into_iter().chain(inside) {
            least = least.min(arc(u, v, gap));
        }
        if fixed[0] == fixed[1] {
            break;
        }
    }
    least
}

/// The arc between two latitudes whose longitudes differ by `gap`, all in radians. This form is
/// exact for the nearest points and for opposite ones (Vincenty, Survey Review 1975).
fn arc(u: f64, v: f64, gap: f64) -> f64 {
    let ((sin_u, cos_u), (sin_v, cos_v)) = (u.sin_cos(), v.sin_cos());
    let (sin_gap, cos_gap) = gap.sin_cos();
    let across = cos_v * sin_gap;
    let along = cos_u * sin_v - sin_u * cos_v * cos_gap;
    let cosine = sin_u * sin_v + cos_u * cos_v * cos_gap;
    across.hypot(along).atan2(cosine).clamp(0.0, PI)
}

#[cfg(test)]
mod tests;
