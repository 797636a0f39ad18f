//! Accesses that wait for a frame, under every interleaving; `scripts/loom.sh` runs this. A lost
//! wake is a deadlock here, because no timer exists.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use latchwork_cache::{Cache, FrameId};
use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
use latchwork_verbs::{GlobalAddr, LINE_HEADER, MemoryNodeId};
use loom::thread;

use super::*;

fn line(k: u64) -> GlobalAddr {
    GlobalAddr::new(MemoryNodeId(0), (1 << 20) + k * 512)
}

struct Place {
    cache: Cache,
    waiters: FrameWaiters,
}

/// A cache without a free frame, and the frame of line 0.
fn full(frames: u64) -> (Arc<Place>, FrameId) {
    let cache = Cache::with_frames(frames as usize, LINE_HEADER + 8).expect("memory");
    let ids: Vec<_> = (0..frames).map(|k| cache.attach(line(k)).expect("free")).collect();
    (Arc::new(Place { cache, waiters: FrameWaiters::default() }), ids[0])
}

impl Place {
    /// Frees a frame as `Inner::finish` does.
    fn free(&self, id: FrameId) {
        self.cache.detach(id);
        self.waiters.wake();
    }

    /// Waits for a frame as `Inner::obtain` does.
    fn obtain(&self, addr: GlobalAddr) -> FrameId {
        let config =
            ExecutorConfig { spin_sweeps: 0, yield_sweeps: 0, ..ExecutorConfig::default() };
        Executor::new(RealDriver::new(), config).block_on(async {
            loop {
                if let Some(id) = self.cache.attach(addr) {
                    return id;
                }
                poll_fn(|cx| {
                    if self.cache.free_frames() > 0 {
                        return Poll::Ready(());
                    }
                    self.waiters.add(cx.waker());
                    if self.cache.free_frames() > 0 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
        })
    }
}

#[test]
fn a_freed_frame_goes_to_a_waiting_access() {
    loom::model(|| {
        let (place, id) = full(2);
        let holder = thread::spawn({
            let place = place.clone();
            move || place.free(id)
        });
        assert_eq!(place.obtain(line(9)), id);
        holder.join().unwrap();
    });
}

#[test]
fn a_frame_that_another_access_took_first_is_waited_for_again() {
    loom::model(|| {
        let (place, id) = full(2);
        let holder = thread::spawn({
            let place = place.clone();
            move || place.free(id)
        });
        let other = thread::spawn({
            let place = place.clone();
            move || {
                if let Some(id) = place.cache.attach(line(8)) {
                    place.free(id);
                }
            }
        });
        let mine = place.obtain(line(9));
        assert_eq!((mine, place.cache.frame(mine).addr()), (id, line(9)), "two have the frame");
        holder.join().unwrap();
        other.join().unwrap();
        assert_eq!(place.cache.free_frames(), 0);
    });
}
