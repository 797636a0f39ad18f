//! Sleeping on a word of a region, with wakes from this process or another one.

use std::time::Duration;

use crate::region::Region;

impl Region {
    /// Blocks the thread if the low 32 bits of the word with index `word` are `value` at the call.
    /// A call of [`wake_sleepers`](Region::wake_sleepers) or the end of `timeout` ends the sleep.
    /// The sleep may also end without either cause.
    ///
    /// The comparison and the start of the sleep are one step with respect to wakes. So a thread
    /// that changes the word and afterwards wakes the sleepers leaves no thread asleep on the old
    /// value. The call itself gives no memory order. On systems other than Linux the call does not
    /// sleep: it yields the processor and returns.
    ///
    /// # Panics
    /// When the word does not exist.
    pub fn sleep_while(&self, word: usize, value: u32, timeout: Option<Duration>) {
        imp::wait(self, word, value, timeout);
    }

    /// Wakes all threads that sleep on the word with index `word`, in all processes that map the
    /// region.
    ///
    /// # Panics
    /// When the word does not exist.
    pub fn wake_sleepers(&self, word: usize) {
        imp::wake(self, word);
    }
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod imp {
    use std::ptr;
    use std::time::Duration;

    use crate::region::Region;

    /// The half of the word that the kernel compares.
    fn low_half(region: &Region, word: usize) -> *mut u32 {
        let halves = region.atomics()[word].as_ptr().cast::<u32>();
        // The second half is inside the word as well.
        if cfg!(target_endian = "big") { halves.wrapping_add(1) } else { halves }
    }

    pub(super) fn wait(region: &Region, word: usize, value: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let until = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the kernel reads the aligned word, which lives as long as the borrow of the
        // region, and reads the timeout. The kernel writes neither. The call does not set
        // `FUTEX_PRIVATE_FLAG`. So for a mapped file the kernel identifies the futex by the page of
        // the file, the same in all processes.
        let _ = unsafe {
            libc::syscall(
                libc::SYS_futex,
                low_half(region, word),
                libc::FUTEX_WAIT,
                value,
                until,
                ptr::null::<u32>(),
                0,
            )
        };
    }

    pub(super) fn wake(region: &Region, word: usize) {
        let all = libc::c_int::MAX;
        // SAFETY: the kernel uses the address to identify the futex and does not read the word.
        let _ = unsafe {
            libc::syscall(
                libc::SYS_futex,
                low_half(region, word),
                libc::FUTEX_WAKE,
                all,
                ptr::null::<libc::timespec>(),
                ptr::null::<u32>(),
                0,
            )
        };
    }
}

/// The same two functions with a mutex and a condition variable, for the model checker loom, which
/// has no kernel.
#[cfg(loom)]
mod imp {
    use std::time::Duration;

    use crate::atomic::Ordering;
    use crate::region::Region;

    pub(super) fn wait(region: &Region, word: usize, value: u32, timeout: Option<Duration>) {
        if timeout.is_some() {
            // The model has no time, so the timeout may end at any moment, here at once.
            loom::thread::yield_now();
            return;
        }
        let sleepers = region.sleepers();
        let guard = sleepers.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if region.atomics()[word].load(Ordering::Relaxed) as u32 == value {
            drop(sleepers.1.wait(guard));
        }
    }

    pub(super) fn wake(region: &Region, word: usize) {
        let _ = &region.atomics()[word];
        let sleepers = region.sleepers();
        drop(sleepers.0.lock());
        sleepers.1.notify_all();
    }
}

#[cfg(all(any(not(target_os = "linux"), miri), not(loom)))]
mod imp {
    use std::time::Duration;

    use crate::region::Region;

    pub(super) fn wait(region: &Region, word: usize, _: u32, _: Option<Duration>) {
        let _ = &region.atomics()[word];
        std::thread::yield_now();
    }

    pub(super) fn wake(region: &Region, word: usize) {
        let _ = &region.atomics()[word];
    }
}

#[cfg(all(test, target_os = "linux", not(miri), not(loom)))]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::*;

    #[test]
    fn a_word_that_has_changed_lets_no_task_sleep_and_a_wake_ends_all_sleeps() {
        let region = Region::zeroed(4096).unwrap();
        region.words().set_word(3, 5);
        // Returns at once, because the word is not 4. Otherwise it would never return.
        region.sleep_while(3, 4, None);
        region.sleep_while(3, 5, Some(Duration::from_millis(1)));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while region.atomics()[3].load(Ordering::Acquire) == 5 {
                        region.sleep_while(3, 5, None);
                    }
                });
            }
            region.atomics()[3].store(6, Ordering::Release);
            region.wake_sleepers(3);
        });
    }
}
