//! [`Pair`]: a queue pair, one end of a reliable connection.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use latchwork_verbs::SetupError;

use crate::connection::ConnectionData;
use crate::error::{check, last};
use crate::sys::completions::Completions;
use crate::sys::device::{Device, PORT};
use crate::sys::ffi::{
    AddressHandle, Gid, GlobalRoute, QPT_RC, QueuePair, QueuePairAttr, QueuePairCap, QueuePairInit,
    access, mask, state,
};
use crate::sys::list::SendList;
use crate::sys::receives::Receives;

/// Time limits and repetitions of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuning {
    /// The exponent of the time after which an acknowledgement counts as lost: 4.096 us times two
    /// to this power.
    pub(crate) timeout: u8,
    /// The number of repetitions of a request after such a loss. 7 is unlimited on Soft-RoCE.
    pub(crate) retries: u8,
    /// The largest number of outstanding READs and atomics.
    pub(crate) reads: u8,
}

/// The number of repetitions while the receiver has no buffer: 7 means without a limit. So a
/// message to a full inbox waits and does not fail.
const RECEIVER_NOT_READY_FOR_EVER: u8 = 7;

/// The time after which a sender tries again at a receiver without buffers: 0.06 ms, in the
/// encoding of the InfiniBand architecture.
const RECEIVER_NOT_READY_TIMER: u8 = 5;

/// A queue pair. After `drop` returns, the device uses no buffer of the queue pair's requests any
/// more, and executes no request of its peer.
pub(crate) struct Pair {
    pair: NonNull<QueuePair>,
    device: Arc<Device>,
    completions: Arc<Completions>,
    // The receive queue of a responder with messages.
    _receives: Option<Arc<Receives>>,
    /// The number by which the peer addresses this end.
    pub(crate) number: u32,
    /// The number of the first packet that this end sends.
    psn: u32,
    /// The largest payload that may travel inside a request, in bytes.
    pub(crate) inline: u32,
}

// SAFETY: the library and the providers lock a queue pair themselves.
unsafe impl Send for Pair {}
// SAFETY: the same argument: the library and the providers lock a queue pair themselves.
unsafe impl Sync for Pair {}

impl Pair {
    /// Makes a requester, whose completions arrive in `completions`. The requester has room for
    /// `depth` requests, and for `inline` bytes in each request if the device supports so many.
    pub(crate) fn requester(
        device: &Arc<Device>,
        completions: &Arc<Completions>,
        depth: u32,
        inline: u32,
    ) -> Result<Pair, SetupError> {
        // A device refuses more inline bytes than it supports, and does not report its limit. So
        // smaller numbers are tried.
        let mut pair = Pair::new(device, completions, None, depth, inline);
        for less in [128, 64, 0] {
            if pair.is_err() && less < inline {
                pair = Pair::new(device, completions, None, depth, less);
            }
        }
        let pair = pair?;
        pair.initialise(0)?;
        Ok(pair)
    }

    /// Makes a responder. Messages go to `receives`, if the node has an inbox.
    pub(crate) fn responder(
        device: &Arc<Device>,
        completions: &Arc<Completions>,
        receives: Option<&Arc<Receives>>,
    ) -> Result<Pair, SetupError> {
        let pair = Pair::new(device, completions, receives, 1, 0)?;
        pair.initialise(access::REMOTE_READ | access::REMOTE_WRITE | access::REMOTE_ATOMIC)?;
        Ok(pair)
    }

    fn new(
        device: &Arc<Device>,
        completions: &Arc<Completions>,
        receives: Option<&Arc<Receives>>,
        depth: u32,
        inline: u32,
    ) -> Result<Pair, SetupError> {
        let queue = completions.queue();
        let mut init = QueuePairInit {
            qp_context: ptr::null_mut(),
            send_cq: queue,
            recv_cq: receives.map_or(queue, |receives| receives.completions.queue()),
            srq: receives.map_or(ptr::null_mut(), |receives| receives.queue()),
            cap: QueuePairCap {
                max_send_wr: depth,
                max_recv_wr: u32::from(receives.is_none()),
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: inline,
            },
            qp_type: QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: the protection domain is alive, the queues are of the same device and the pair
        // will own them. The library changes the attributes to those of the pair.
        let pair = unsafe { (device.library.create_qp)(device.domain.as_ptr(), &raw mut init) };
        let pair = NonNull::new(pair).ok_or_else(|| last("ibv_create_qp"))?;
        // SAFETY: the library returned the pointer, and the object begins like `QueuePair`.
        let number = unsafe { (*pair.as_ptr()).qp_num };
        Ok(Pair {
            pair,
            device: Arc::clone(device),
            completions: Arc::clone(completions),
            _receives: receives.cloned(),
            number,
            psn: device.next_psn(),
            inline: init.cap.max_inline_data.min(inline),
        })
    }

    fn modify(&self, mut attr: QueuePairAttr, mask: i32) -> Result<(), SetupError> {
        // SAFETY: the queue pair is alive. The library reads the attributes that the mask names.
        let result = unsafe {
            (self.device.library.modify_qp)(self.pair.as_ptr(), &raw mut attr, mask | mask::STATE)
        };
        check("ibv_modify_qp", result)
    }

    fn initialise(&self, rights: u32) -> Result<(), SetupError> {
        let attr = QueuePairAttr {
            qp_state: state::INIT,
            port_num: PORT,
            qp_access_flags: rights,
            ..QueuePairAttr::default()
        };
        self.modify(attr, mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS)
    }

    /// The data with which the peer connects to this end. `reads` is the number of outstanding
    /// READs and atomics that this end wants or serves.
    pub(crate) fn data(&self, reads: u8) -> ConnectionData {
        let address = self.device.address;
        ConnectionData {
            pair: self.number,
            psn: self.psn,
            lid: address.lid,
            gid: address.gid.0,
            mtu: address.mtu,
            reads,
        }
    }

    /// Makes this end accept requests of the peer, with at most `reads` outstanding READs and
    /// atomics.
    pub(crate) fn accept(&self, peer: &ConnectionData, reads: u8) -> Result<(), SetupError> {
        let address = self.device.address;
        let attr = QueuePairAttr {
            qp_state: state::RTR,
            path_mtu: address.mtu.min(peer.mtu).into(),
            dest_qp_num: peer.pair,
            rq_psn: peer.psn,
            max_dest_rd_atomic: reads,
            min_rnr_timer: RECEIVER_NOT_READY_TIMER,
            ah_attr: AddressHandle {
                grh: GlobalRoute {
                    dgid: Gid(peer.gid),
                    sgid_index: address.gid_index,
                    hop_limit: 64,
                    ..GlobalRoute::default()
                },
                dlid: peer.lid,
                // On Ethernet the route uses the global address. Inside an InfiniBand subnet the
                // local id is enough, and a route by global address may be missing.
                is_global: u8::from(address.ethernet),
                port_num: PORT,
                ..AddressHandle::default()
            },
            ..QueuePairAttr::default()
        };
        let mask = mask::AV
            | mask::PATH_MTU
            | mask::DEST_QPN
            | mask::RQ_PSN
            | mask::MAX_DEST_RD_ATOMIC
            | mask::MIN_RNR_TIMER;
        self.modify(attr, mask)
    }

    /// Connects this end to the peer's end, which serves `peer.reads` outstanding READs and
    /// atomics. After success, requests can be posted.
    pub(crate) fn connect(&self, peer: &ConnectionData, tuning: Tuning) -> Result<(), SetupError> {
        // This end executes no requests of the peer, but the transition needs the attributes of a
        // responder.
        self.accept(peer, 1)?;
        let attr = QueuePairAttr {
            qp_state: state::RTS,
            sq_psn: self.psn,
            timeout: tuning.timeout,
            retry_cnt: tuning.retries,
            rnr_retry: RECEIVER_NOT_READY_FOR_EVER,
            max_rd_atomic: tuning.reads.min(peer.reads).max(1),
            ..QueuePairAttr::default()
        };
        let mask = mask::TIMEOUT
            | mask::RETRY_CNT
            | mask::RNR_RETRY
            | mask::SQ_PSN
            | mask::MAX_QP_RD_ATOMIC;
        self.modify(attr, mask)
    }

    /// Posts all requests of a list that is not empty, with one doorbell.
    ///
    /// # Errors
    /// When the provider accepted only a part of the requests, or none of them.
    ///
    /// # Safety
    /// The buffer of each request must stay registered until a completion reports the request as
    /// done, or the pair is destroyed. Until this time the memory of the buffer must be accessed
    /// only as atomic words. An inline buffer needs this only until the call returns.
    pub(crate) unsafe fn post(&self, list: &mut SendList) -> Result<(), SetupError> {
        let mut bad = ptr::null_mut();
        // SAFETY: the pair is alive. The entries and buffer descriptions of the list do not move
        // until the call returns, and the provider copies them before the return. The caller
        // guarantees the rest for the buffers.
        let result = unsafe {
            let context = (*self.pair.as_ptr()).context;
            ((*context).ops.post_send)(self.pair.as_ptr(), list.link(), &raw mut bad)
        };
        check("ibv_post_send", result)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: no code uses the pair any more. Its queues stay alive in this value.
        unsafe { (self.device.library.destroy_qp)(self.pair.as_ptr()) };
        let _ = &self.completions;
    }
}
