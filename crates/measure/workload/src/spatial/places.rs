//! [`SpatialPlaces`]: where objects and queries are.

use std::f64::consts::TAU;

use crate::WorkloadError;
use crate::distribution::Zipfian;
use crate::random::WorkloadRandom;

/// How hot spots move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpotMotion {
    /// They stay.
    Fixed,
    /// Each goes around a circle in this many operations of one client.
    Wandering(u64),
}

/// A distribution of places in the unit square.
#[derive(Clone, Debug)]
pub enum SpatialPlaces {
    /// All places alike.
    Uniform,
    /// Places around the middles of spots.
    Spots {
        /// The middles. They are the same for all clients.
        middles: Vec<[f64; 2]>,
        /// The popularity of the spots; all alike without.
        popularity: Option<Zipfian>,
        /// The standard deviation of the distance from a middle along each axis.
        spread: f64,
        /// How the middles move.
        motion: SpotMotion,
    },
}

/// The radius of the circle around which a middle wanders.
const RADIUS: f64 = 0.2;

impl SpatialPlaces {
    /// Clusters of equal popularity that stay where they are.
    pub fn clustered(clusters: u64, spread: f64, seed: u64) -> SpatialPlaces {
        let middles = middles(clusters, seed);
        SpatialPlaces::Spots { middles, popularity: None, spread, motion: SpotMotion::Fixed }
    }

    /// Hot spots of zipfian popularity that wander.
    ///
    /// # Errors
    /// No spots, or a skew that is not above 0 and below 1.
    pub fn hot_spots(
        spots: u64,
        (spread, skew): (f64, f64),
        period: u64,
        seed: u64,
    ) -> Result<SpatialPlaces, WorkloadError> {
        let popularity = Some(Zipfian::new(spots, skew)?);
        let motion = SpotMotion::Wandering(period.max(1));
        Ok(SpatialPlaces::Spots { middles: middles(spots, seed), popularity, spread, motion })
    }

    /// Draws a place for a client that has done this many operations.
    pub fn draw(&self, random: &mut WorkloadRandom, operations: u64) -> [f64; 2] {
        let SpatialPlaces::Spots { middles, popularity, spread, motion } = self else {
            return [random.next_f64(), random.next_f64()];
        };
        let spot = match popularity {
            Some(popularity) => popularity.draw(random),
            None => random.below(middles.len() as u64),
        };
        let middle = middles.get(spot as usize).copied().unwrap_or([0.5; 2]);
        let middle = match motion {
            SpotMotion::Fixed => middle,
            SpotMotion::Wandering(period) => {
                // Neighbours in rank are at different points of their circles.
                let turn = (operations % period) as f64 / *period as f64 + spot as f64 * 0.618_034;
                let (sin, cos) = (TAU * turn).sin_cos();
                [middle[0] + RADIUS * cos, middle[1] + RADIUS * sin]
            }
        };
        let [x, y] = normal(random);
        [wrapped(middle[0] + spread * x), wrapped(middle[1] + spread * y)]
    }
}

fn middles(count: u64, seed: u64) -> Vec<[f64; 2]> {
    let mut random = WorkloadRandom::for_stream(seed, u64::MAX);
    (0..count).map(|_| [random.next_f64(), random.next_f64()]).collect()
}

/// Two independent numbers of the normal distribution (Box and Muller).
fn normal(random: &mut WorkloadRandom) -> [f64; 2] {
    let radius = (-2.0 * (1.0 - random.next_f64()).ln()).sqrt();
    let (sin, cos) = (TAU * random.next_f64()).sin_cos();
    [radius * cos, radius * sin]
}

/// The place in the square: what leaves it on one side comes in on the other.
pub(super) fn wrapped(at: f64) -> f64 {
    let at = at.rem_euclid(1.0);
    // The remainder of a tiny negative number rounds to 1.
    if at < 1.0 { at } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_in_the_square() {
        let hot = SpatialPlaces::hot_spots(10, (0.3, 0.9), 100, 1).expect("a distribution");
        for places in [SpatialPlaces::Uniform, SpatialPlaces::clustered(3, 0.5, 1), hot] {
            let mut random = WorkloadRandom::new(5);
            for operation in 0..5_000 {
                let place = places.draw(&mut random, operation);
                assert!(place.iter().all(|at| (0.0..1.0).contains(at)), "{place:?}");
            }
        }
        assert_eq!([wrapped(-1e-30), wrapped(1.25), wrapped(-0.25)], [0.0, 0.25, 0.75]);
    }

    #[test]
    fn the_hottest_spot_wanders_around_and_comes_back() {
        let hot = SpatialPlaces::hot_spots(1, (1e-6, 0.9), 1_000, 1).expect("a distribution");
        let at = |operations| hot.draw(&mut WorkloadRandom::new(9), operations);
        let apart = |a: [f64; 2], b: [f64; 2]| {
            let gap = |d: usize| (a[d] - b[d]).abs().min(1.0 - (a[d] - b[d]).abs());
            gap(0).hypot(gap(1))
        };
        assert!((apart(at(0), at(500)) - 2.0 * RADIUS).abs() < 1e-4);
        assert!(apart(at(0), at(1_000)) < 1e-4);
        assert!(SpatialPlaces::hot_spots(0, (0.1, 0.9), 1, 1).is_err());
        assert!(SpatialPlaces::hot_spots(5, (0.1, 1.0), 1, 1).is_err());
    }
}
