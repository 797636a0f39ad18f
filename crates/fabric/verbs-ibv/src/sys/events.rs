//! What a device tells of itself when nobody has asked: [`Health`].
//!
//! | event | what is done |
//! | --- | --- |
//! | the device, or a queue on it, has failed for good | nothing completes any more: all that is on it ends, and nothing begins |
//! | a queue pair has failed | its lane is connected anew, as after a failed completion, which may never come |
//! | the port is down, or up again | it is logged. Requests are repeated for as long as connections are patient, so that a cable may be plugged again |

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;

use latchwork_runtime::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

use crate::sys::device::Device;
use crate::sys::ffi::{AsyncEvent, QueuePair, event};

/// Failed queue pairs that are remembered for workers that have not looked yet.
const KEPT: usize = 256;

/// What has gone wrong on a device so far.
#[derive(Default)]
pub(crate) struct Health {
    is_dead: AtomicBool,
    // Grows with every trouble, after it was written down.
    troubles: AtomicU64,
    failed: Mutex<VecDeque<(u64, u32)>>,
}

/// What has gone wrong since somebody looked.
pub(crate) enum Troubles {
    None,
    /// These queue pairs have failed.
    Pairs(Vec<u32>),
    /// Nothing on the device works any more.
    Dead,
}

impl Health {
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    /// What is new since `seen`, which is changed to now.
    pub(crate) fn look(&self, seen: &mut u64) -> Troubles {
        let now = self.troubles.load(Ordering::Acquire);
        let before = std::mem::replace(seen, now);
        if now == before {
            return Troubles::None;
        }
        if self.is_dead() {
            return Troubles::Dead;
        }
        let failed = self.failed.lock();
        let new = failed.iter().filter(|(number, _)| *number > before);
        Troubles::Pairs(new.map(|(_, pair)| *pair).collect())
    }

    fn pair_failed(&self, pair: u32) {
        let mut failed = self.failed.lock();
        let number = self.troubles.load(Ordering::Relaxed) + 1;
        failed.push_back((number, pair));
        while failed.len() > KEPT {
            failed.pop_front();
        }
        self.troubles.store(number, Ordering::Release);
    }

    fn died(&self) {
        let _failed = self.failed.lock();
        self.is_dead.store(true, Ordering::Release);
        self.troubles.fetch_add(1, Ordering::Release);
    }
}

impl Device {
    /// Has the device's events not be waited for by whoever takes them.
    pub(super) fn listen(&self) -> io::Result<()> {
        // SAFETY: sets a flag of an open descriptor.
        let result = unsafe {
            let flags = libc::fcntl(self.events_fd(), libc::F_GETFL);
            libc::fcntl(self.events_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Becomes readable when the device has something to tell.
    pub(crate) fn events_fd(&self) -> i32 {
        // SAFETY: an open context, which begins as `Context` says.
        unsafe { (*self.context.as_ptr()).async_fd }
    }

    /// Takes what the device tells. True when workers have to look at its health.
    pub(crate) fn take_events(&self) -> bool {
        let mut is_news = false;
        let mut event = MaybeUninit::<AsyncEvent>::zeroed();
        // SAFETY: an open context, whose descriptor does not block, and room for an event, which is
        // whole when the call has succeeded. A queue pair that an event names stays until the event
        // is acknowledged: destroying it waits for that.
        unsafe {
            while (self.library.get_async_event)(self.context.as_ptr(), event.as_mut_ptr()) == 0 {
                let AsyncEvent { element, event_type } = *event.as_ptr();
                let pair = match event_type {
                    event::QP_FATAL => (*element.cast::<QueuePair>()).qp_num,
                    _ => 0,
                };
                (self.library.ack_async_event)(event.as_mut_ptr());
                is_news |= self.heard(event_type, pair);
            }
        }
        is_news
    }

    fn heard(&self, event_type: u32, pair: u32) -> bool {
        let device = &*self.name;
        match event_type {
            event::QP_FATAL => {
                tracing::warn!(device, pair, "a queue pair has failed");
                self.health.pair_failed(pair);
                true
            }
            event::DEVICE_FATAL | event::CQ_ERR | event::SRQ_ERR => {
                tracing::error!(
                    device,
                    event_type,
                    "the RDMA device has failed: nothing completes on it any more"
                );
                self.health.died();
                true
            }
            event::PORT_ERR => {
                tracing::warn!(
                    device,
                    "the RDMA device's port is down: look at its cable, or `ip link`"
                );
                false
            }
            event::PORT_ACTIVE => {
                tracing::info!(device, "the RDMA device's port is up");
                false
            }
            _ => {
                tracing::debug!(device, event_type, "an event of the RDMA device");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_hears_of_each_trouble_once() {
        let health = Health::default();
        let (mut one, mut other) = (0, 0);
        assert!(matches!(health.look(&mut one), Troubles::None));
        health.pair_failed(7);
        assert!(matches!(health.look(&mut one), Troubles::Pairs(pairs) if pairs == [7]));
        health.pair_failed(9);
        assert!(matches!(health.look(&mut one), Troubles::Pairs(pairs) if pairs == [9]));
        assert!(matches!(health.look(&mut other), Troubles::Pairs(pairs) if pairs == [7, 9]));
        assert!(matches!(health.look(&mut other), Troubles::None));
        health.died();
        assert!(matches!(health.look(&mut one), Troubles::Dead) && health.is_dead());
    }

    #[test]
    fn troubles_that_nobody_looks_at_take_little_memory() {
        let health = Health::default();
        (0..10_000).for_each(|pair| health.pair_failed(pair));
        assert!(matches!(health.look(&mut 0), Troubles::Pairs(pairs) if pairs.len() == KEPT));
    }
}
