//! The two simplest distributions.

use latchwork_strict::strict_assert;

use super::refuse;
use crate::WorkloadError;
use crate::random::WorkloadRandom;

/// A distribution that gives all items the same probability.
#[derive(Clone, Debug)]
pub struct Uniform {
    items: u64,
}

impl Uniform {
    /// Item numbers `0..items`.
    ///
    /// # Errors
    ///
    /// Fails without items.
    pub fn new(items: u64) -> Result<Uniform, WorkloadError> {
        if items == 0 {
            return refuse("uniform", "it needs at least one item");
        }
        Ok(Uniform { items })
    }

    /// Draws an item number.
    #[inline]
    pub fn draw(&self, random: &mut WorkloadRandom) -> u64 {
        random.below(self.items)
    }
}

/// All items in order, again and again. Of n workers that share the items, each takes every n-th
/// item.
#[derive(Clone, Debug)]
pub struct Sequential {
    items: u64,
    next: u64,
    stride: u64,
}

impl Sequential {
    /// The sequence of worker `worker` out of `workers` over the item numbers `0..items`.
    ///
    /// # Errors
    ///
    /// Fails without items or without workers.
    pub fn new(items: u64, worker: u64, workers: u64) -> Result<Sequential, WorkloadError> {
        if items == 0 {
            return refuse("sequential", "it needs at least one item");
        }
        if workers == 0 {
            return refuse("sequential", "it needs at least one worker");
        }
        Ok(Sequential { items, next: worker % items, stride: workers % items })
    }

    /// The next item number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        let item = self.next;
        strict_assert!(item < self.items, "an item beyond the last");
        let left = self.items - item;
        self.next = if self.stride < left { item + self.stride } else { self.stride - left };
        strict_assert!(self.next < self.items, "an item beyond the last");
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_reaches_every_item() {
        let uniform = Uniform::new(5).unwrap();
        let mut random = WorkloadRandom::new(2);
        let mut seen = [0; 5];
        for _ in 0..50_000 {
            seen[uniform.draw(&mut random) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (9_600..10_400).contains(&n)), "{seen:?}");
        assert!(Uniform::new(0).is_err());
    }

    #[test]
    fn sequences_of_all_workers_cover_the_items_in_turn() {
        let mut workers: Vec<_> = (0..3).map(|w| Sequential::new(7, w, 3).unwrap()).collect();
        let drawn: Vec<u64> = (0..5)
            .flat_map(|_| workers.iter_mut().map(Sequential::draw).collect::<Vec<_>>())
            .collect();
        assert_eq!(drawn, [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0]);
    }

    #[test]
    fn more_workers_than_items_stay_inside() {
        let mut only = Sequential::new(1, 5, 9).unwrap();
        assert_eq!([only.draw(), only.draw(), only.draw()], [0, 0, 0]);
        let mut last = Sequential::new(2, 3, 4).unwrap();
        assert_eq!([last.draw(), last.draw()], [1, 1]);
        assert!(Sequential::new(0, 0, 1).is_err());
        assert!(Sequential::new(1, 0, 0).is_err());
    }
}
