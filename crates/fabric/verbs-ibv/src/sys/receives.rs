//! [`Receives`]: a shared receive queue and the buffers of its messages.

use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, Message, Region, SetupError};

use crate::error::{check, last};
use crate::sys::completions::Completions;
use crate::sys::device::Device;
use crate::sys::ffi::{
    ReceiveRequest, Sge, SharedReceiveHead, SharedReceiveInit, SharedReceiveQueue, WC_SUCCESS,
    WorkCompletion,
};
use crate::sys::registered::Registered;

/// The bytes of a message on the wire: the sender's id as a word, and the payload.
pub(crate) const MESSAGE_BYTES: usize = 8 + 8 * Message::WORDS;

/// The distance between two buffers in bytes: two CPU cache lines.
const STRIDE: usize = 128;
const _: () = assert!(MESSAGE_BYTES <= STRIDE, "a message reaches the next buffer");
const _: () = assert!(STRIDE.is_multiple_of(8), "a buffer begins with a whole word");

/// The buffers whose messages were polled and not read yet, by number.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) filled: VecDeque<u32>,
    // Room for the completions of one poll. The buffer is kept, because it is large.
    completions: Box<[WorkCompletion; 16]>,
}

/// The receive queue for all messages of one compute node, from all queue pairs. A message takes
/// one buffer. The buffer is posted again after the message is read. While no buffer is posted,
/// senders wait ("receiver not ready").
pub(crate) struct Receives {
    queue: NonNull<SharedReceiveQueue>,
    buffers: Registered,
    pub(crate) completions: Arc<Completions>,
    device: Arc<Device>,
}

// SAFETY: the library and the providers lock a shared receive queue themselves.
unsafe impl Send for Receives {}
// SAFETY: the same argument: the library and the providers lock a shared receive queue themselves.
unsafe impl Sync for Receives {}

impl Receives {
    /// Makes a queue with `capacity` buffers, and posts all of them.
    pub(crate) fn new(device: &Arc<Device>, capacity: u32) -> Result<Receives, SetupError> {
        let capacity = capacity.min(device.limits.receive_queue).max(1);
        let completions = Completions::new(device, capacity)?;
        let buffers = Registered::new(device, Region::zeroed(capacity as usize * STRIDE)?)?;
        let mut init = SharedReceiveInit {
            srq_context: ptr::null_mut(),
            max_wr: capacity,
            max_sge: 1,
            srq_limit: 0,
        };
        // SAFETY: the protection domain is alive, and the library may change the attributes.
        let queue = unsafe { (device.library.create_srq)(device.domain.as_ptr(), &raw mut init) };
        let queue = NonNull::new(queue).ok_or_else(|| last("ibv_create_srq"))?;
        let receives = Receives { queue, buffers, completions, device: Arc::clone(device) };
        for buffer in 0..capacity {
            receives.post(buffer)?;
        }
        Ok(receives)
    }

    /// The library's queue, for queue pairs.
    pub(crate) fn queue(&self) -> *mut SharedReceiveQueue {
        self.queue.as_ptr()
    }

    /// Posts a buffer to the device, for the next message.
    fn post(&self, buffer: u32) -> Result<(), SetupError> {
        let mut sge = Sge {
            addr: self.buffers.address + u64::from(buffer) * STRIDE as u64,
            length: MESSAGE_BYTES as u32,
            lkey: self.buffers.lkey,
        };
        let mut request = ReceiveRequest {
            wr_id: buffer.into(),
            next: ptr::null_mut(),
            sg_list: &raw mut sge,
            num_sge: 1,
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue is alive, the one request is read before the call returns, and the
        // buffer lives as long as the queue.
        let result = unsafe {
            let context = (*self.queue.as_ptr().cast::<SharedReceiveHead>()).context;
            ((*context).ops.post_srq_recv)(self.queue.as_ptr(), &raw mut request, &raw mut bad)
        };
        check("ibv_post_srq_recv", result)
    }

    /// Polls the completion queue, and appends the buffers with new messages to `found`.
    pub(crate) fn poll(&self, found: &mut Found) {
        let Found { filled, completions } = found;
        let taken = self.completions.poll(&mut completions[..]);
        // A receive fails, for example, when its queue pair is destroyed in the middle of a
        // message. A message of another length is not of this version. In both cases the buffer is
        // posted again.
        for completion in &completions[..taken] {
            let buffer = completion.wr_id as u32;
            if completion.status == WC_SUCCESS && completion.byte_len as usize == MESSAGE_BYTES {
                filled.push_back(buffer);
            } else {
                let _ = self.post(buffer);
            }
        }
    }

    /// Reads the message of a polled buffer, and posts the buffer again. `None` when the sender's
    /// id is impossible.
    pub(crate) fn take(&self, buffer: u32) -> Option<Message> {
        strict_assert!(
            (buffer as usize + 1) * STRIDE <= self.buffers.region.len(),
            "a message in buffer {buffer}, which does not exist"
        );
        let words = self.buffers.region.words().skip(buffer as usize * STRIDE / 8);
        let from = u8::try_from(words.word(0)).ok().and_then(ComputeNodeId::new);
        let body = std::array::from_fn(|i| words.word(1 + i));
        // There are as many buffers as the queue has room for, so this does not fail.
        let posted = self.post(buffer);
        debug_assert!(posted.is_ok(), "{posted:?}");
        from.map(|from| Message { from, body })
    }
}

impl Drop for Receives {
    fn drop(&mut self) {
        // SAFETY: the queue pairs that used the queue owned it, and are destroyed.
        unsafe { (self.device.library.destroy_srq)(self.queue.as_ptr()) };
    }
}
