//! [`Space`]: a plane or the Earth.

use latchwork_rtree::Rect;

use super::area::Area;
use super::{plane, sphere};

/// What the numbers of the columns mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    /// Points of a plane: nothing wraps, and distances have the unit of the columns.
    Plane,
    /// Degrees on the Earth, taken as a sphere; distances are along great circles, in metres.
    Sphere,
}

/// Why two corners make no box.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum BadCorner {
    /// The longitude is outside of -180 to 180.
    Longitude(f64),
    /// The latitude is outside of -90 to 90.
    Latitude(f64),
    /// A number is infinite, or is none.
    NotFinite(f64),
}

/// Why a window is none.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum BadWindow {
    /// A corner that is no place.
    Corner(BadCorner),
    /// Its south is above its north, or its west above its east on a plane.
    Inverted(&'static str),
}

impl Space {
    /// The space of a command line with or without `--great-circle`.
    pub(crate) fn of(is_great_circle: bool) -> Space {
        if is_great_circle { Space::Sphere } else { Space::Plane }
    }

    /// The name, as in result documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Plane => "plane",
            Space::Sphere => "sphere",
        }
    }

    /// The box of two corners in any order, each `[longitude, latitude]`. On the sphere it is the
    /// one that goes the shorter way around the Earth: across the antimeridian it ends above 180.
    ///
    /// # Errors
    /// The corner that is no place.
    pub(crate) fn boxed(self, corners: [[f64; 2]; 2]) -> Result<Area, BadCorner> {
        corners.iter().try_for_each(|corner| self.check(corner))?;
        let [a, b] = corners;
        let (south, north) = (a[1].min(b[1]), a[1].max(b[1]));
        let (mut west, mut east) = (a[0].min(b[0]), a[0].max(b[0]));
        if self == Space::Sphere {
            (west, east) = sphere::shorter_way(west, east);
        }
        // The numbers are finite and in order, so this is a box.
        Rect::new([west, south], [east, north]).map_err(|_| BadCorner::NotFinite(west))
    }

    /// Whether `corner` is a place.
    fn check(self, corner: &[f64; 2]) -> Result<(), BadCorner> {
        let [longitude, latitude] = *corner;
        match corner.iter().find(|number| !number.is_finite()) {
            Some(number) => Err(BadCorner::NotFinite(*number)),
            None if self == Space::Plane => Ok(()),
            None if longitude.abs() > 180.0 => Err(BadCorner::Longitude(longitude)),
            None if latitude.abs() > 90.0 => Err(BadCorner::Latitude(latitude)),
            None => Ok(()),
        }
    }

    /// The window from west to east and from south to north. On the sphere a west above the east is
    /// a window across the antimeridian. On a plane sides may be infinite.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn window(
        self,
        west: f64,
        south: f64,
        east: f64,
        north: f64,
    ) -> Result<Area, BadWindow> {
        let mut east = east;
        if self == Space::Sphere {
            let corners = [[west, south], [east, north]];
            corners.iter().try_for_each(|corner| self.check(corner)).map_err(BadWindow::Corner)?;
            if west > east {
                east += 360.0;
            }
        }
        if let Some(number) = [west, south, east, north].into_iter().find(|number| number.is_nan())
        {
            return Err(BadWindow::Corner(BadCorner::NotFinite(number)));
        }
        if south > north {
            return Err(BadWindow::Inverted("its south is above its north"));
        }
        let inverted = |_| BadWindow::Inverted("its west is above its east");
        Rect::new([west, south], [east, north]).map_err(inverted)
    }

    /// The boxes to ask an index for, so that all entries that meet `window` are found. An entry
    /// may meet several of them.
    pub(crate) fn windows(self, window: &Area) -> Vec<Area> {
        match self {
            Space::Plane => vec![*window],
            Space::Sphere => sphere::windows(window),
        }
    }

    /// Whether the boxes have a common point.
    pub(crate) fn meets(self, a: &Area, b: &Area) -> bool {
        match self {
            Space::Plane => a.intersects(b),
            Space::Sphere => sphere::windows(a).iter().any(|window| window.intersects(b)),
        }
    }

    /// The least distance between points of both boxes, in metres on the sphere.
    pub(crate) fn distance(self, a: &Area, b: &Area) -> f64 {
        match self {
            Space::Plane => plane::distance(a, b),
            Space::Sphere => sphere::distance(a, b),
        }
    }

    /// A number that is not above the distance from `a` to any box inside of `cover`.
    pub(crate) fn bound(self, a: &Area, cover: &Area) -> f64 {
        match self {
            // Each step of the computation is monotone, so rounding keeps the order.
            Space::Plane => plane::distance(a, cover),
            Space::Sphere => sphere::distance(a, cover) - sphere::ROUNDING_M,
        }
    }

    /// A number that is quick to compute and not above the distance between the boxes. A scan uses
    /// it, and shares no other code with the index.
    pub(crate) fn quick_bound(self, a: &Area, b: &Area) -> f64 {
        let gap = (a.low()[1] - b.high()[1]).max(b.low()[1] - a.high()[1]).max(0.0);
        match self {
            Space::Plane => gap,
            Space::Sphere => sphere::of_degrees(gap) - sphere::ROUNDING_M,
        }
    }

    /// The distance for people, with its unit.
    pub(crate) fn shown(self, distance: f64) -> String {
        match self {
            Space::Plane => format!("{distance:.6}"),
            Space::Sphere if distance < 10_000.0 => format!("{distance:.1} m"),
            Space::Sphere => format!("{:.3} km", distance / 1000.0),
        }
    }
}

impl std::fmt::Display for BadCorner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadCorner::Longitude(number) => {
                write!(f, "the longitude {number} is not from -180 to 180")
            }
            BadCorner::Latitude(number) => write!(f, "the latitude {number} is not from -90 to 90"),
            BadCorner::NotFinite(number) => write!(f, "{number} is not a finite number"),
        }
    }
}

impl std::fmt::Display for BadWindow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadWindow::Corner(corner) => corner.fmt(f),
            BadWindow::Inverted(how) => f.write_str(how),
        }
    }
}
