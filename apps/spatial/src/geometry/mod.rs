//! Places, boxes and distances, on a plane and on the Earth.
//!
//! ```text
//!   Space ──► plane     numbers x and y; nothing wraps
//!        └──► sphere    degrees; distances along great circles
//! ```

mod area;
mod distance;
mod plane;
mod space;
mod sphere;

pub(crate) use area::Area;
pub(crate) use distance::Distance;
pub(crate) use space::{BadCorner, Space};
