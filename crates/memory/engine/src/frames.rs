//! Free frames: how many eviction keeps, and the accesses that wait for one.

use std::task::Waker;

use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering, fence};

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
        Reserve { wanted, enough: wanted - (wanted / 2).min(batch) }
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
            self.count.store(0, Ordering::Relaxed);
            std::mem::take(&mut *wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}
