//! Many lookups at once, so that their waits for memory overlap.

use latchwork_coherence::CoherentMemory;
use latchwork_strict::strict_assert;

use super::Tree;
use super::child::Child;
use crate::page::{Glance, head_of};
use crate::{TreeError, TreeValue};

/// The number of lookups in progress together. The number is high enough to hide a cache miss of
/// one lookup behind the work of the others. The number is low enough that a prefetched page stays
/// in the processor's cache until its lookup continues.
const LANES: usize = 16;
const _: () = assert!(LANES == u16::BITS as usize, "a group has a bit for each lookup");

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
    /// When one of the keys is empty or too long, and when memory fails. After an error `found` is
    /// empty.
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
            // The lookups that have to take the slow path, and the page at which each continues.
            let mut slow = Vec::new();
            self.fast_group(
                group,
                |lane, value| visit(first + lane, value),
                |lane, result| {
                    found.push(match result {
                        Ok(result) => result,
                        Err(at) => {
                            slow.push((lane, at.descent()));
                            None
                        }
                    });
                },
            );
            strict_assert!(
                found.len() == first + group.len(),
                "a lookup of the group has no result"
            );
            for (lane, at) in slow {
                strict_assert!(lane < group.len(), "a lookup outside the group");
                let visit = &mut |value: TreeValue<'_>| visit(first + lane, value);
                match Box::pin(self.get_slow(at, group[lane].as_ref(), visit)).await {
                    Ok(result) => found[first + lane] = result,
                    Err(error) => {
                        found.clear();
                        return Err(error);
                    }
                }
                self.memory.handle().coop().await;
            }
            self.memory.handle().coop().await;
        }
        Ok(())
    }

    /// The fast path of [`get_many`](Tree::get_many) alone: a plain function that seldom writes
    /// shared memory. `found` receives the result of each key, in order. The result is `None` for a
    /// key whose lookup the fast path gives up, for example because a page is not cached. The
    /// result is also `None` for all keys of a group of 16 with an invalid key. For such keys the
    /// caller calls [`get_with`](Tree::get_with).
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
                |lane, result| found(first + lane, result.ok()),
            );
        }
    }

    /// Performs up to [`LANES`] lookups. `done` receives the result of each lookup in order. The
    /// error is the page at which the slow path continues.
    #[inline]
    fn fast_group<K: AsRef<[u8]>, R>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(usize, TreeValue<'_>) -> R,
        mut done: impl FnMut(usize, Result<Option<R>, Child<'_>>),
    ) {
        let mut lanes = [self.fast_root(); LANES];
        strict_assert!(keys.len() <= LANES, "a group of {} keys", keys.len());
        let mut heads = [0; LANES];
        for (head, key) in heads.iter_mut().zip(keys) {
            *head = head_of(key.as_ref());
        }
        let lanes = &mut lanes[..keys.len()];
        // A bit for each lookup that has not given up. All these lookups are on one level.
        let mut going = u16::MAX >> (LANES - keys.len().clamp(1, LANES));
        while lanes.get(going.trailing_zeros() as usize).is_some_and(|at| at.level > 0) {
            for (number, ((lane, key), head)) in lanes.iter_mut().zip(keys).zip(heads).enumerate() {
                if going & 1 << number == 0 {
                    continue;
                }
                let Some(child) = self.fast_step(*lane, key.as_ref(), head) else {
                    going &= !(1 << number);
                    continue;
                };
                self.memory.prefetch(child.hint, Glance::likely(self.memory.payload_len()));
                *lane = child;
            }
        }
        for (number, ((lane, key), head)) in lanes.iter().zip(keys).zip(heads).enumerate() {
            let visit = &mut |value: TreeValue<'_>| visit(number, value);
            let ended = match going & 1 << number {
                0 => None,
                _ => self.fast_visit(*lane, key.as_ref(), head, visit, |_| ()),
            };
            let ended = ended.map(|(found, ())| found).ok_or(*lane);
            done(number, ended);
        }
    }
}
