//! The asynchronous events of a device.
//!
//! | event | reaction |
//! | --- | --- |
//! | the device, or a queue on it, has failed permanently | nothing completes any more: all batches on the device end, and nothing begins |
//! | a queue pair has failed | its send queue connects again, as after a failed completion, which may never come |
//! | the port goes down, or up again | a line in the log. Requests are repeated within the time limit of the connection, so that a cable may be plugged in again |

use std::io;
use std::mem::MaybeUninit;

use crate::sys::device::Device;
use crate::sys::ffi::{AsyncEvent, QueuePair, event};

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

    /// Handles all waiting events of the device. True when workers must check the device's health.
    pub(crate) fn take_events(&self) -> bool {
        let mut is_news = false;
        let mut event = MaybeUninit::<AsyncEvent>::zeroed();
        // SAFETY: the context is open, its descriptor does not block, and there is room for an
        // event, which is complete when the call succeeds. A queue pair that an event names exists
        // until the event is acknowledged, because the library's destruction of a queue pair waits
        // for the acknowledgement.
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
