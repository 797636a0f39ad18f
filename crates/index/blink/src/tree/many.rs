//! Many lookups at once: the waits for memory overlap.

use latchwork_coherence::CoherentMemory;

use super::Tree;
use crate::page::{Glance, head_of};
use crate::{TreeError, Value};

/// Lookups that are under way together: enough to hide a miss of the processor's cache behind the
/// others' work, and few enough for what was fetched to be there still.
const LANES: usize = 16;

impl<M: CoherentMemory> Tree<M> {
    /// Looks up all of `keys`: `found` gets one result for each, in their order, and loses what was
    /// in it. Each key is seen at some instant of its own.
    ///
    /// As [`get_with`](Tree::get_with) for each, but several times as fast when the tree is larger
    /// than the processor's caches: all descend together, one level at a time, and each one's next
    /// page is on its way from memory while the others have their turn. `visit` is given the key's
    /// position, too.
    ///
    /// # Errors
    /// When one of the keys is empty or too long, and when memory fails; `found` is empty then.
    pub async fn get_many<K: AsRef<[u8]>, R>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(usize, Value<'_>) -> R,
        found: &mut Vec<Option<R>>,
    ) -> Result<(), TreeError> {
        found.clear();
        found.reserve(keys.len());
        for key in keys {
            self.limits.check_key(key.as_ref())?;
        }
        for group in keys.chunks(LANES) {
            let first = found.len();
            // Which of them have to take the careful way.
            let mut careful = 0_u32;
            self.hot_group(
                group,
                |lane, value| visit(first + lane, value),
                |lane, result| {
                    careful |= u32::from(result.is_none()) << lane;
                    found.push(result.flatten());
                },
            );
            while careful != 0 {
                let lane = careful.trailing_zeros() as usize;
                careful &= careful - 1;
                let visit = |value: Value<'_>| visit(first + lane, value);
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

    /// As [`get_many`](Tree::get_many), of those keys whose pages are all cached and in order: a
    /// plain function that writes no shared memory. `found` is told of each key in order what
    /// became of it: `None` if [`get_with`](Tree::get_with) has to find out.
    pub fn try_get_many<K: AsRef<[u8]>, R>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(usize, Value<'_>) -> R,
        mut found: impl FnMut(usize, Option<Option<R>>),
    ) {
        for (number, group) in keys.chunks(LANES).enumerate() {
            let first = number * LANES;
            if group.iter().any(|key| self.limits.check_key(key.as_ref()).is_err()) {
                (0..group.len()).for_each(|lane| found(first + lane, None));
                continue;
            }
            self.hot_group(
                group,
                |lane, value| visit(first + lane, value),
                |lane, result| found(first + lane, result),
            );
        }
    }

    /// Up to [`LANES`] lookups; `done` is called for each in order, without a result for those that
    /// have to take the careful way.
    #[inline]
    fn hot_group<K: AsRef<[u8]>, R>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(usize, Value<'_>) -> R,
        mut done: impl FnMut(usize, Option<Option<R>>),
    ) {
        let mut lanes = [Some(self.hot_root()); LANES];
        let mut heads = [0; LANES];
        for (head, key) in heads.iter_mut().zip(keys) {
            *head = head_of(key.as_ref());
        }
        let lanes = &mut lanes[..keys.len()];
        // All of them are on one level, but those that gave up.
        while lanes.iter().flatten().any(|at| at.level > 0) {
            for ((lane, key), head) in lanes.iter_mut().zip(keys).zip(heads) {
                *lane = lane.and_then(|at| self.hot_step(at, key.as_ref(), head));
                if let Some(child) = lane {
                    self.memory.prefetch(child.hint, Glance::likely(self.memory.payload_len()));
                }
            }
        }
        for (number, ((lane, key), head)) in lanes.iter().zip(keys).zip(heads).enumerate() {
            let visit = &mut |value: Value<'_>| visit(number, value);
            let mut look = |leaf| self.hot_visit(leaf, key.as_ref(), head, visit, |_| ());
            done(number, lane.and_then(&mut look).map(|(found, ())| found));
        }
    }
}
