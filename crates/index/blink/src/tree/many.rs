//! Many lookups at once, so that their waits for memory overlap.

use latchwork_coherence::CoherentMemory;
use latchwork_strict::strict_assert;

use super::Tree;
use crate::page::{Glance, head_of};
use crate::{TreeError, TreeValue};

/// The lookups in flight together. They are enough to hide a cache miss of one lookup behind the
/// work of the others. They are few enough that fetched lines stay in the processor's cache until
/// their turn.
const LANES: usize = 16;
const _: () = assert!(LANES <= u32::BITS as usize, "each lookup of a group has a bit");

impl<M: CoherentMemory> Tree<M> {
    /// Looks up all of `keys`. Empties `found`, then stores one result for each key, in the order
    /// of the keys. Each key is seen at an instant of its own.
    ///
    /// Like [`get_with`](Tree::get_with) for each key, but several times as fast if the tree is
    /// larger than the processor's caches. All lookups descend together, one level at a time. The
    /// next page of each lookup arrives from memory while the other lookups proceed. `visit` also
    /// receives the position of the key.
    ///
    /// # Errors
    /// When one of the keys is empty or too long, and when memory fails. Then `found` is empty.
    pub async fn get_many<K: AsRef<[u8]>, R>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(usize, TreeValue<'_>) -> R,
        found: &mut Vec<Option<R>>,
    ) -> Result<(), TreeError> {
        found.clear();
        found.reserve(keys.len());
        for key in keys {
            self.limits.check_key(key.as_ref())?;
        }
        for group in keys.chunks(LANES) {
            let first = found.len();
            strict_assert!(first.is_multiple_of(LANES), "a group begins at its first lane");
            // The lookups that have to take the slow path.
            let mut slow = 0_u32;
            self.fast_group(
                group,
                |lane, value| visit(first + lane, value),
                |lane, result| {
                    slow |= u32::from(result.is_none()) << lane;
                    found.push(result.flatten());
                },
            );
            strict_assert!(
                found.len() == first + group.len(),
                "a lookup of the group has no result"
            );
            while slow != 0 {
                strict_assert!(
                    (slow.trailing_zeros() as usize) < group.len(),
                    "a lookup outside the group"
                );
                let lane = slow.trailing_zeros() as usize;
                slow &= slow - 1;
                let visit = |value: TreeValue<'_>| visit(first + lane, value);
                match self.get_with(group[lane].as_ref(), visit).await {
                    Ok(result) => found[first + lane] = result,
                    Err(error) => {
                        found.clear();
                        return Err(error);
                    }
                }
            }
            self.memory.handle().coop().await;
        }
        Ok(())
    }

    /// The fast path of [`get_many`](Tree::get_many) alone: a plain function that writes no shared
    /// memory. `found` receives the result of each key, in order. The result is `None` for a key
    /// whose pages are not all cached and undamaged. Then [`get_with`](Tree::get_with) finds the
    /// value.
    pub fn try_get_many<K: AsRef<[u8]>, R>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(usize, TreeValue<'_>) -> R,
        mut found: impl FnMut(usize, Option<Option<R>>),
    ) {
        for (number, group) in keys.chunks(LANES).enumerate() {
            let first = number * LANES;
            if group.iter().any(|key| self.limits.check_key(key.as_ref()).is_err()) {
                (0..group.len()).for_each(|lane| found(first + lane, None));
                continue;
            }
            self.fast_group(
                group,
                |lane, value| visit(first + lane, value),
                |lane, result| found(first + lane, result),
            );
        }
    }

    /// Performs up to [`LANES`] lookups. `done` receives the result of each lookup in order. The
    /// result is `None` for a lookup that has to take the slow path.
    #[inline]
    fn fast_group<K: AsRef<[u8]>, R>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(usize, TreeValue<'_>) -> R,
        mut done: impl FnMut(usize, Option<Option<R>>),
    ) {
        let mut lanes = [Some(self.fast_root()); LANES];
        strict_assert!(keys.len() <= LANES, "a group of {} keys", keys.len());
        let mut heads = [0; LANES];
        for (head, key) in heads.iter_mut().zip(keys) {
            *head = head_of(key.as_ref());
        }
        let lanes = &mut lanes[..keys.len()];
        // All lookups are on one level, except those that gave up.
        while lanes.iter().flatten().any(|at| at.level > 0) {
            for ((lane, key), head) in lanes.iter_mut().zip(keys).zip(heads) {
                *lane = lane.and_then(|at| self.fast_step(at, key.as_ref(), head));
                if let Some(child) = lane {
                    self.memory.prefetch(child.hint, Glance::likely(self.memory.payload_len()));
                }
            }
        }
        for (number, ((lane, key), head)) in lanes.iter().zip(keys).zip(heads).enumerate() {
            let visit = &mut |value: TreeValue<'_>| visit(number, value);
            let mut look = |leaf| self.fast_visit(leaf, key.as_ref(), head, visit, |_| ());
            done(number, lane.and_then(&mut look).map(|(found, ())| found));
        }
    }
}
