//! Boxes and queries. Each query has its answer from a search that uses no tree.

use latchwork_workload::random::WorkloadRandom;

/// A box in two dimensions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Area {
    pub(crate) low: [f64; 2],
    pub(crate) high: [f64; 2],
}

/// The entries that a window meets: their number, and the sum of their ids.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Hits {
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

/// A window with its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) area: Area,
    pub(crate) hits: Hits,
}

/// A point with the sum of the squared distances of its nearest entries. Entries at one distance
/// may stand for each other, so their ids are not compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    pub(crate) point: [f64; 2],
    pub(crate) sum: f64,
}

/// The boxes, those to insert and to remove, and the queries.
#[derive(Debug)]
pub(crate) struct Data {
    /// The ids are the positions.
    pub(crate) boxes: Vec<Area>,
    /// Boxes that come and go. Their ids follow those of `boxes`.
    pub(crate) others: Vec<Area>,
    /// Windows with about 2, 110 and 9,000 hits.
    pub(crate) windows: [Vec<Window>; 3],
    /// Points with their 10 nearest entries, and with their nearest one.
    pub(crate) near: [Vec<Near>; 2],
}

/// The hits that the windows have on average.
pub(crate) const HITS: [f64; 3] = [2.0, 110.0, 9000.0];
/// The neighbours that the points ask for.
pub(crate) const NEIGHBOURS: [usize; 2] = [10, 1];

/// The longest side of a box. Sides are uniform from zero on.
const SIDE: f64 = 1.0;
const WINDOWS: [usize; 3] = [1 << 15, 1 << 13, 1 << 9];
const POINTS: usize = 1 << 13;
/// Boxes that come and go in one repetition.
pub(crate) const OTHERS: usize = 20_000;

impl Area {
    pub(crate) fn meets(&self, other: &Area) -> bool {
        (0..2).all(|d| self.low[d] <= other.high[d] && other.low[d] <= self.high[d])
    }

    fn distance_squared(&self, point: [f64; 2]) -> f64 {
        let gap = |d: usize| (self.low[d] - point[d]).max(point[d] - self.high[d]).max(0.0);
        gap(0) * gap(0) + gap(1) * gap(1)
    }
}

impl Hits {
    #[inline]
    pub(crate) fn add(&mut self, id: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(id);
    }
}

impl Near {
    /// Whether a tree's sum is this one, but for rounding.
    pub(crate) fn is(&self, sum: f64) -> bool {
        (self.sum - sum).abs() <= 1e-9 * self.sum.abs()
    }
}

impl Data {
    /// `count` boxes, at least a thousand. The middles are uniform in a square with one box per
    /// unit of area.
    pub(crate) fn new(count: u64, seed: u64) -> Data {
        let world = (count as f64).sqrt();
        let mut random = WorkloadRandom::for_stream(seed, 1);
        let mut unit = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut boxes: Vec<Area> = (0..count as usize + OTHERS)
            .map(|_| {
                let middle = [unit() * world, unit() * world];
                let half = [unit() * SIDE / 2.0, unit() * SIDE / 2.0];
                Area {
                    low: std::array::from_fn(|d| middle[d] - half[d]),
                    high: std::array::from_fn(|d| middle[d] + half[d]),
                }
            })
            .collect();
        let others = boxes.split_off(count as usize);
        let oracle = Oracle::new(&boxes);
        let windows = std::array::from_fn(|kind| {
            // A box meets the window if its middle is at most half of its side away.
            let side = (HITS[kind].min(count as f64 / 4.0).sqrt() - SIDE / 2.0).max(0.1);
            let draw = |_| {
                let low = [unit() * (world - side), unit() * (world - side)];
                let area = Area { low, high: low.map(|at| at + side) };
                Window { area, hits: oracle.hits(&area) }
            };
            (0..WINDOWS[kind]).map(draw).collect()
        });
        let near = NEIGHBOURS.map(|neighbours| {
            let draw = |_| {
                let point = [unit() * world, unit() * world];
                Near { point, sum: oracle.near(point, neighbours) }
            };
            (0..POINTS).map(draw).collect()
        });
        Data { boxes, others, windows, near }
    }
}

/// All boxes, in the order of one of their coordinates.
struct Oracle {
    sorted: Vec<(Area, u64)>,
}

impl Oracle {
    fn new(boxes: &[Area]) -> Oracle {
        let mut sorted: Vec<(Area, u64)> = boxes.iter().copied().zip(0..).collect();
        sorted.sort_by(|(a, _), (b, _)| a.low[0].total_cmp(&b.low[0]));
        Oracle { sorted }
    }

    /// All boxes that may have a point between two coordinates.
    fn strip(&self, low: f64, high: f64) -> &[(Area, u64)] {
        let from = self.sorted.partition_point(|(area, _)| area.low[0] < low - SIDE);
        let to = self.sorted.partition_point(|(area, _)| area.low[0] <= high);
        &self.sorted[from..to]
    }

    fn hits(&self, window: &Area) -> Hits {
        let mut hits = Hits::default();
        let strip = self.strip(window.low[0], window.high[0]).iter();
        strip.filter(|(area, _)| area.meets(window)).for_each(|(_, id)| hits.add(*id));
        hits
    }

    fn near(&self, point: [f64; 2], count: usize) -> f64 {
        let mut radius = 4.0;
        loop {
            let strip = self.strip(point[0] - radius, point[0] + radius).iter();
            let mut near: Vec<f64> = strip
                .map(|(area, _)| area.distance_squared(point))
                .filter(|distance| *distance <= radius * radius)
                .collect();
            // What the strip does not have is farther away than its half width.
            if near.len() >= count {
                near.sort_by(f64::total_cmp);
                return near[..count].iter().sum();
            }
            radius *= 2.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_a_scan_and_hits_are_as_many_as_wanted() {
        let data = Data::new(50_000, 1);
        for window in data.windows.iter().flat_map(|windows| windows.iter().take(20)) {
            let mut hits = Hits::default();
            let met = (0..).zip(&data.boxes).filter(|(_, area)| area.meets(&window.area));
            met.for_each(|(id, _)| hits.add(id));
            assert_eq!(hits, window.hits);
        }
        for (near, count) in data.near.iter().zip(NEIGHBOURS) {
            for near in near.iter().take(20) {
                let all = data.boxes.iter().map(|area| area.distance_squared(near.point));
                let mut all: Vec<f64> = all.collect();
                all.sort_by(f64::total_cmp);
                assert!(near.is(all[..count].iter().sum()));
            }
        }
        for (windows, wanted) in data.windows.iter().zip(HITS) {
            let all: u64 = windows.iter().map(|window| window.hits.count).sum();
            let mean = all as f64 / windows.len() as f64;
            assert!((0.9..1.1).contains(&(mean / wanted)), "{mean} {wanted}");
        }
    }
}
