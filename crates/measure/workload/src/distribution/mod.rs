//! Distributions over item numbers, each named for what it is.
//!
//! ```text
//!   Uniform           every item alike
//!   Zipfian           item k about (k+1)^-theta as often as item 0, by Gray's formula
//!   ScrambledZipfian  YCSB's "zipfian": ten billion zipfian ranks, hashed and folded onto the items
//!   ScaledZipfian     a zipfian of any skew over more items than there are, folded onto them
//!   Weighted          a table of weights
//!   Latest            a zipfian over ages: the newest item is the most popular
//!   Exponential       ages again, with exponentially falling popularity
//!   Hotspot           a fraction of the items receives a fraction of the draws
//!   Sequential        one after the other, round and round
//!   Discrete          a few alternatives with weights
//! ```
//!
//! A draw takes the random generator from the caller
//! ([`WorkloadRandom`](crate::random::WorkloadRandom)) and allocates nothing.

mod ages;
mod alias;
mod discrete;
mod hotspot;
mod scaled;
mod scrambled;
mod simple;
mod zipfian;

pub use ages::{Exponential, LatestDistribution};
pub use alias::Weighted;
pub use discrete::Discrete;
pub use hotspot::Hotspot;
pub use scaled::ScaledZipfian;
pub use scrambled::ScrambledZipfian;
pub use simple::{Sequential, Uniform};
pub use zipfian::{YCSB_THETA, Zipfian, zeta};

use crate::WorkloadError;

/// Refuses a parameter of a distribution.
fn refuse<T>(distribution: &'static str, problem: impl Into<String>) -> Result<T, WorkloadError> {
    Err(WorkloadError::Distribution { distribution, problem: problem.into() })
}
