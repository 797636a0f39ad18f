//! The asynchronous events of a device: [`Health`].
//!
//! | event | reaction |
//! | --- | --- |
//! | the device, or a queue on it, has failed permanently | nothing completes any more: all batches on the device end, and nothing begins |
//! | a queue pair has failed | its send queue connects again, as after a failed completion, which may never come |
//! | the port goes down, or up again | a line in the log. Requests are repeated within the time limit of the connection, so that a cable may be plugged in again |

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;

use latchwork_runtime::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

use crate::sys::device::Device;
use crate::sys::ffi::{AsyncEvent, QueuePair, event};

/// The most failed queue pairs that are stored for workers that have not checked yet.
const KEPT: usize = 256;

/// The failures of a device so far.
#[derive(Default)]
pub(crate) struct Health {
    is_dead: AtomicBool,
    // The number of failures. It grows after the failure is stored.
    troubles: AtomicU64,
    failed: Mutex<VecDeque<(u64, u32)>>,
}

/// The failures since a worker's last check.
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

    /// The failures since `seen`, which is set to the current number.
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
    /// Makes the descriptor of the device's events non-blocking.
    pub(super) fn listen(&self) -> io::Result<()> {
        // SAFETY: sets a flag of an open descriptor.
        let result = unsafe {
            let flags = libc::fcntl(self.events_fd(), libc::F_GETFL);
            libc::fcntl(self.events_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// A descriptor that is readable when the device has events.
    pub(crate) fn events_fd(&self) -> i32 {
        // SAFETY: the context is open, and begins like `Context`.
        unsafe { (*self.context.as_ptr()).async_fd }
    }

    /// Handles the events of the device. True when workers must check its health.
    pub(crate) fn take_events(&self) -> bool {
        let mut is_news = false;
        let mut event = MaybeUninit::<AsyncEvent>::zeroed();
        // SAFETY: the context is open, its descriptor does not block, and there is room for an
        // event, which is complete when the call succeeds. A queue pair that an event names exists
        // until the event is acknowledged, because its destruction waits for the acknowledgement.
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
