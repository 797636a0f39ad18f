//! [`Completions`]: a completion queue and the channel that tells of its next entry.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use latchwork_verbs::SetupError;

use crate::error::{check, last};
use crate::sys::device::Device;
use crate::sys::ffi::{ChannelHead, CompletionChannel, CompletionQueue, WorkCompletion};

/// A completion queue with a channel of its own.
pub(crate) struct Completions {
    queue: NonNull<CompletionQueue>,
    channel: NonNull<CompletionChannel>,
    fd: RawFd,
    device: Arc<Device>,
}

// SAFETY: the library and the providers lock a completion queue themselves.
unsafe impl Send for Completions {}
// SAFETY: as above.
unsafe impl Sync for Completions {}

impl Completions {
    /// A queue of `entries` at least, as far as the device has them.
    pub(crate) fn new(device: &Arc<Device>, entries: u32) -> Result<Arc<Completions>, SetupError> {
        let library = &device.library;
        let entries = entries.min(device.limits.completions).max(1);
        // SAFETY: an open context.
        let channel = unsafe { (library.create_comp_channel)(device.context.as_ptr()) };
        let channel = NonNull::new(channel).ok_or_else(|| last("ibv_create_comp_channel"))?;
        // SAFETY: the library gave it, and it begins as `ChannelHead` says.
        let fd = unsafe { (*channel.as_ptr().cast::<ChannelHead>()).fd };
        // SAFETY: an open context and a channel of it; no context pointer is handed over.
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
            // SAFETY: made above, and used by nobody.
            unsafe { (library.destroy_comp_channel)(channel.as_ptr()) };
        })?;
        let completions = Completions { queue, channel, fd, device: Arc::clone(device) };
        // SAFETY: sets a flag of an open descriptor. Whoever takes events must not wait for one
        // that somebody else has taken.
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

    /// Becomes readable when there are events to take.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    /// Takes completions; how many. What the device wrote before it completed a request is visible
    /// then.
    pub(crate) fn poll(&self, to: &mut [WorkCompletion]) -> usize {
        let room = c_int::try_from(to.len()).unwrap_or(c_int::MAX);
        // SAFETY: a queue that stands, whose context has the provider's functions, and room for as
        // many entries as said.
        let taken = unsafe {
            let context = (*self.queue.as_ptr()).context;
            ((*context).ops.poll_cq)(self.queue.as_ptr(), room, to.as_mut_ptr())
        };
        // The provider has read an entry that the device wrote behind the data. Its own barrier
        // orders that load with what C code does next; this one says the same to the compiler about
        // the relaxed loads of words.
        fence(Ordering::Acquire);
        // Negative when the queue is broken: then nothing comes any more, and deadlines end what
        // waits.
        usize::try_from(taken).unwrap_or(0)
    }

    /// Has the channel tell of the next completion, once. One that came before is not told of: poll
    /// after this.
    pub(crate) fn arm(&self) -> Result<(), SetupError> {
        // SAFETY: as for `poll`.
        let result = unsafe {
            let context = (*self.queue.as_ptr()).context;
            ((*context).ops.req_notify_cq)(self.queue.as_ptr(), 0)
        };
        check("ibv_req_notify_cq", result)
    }

    /// Takes what the channel has told. True when there was something.
    pub(crate) fn take_events(&self) -> bool {
        let mut events = 0;
        let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a channel that stands, and memory for two pointers; the descriptor does not
        // block. The events are of the channel's only queue, and each is acknowledged.
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
        // SAFETY: the queue pairs that used it have owned it, and are gone; all events that were
        // taken are acknowledged.
        unsafe {
            (self.device.library.destroy_cq)(self.queue.as_ptr());
            (self.device.library.destroy_comp_channel)(self.channel.as_ptr());
        }
    }
}
