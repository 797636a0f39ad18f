//! [`SendList`]: the work requests for one send queue that share one doorbell.

use std::ptr;

use crate::sys::ffi::{Atomic, Rdma, Remote, SendRequest, Sge, opcode, send};

/// Work requests that are posted together, in this order.
#[derive(Default)]
pub(crate) struct SendList {
    requests: Vec<SendRequest>,
    sges: Vec<Sge>,
}

impl SendList {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.requests.clear();
        self.sges.clear();
    }

    #[inline]
    fn push(&mut self, id: u64, opcode: u32, flags: u32, sge: Sge, wr: Remote) {
        self.requests.push(SendRequest {
            wr_id: id,
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            // An empty transfer has no buffer.
            num_sge: i32::from(sge.length > 0),
            opcode,
            send_flags: flags,
            imm_data: 0,
            wr,
            xrc_remote_srqn: 0,
            bind_or_segments: [0; 6],
        });
        self.sges.push(sge);
    }

    pub(crate) fn read(&mut self, id: u64, to: Sge, remote_addr: u64, rkey: u32) {
        self.push(id, opcode::RDMA_READ, 0, to, Remote { rdma: Rdma { remote_addr, rkey } });
    }

    pub(crate) fn write(&mut self, id: u64, from: Sge, inline: bool, remote_addr: u64, rkey: u32) {
        let flags = if inline { send::INLINE } else { 0 };
        self.push(id, opcode::RDMA_WRITE, flags, from, Remote { rdma: Rdma { remote_addr, rkey } });
    }

    pub(crate) fn compare_swap(
        &mut self,
        id: u64,
        old: Sge,
        (compare_add, swap): (u64, u64),
        remote_addr: u64,
        rkey: u32,
    ) {
        let atomic = Atomic { remote_addr, compare_add, swap, rkey };
        self.push(id, opcode::ATOMIC_CMP_AND_SWP, 0, old, Remote { atomic });
    }

    pub(crate) fn fetch_add(&mut self, id: u64, old: Sge, add: u64, remote_addr: u64, rkey: u32) {
        let atomic = Atomic { remote_addr, compare_add: add, swap: 0, rkey };
        self.push(id, opcode::ATOMIC_FETCH_AND_ADD, 0, old, Remote { atomic });
    }

    pub(crate) fn send(&mut self, id: u64, from: Sge, inline: bool) {
        let flags = if inline { send::INLINE } else { 0 };
        self.push(id, opcode::SEND, flags, from, Remote { rdma: Rdma::default() });
    }

    /// Makes the last request report its completion. This completion also stands for all earlier
    /// requests.
    pub(crate) fn signal_last(&mut self) {
        if let Some(last) = self.requests.last_mut() {
            last.send_flags |= send::SIGNALED;
        }
    }

    /// Links the requests into a list in C style, and returns the first. The pointer is valid until
    /// the list changes.
    pub(crate) fn link(&mut self) -> *mut SendRequest {
        // Each pointer is derived from the pointer to the whole vector, so the library may follow
        // it to the neighbouring elements.
        let (requests, sges) = (self.requests.as_mut_ptr(), self.sges.as_mut_ptr());
        let count = self.requests.len();
        for (i, request) in self.requests.iter_mut().enumerate() {
            request.sg_list = sges.wrapping_add(i);
            request.next =
                if i + 1 < count { requests.wrapping_add(i + 1) } else { ptr::null_mut() };
        }
        self.requests.as_mut_ptr()
    }
}
