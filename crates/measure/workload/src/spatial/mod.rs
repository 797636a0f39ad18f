//! Objects in a unit square: inserts, queries by place, and moves.
//!
//! ```text
//!   SpatialMix ─────────┐
//!   SpatialPlaces ──────┴──► ObjectStream, one per client ──► SpatialOperation
//!     uniform                   owns its objects: their ids, and where they are
//!     clustered
//!     hot spots that wander
//! ```
//!
//! Each object belongs to one client. Only this client inserts and moves the object, so the client
//! knows where the object is, without a read. Queries of all clients go anywhere.

mod mix;
mod places;
mod stream;

pub use mix::{SpatialKind, SpatialMix};
pub use places::{SpatialPlaces, SpotMotion};
pub use stream::{ObjectBox, ObjectConfig, ObjectStream, SpatialOperation};
