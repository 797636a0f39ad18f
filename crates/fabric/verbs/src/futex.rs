//! Sleeping on a word of a region, also when those who wake are other processes.

use std::time::Duration;

use crate::region::Region;

impl Region {
    /// Blocks the thread while the low half of the word with index `word` is `value`, until
    /// somebody calls [`wake_sleepers`](Region::wake_sleepers), for `timeout` at most. May also end
    /// for no reason.
    ///
    /// The comparison and the falling asleep are one step for whoever wakes: a thread that changes
    /// the word first and wakes then leaves nobody asleep who has seen the old value. The call
    /// orders nothing itself. Where there are no such words (other systems than Linux) it gives up
    /// the processor and returns.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn sleep_while(&self, word: usize, value: u32, timeout: Option<Duration>) {
        imp::wait(self, word, value, timeout);
    }

    /// Wakes all threads that sleep on the word with index `word`, in all processes that map the
    /// region.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn wake_sleepers(&self, word: usize) {
        imp::wake(self, word);
    }
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod imp {
    use std::ptr;
    use std::time::Duration;

    use crate::region::Region;

    /// The half of the word that the kernel looks at.
    fn low_half(region: &Region, word: usize) -> *mut u32 {
        let halves = region.atomics()[word].as_ptr().cast::<u32>();
        // The second one is inside the word, too.
        if cfg!(target_endian = "big") { halves.wrapping_add(1) } else { halves }
    }

    pub(super) fn wait(region: &Region, word: usize, value: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let until = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the kernel reads an aligned word that lives as long as the borrow of the region,
        // and the time; it writes neither. Not the private kind of futex: the key is the page of
        // the file where the region is one, so that all who map it mean the same.
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
        // SAFETY: the kernel uses the address as a name and does not look at what is there.
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

/// The same as a lock and a condition: under a model checker, which knows no kernel.
#[cfg(loom)]
mod imp {
    use std::time::Duration;

    use crate::atomic::Ordering;
    use crate::region::Region;

    pub(super) fn wait(region: &Region, word: usize, value: u32, timeout: Option<Duration>) {
        if timeout.is_some() {
            // There is no time here: it may be over at any moment.
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
    fn a_word_that_has_changed_lets_nobody_sleep_and_a_wake_ends_all_sleeps() {
        let region = Region::zeroed(4096).unwrap();
        region.words().set_word(3, 5);
        // At once, or never.
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
