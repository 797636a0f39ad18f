//! Free frames: how many eviction keeps, and the accesses that wait for one.

use std::task::Waker;

use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering, fence};
use latchwork_strict::{strict_assert, strict_check};

use crate::settings::NodeSettings;

#[cfg(all(test, loom))]
mod interleavings;

/// The number of frames that eviction keeps free, besides the frames that accesses wait for.
pub(crate) struct Reserve {
    /// The number of free frames at which eviction stops.
    pub(crate) wanted: usize,
    /// The number of free frames at which eviction does not start. It is lower than `wanted`,
    /// because one choice of many victims costs less for each victim.
    pub(crate) enough: usize,
}

impl Reserve {
    pub(crate) fn new(frames: usize, settings: &NodeSettings) -> Reserve {
        let (share, batch) = (settings.evict_share.max(1), settings.evict_batch.max(1));
        if batch == 1 {
            // No eviction ahead of need, only for accesses that wait for a frame.
            return Reserve { wanted: 0, enough: 0 };
        }
        let wanted = (frames / share).clamp(1, batch * 8);
        let reserve = Reserve { wanted, enough: wanted - (wanted / 2).min(batch) };
        strict_assert!(reserve.wanted <= frames.max(1), "more frames stay free than exist");
        strict_assert!(reserve.enough <= reserve.wanted, "eviction starts above its end");
        strict_assert!(reserve.enough > 0, "a miss finds no frame before eviction starts");
        reserve
    }
}

/// Accesses that wait for a free frame.
///
/// No wake is lost:
///
/// 1. An access that waits raises the count, passes a full memory fence, then checks the free list.
/// 2. A worker that frees a frame adds it to the free list, passes a full memory fence, then checks
///    the count.
/// 3. The two memory fences are ordered. The check behind the later fence sees the change before
///    the earlier fence.
#[derive(Default)]
pub(crate) struct FrameWaiters {
    wakers: Mutex<Vec<Waker>>,
    count: AtomicUsize,
}

impl FrameWaiters {
    /// Adds a waker. Callers call this before their last check of the free list.
    pub(crate) fn add(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        strict_check!(self, &wakers);
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.count.store(wakers.len(), Ordering::Relaxed);
        drop(wakers);
        fence(Ordering::SeqCst);
    }

    /// Wakes all waiting accesses. Callers call this after they have freed a frame. All are woken,
    /// because some may have been dropped.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.len() == 0 {
            return;
        }
        let wakers = {
            let mut wakers = self.wakers.lock();
            strict_check!(self, &wakers);
            self.count.store(0, Ordering::Relaxed);
            std::mem::take(&mut *wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The count is that of the list. It changes only under the lock of the list.
    fn check(&self, wakers: &[Waker]) {
        let count = self.count.load(Ordering::Relaxed);
        assert_eq!(count, wakers.len(), "a freed frame would wake no waiting access");
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}
