//! [`Completions`]: a completion queue, with the channel that signals its next entry.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use latchwork_strict::strict_assert;
use latchwork_verbs::SetupError;

use crate::error::{check, last};
use crate::sys::device::Device;
use crate::sys::ffi::{ChannelHead, CompletionChannel, CompletionQueue, WorkCompletion};

/// A completion queue with its own completion channel: a descriptor that becomes readable when the
/// armed queue has a new completion.
pub(crate) struct Completions {
    queue: NonNull<CompletionQueue>,
    channel: NonNull<CompletionChannel>,
    fd: RawFd,
    device: Arc<Device>,
}

// SAFETY: the library and the providers lock a completion queue themselves.
unsafe impl Send for Completions {}
// SAFETY: the same argument: the library and the providers lock a completion queue themselves.
unsafe impl Sync for Completions {}

impl Completions {
    /// Makes a queue of at least `entries` entries, or of the device's limit if that is less.
    pub(crate) fn new(device: &Arc<Device>, entries: u32) -> Result<Arc<Completions>, SetupError> {
        let library = &device.library;
        let entries = entries.min(device.limits.completions).max(1);
        // SAFETY: the context is open.
        let channel = unsafe { (library.create_comp_channel)(device.context.as_ptr()) };
        let channel = NonNull::new(channel).ok_or_else(|| last("ibv_create_comp_channel"))?;
        // SAFETY: the library returned the pointer, and the object begins like `ChannelHead`.
        let fd = unsafe { (*channel.as_ptr().cast::<ChannelHead>()).fd };
        // SAFETY: the context is open and the channel belongs to it. No context pointer is passed.
        let queue = unsafe {
            (library.create_cq)(
                device.context.as_ptr(),
                c_int::try_from(entries).unwrap_or(c_int::MAX),
                ptr::null_mut(),
                channel.as_ptr(),
                0,
            )
        };
        let queue = NonNull::new(queue).ok_or_else(|| last("ibv_create_cq"));
        let queue = queue.inspect_err(|_| {
            // SAFETY: created above, and not used.
            unsafe { (library.destroy_comp_channel)(channel.as_ptr()) };
        })?;
        let completions = Completions { queue, channel, fd, device: Arc::clone(device) };
        // SAFETY: sets a flag of an open descriptor. The descriptor does not block, so no thread
        // waits for an event that another thread has taken.
        let result = unsafe {
            let flags = libc::fcntl(fd, libc::F_GETFL);
            libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK)
        };
        if result < 0 {
            return Err(last("fcntl"));
        }
        Ok(Arc::new(completions))
    }

    /// The library's queue, for queue pairs.
    pub(crate) fn queue(&self) -> *mut CompletionQueue {
        self.queue.as_ptr()
    }

    /// A descriptor that is readable when there are events.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    /// Takes completions and returns their number. After the call, all bytes that the device wrote
    /// before a taken completion are visible to this thread.
    pub(crate) fn poll(&self, to: &mut [WorkCompletion]) -> usize {
        let room = c_int::try_from(to.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is alive, its context has the provider's functions, and `to` has room
        // for `room` entries.
        let taken = unsafe {
            let context = (*self.queue.as_ptr()).context;
            ((*context).ops.poll_cq)(self.queue.as_ptr(), room, to.as_mut_ptr())
        };
        // The device writes a queue entry after the data. The provider (the NIC's driver in user
        // space) has read the entry, with a memory fence for later accesses of C code. This memory
        // fence does the same for the compiler, and for this crate's relaxed loads of words.
        fence(Ordering::Acquire);
        strict_assert!(taken <= room, "{taken} completions in room for {room}");
        // A negative number means that the queue is broken and no completion comes any more. The
        // device's error event for the queue ends the batches in flight; they have no time limit.
        usize::try_from(taken).unwrap_or(0)
    }

    /// Makes the channel signal the next completion, once. A completion before the arming causes no
    /// signal, so the caller must poll afterwards.
    pub(crate) fn arm(&self) -> Result<(), SetupError> {
        // SAFETY: as for `poll`.
        let result = unsafe {
            let context = (*self.queue.as_ptr()).context;
            ((*context).ops.req_notify_cq)(self.queue.as_ptr(), 0)
        };
        check("ibv_req_notify_cq", result)
    }

    /// Takes all events of the channel. True when there was at least one event.
    pub(crate) fn take_events(&self) -> bool {
        let mut events = 0;
        let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is alive, there is memory for two pointers, and the descriptor does
        // not block. All events are of the channel's only queue, and each is acknowledged.
        unsafe {
            let library = &self.device.library;
            while (library.get_cq_event)(self.channel.as_ptr(), &raw mut queue, &raw mut context)
                == 0
            {
                events += 1;
            }
            if events > 0 {
                (library.ack_cq_events)(self.queue.as_ptr(), events);
            }
        }
        events > 0
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: the queue pairs that used the queue owned it, and are destroyed. All taken events
        // are acknowledged.
        unsafe {
            (self.device.library.destroy_cq)(self.queue.as_ptr());
            (self.device.library.destroy_comp_channel)(self.channel.as_ptr());
        }
    }
}
