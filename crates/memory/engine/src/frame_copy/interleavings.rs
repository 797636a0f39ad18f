//! Reservations beside operations that take the line away, under every interleaving;
//! `scripts/loom.sh` runs this.

use std::task::Waker;

use latchwork_cache::{Cache, FrameId};
use latchwork_coherence::Need;
use latchwork_runtime::sync::{Arc, Mutex, yield_now};
use latchwork_verbs::{GlobalAddr, LINE_HEADER, MemoryNodeId};
use loom::thread;

use crate::waiters::{LineAccess, Outcome};

use super::*;

fn line() -> GlobalAddr {
    GlobalAddr::new(MemoryNodeId(0), 1 << 20)
}

/// A node with one line, and the part of its record that the shard's lock protects.
struct Place {
    cache: Cache,
    id: FrameId,
    waiters: Mutex<Waiters>,
}

fn place() -> Arc<Place> {
    let cache = Cache::with_frames(2, LINE_HEADER + 8).expect("memory");
    let id = cache.attach(line()).expect("free");
    Arc::new(Place { cache, id, waiters: Mutex::default() })
}

impl Place {
    fn frame(&self) -> &Frame {
        self.cache.frame(self.id)
    }

    /// Runs a step of the line machine under the lock.
    fn step<T>(&self, step: impl FnOnce(&mut FrameCopy<'_>) -> T) -> T {
        let mut waiters = self.waiters.lock();
        let frame = Some(self.frame());
        let dirty = DirtyBounds::EMPTY;
        let (lapsed, held) = (false, false);
        step(&mut FrameCopy { frame, waiters: &mut waiters, dirty, lapsed, held })
    }

    fn take_away(&self) {
        while !self.step(|copy| copy.try_invalidate()) {
            yield_now();
        }
    }
}

#[test]
fn a_line_stays_while_a_ticket_is_held() {
    loom::model(|| {
        let place = place();
        place.step(|copy| copy.publish(Ownership::Exclusive));
        let access = thread::spawn({
            let place = place.clone();
            move || {
                {
                    let _lock = place.waiters.lock();
                    if place.frame().state().ownership() != Ownership::Exclusive {
                        return;
                    }
                    place.frame().reserve();
                }
                assert!(place.cache.try_write(line()).is_some(), "taken away under a ticket");
                place.frame().unreserve();
            }
        });
        place.take_away();
        assert!(place.cache.try_write(line()).is_none());
        access.join().unwrap();
        assert!(!place.frame().is_reserved());
    });
}

#[test]
fn a_waiter_uses_the_line_before_it_is_taken_away() {
    loom::model(|| {
        let place = place();
        let need = Need { addr: line(), mode: AccessMode::Exclusive };
        let id = place.waiters.lock().wait(LineAccess::patient(need), Waker::noop());
        let handler = thread::spawn({
            let place = place.clone();
            move || {
                place.step(|copy| copy.publish(Ownership::Exclusive));
                place.take_away();
            }
        });
        let is_granted = || {
            let mut waiters = place.waiters.lock();
            matches!(waiters.get(id).map(|waiter| &waiter.outcome), Some(Outcome::Granted))
        };
        while !is_granted() {
            yield_now();
        }
        assert!(place.cache.try_write(line()).is_some(), "granted and gone");
        place.frame().unreserve();
        handler.join().unwrap();
        assert!(place.cache.try_write(line()).is_none());
    });
}
