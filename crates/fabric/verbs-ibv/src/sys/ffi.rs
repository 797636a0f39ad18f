//! The structures and constants of `infiniband/verbs.h` (libibverbs) that this crate uses.
//!
//! The declarations are written by hand, so the build needs neither the headers nor libclang.
//! `scripts/check-ibv-layout.sh` builds the package in `layout`, which compares each size, offset
//! and constant with bindgen's output for the headers. The interface of the library is stable:
//! symbols have versions, and a structure grows only at its end.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// An opaque object of the library.
macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub(crate) struct $name {
            private: [u8; 0],
        }
    )*};
}

opaque! { Device ProtectionDomain SharedReceiveQueue CompletionChannel }

type NotUsed = Option<unsafe extern "C" fn()>;

/// `ibv_context_ops`: the functions of the NIC's driver in user space (the provider). Inline
/// functions in the library's headers call these functions, so the library exports no symbols for
/// them.
#[repr(C)]
pub(crate) struct ContextOps {
    pub(crate) before_poll_cq: [NotUsed; 11],
    pub(crate) poll_cq:
        unsafe extern "C" fn(*mut CompletionQueue, c_int, *mut WorkCompletion) -> c_int,
    pub(crate) req_notify_cq: unsafe extern "C" fn(*mut CompletionQueue, c_int) -> c_int,
    pub(crate) before_post_srq_recv: [NotUsed; 7],
    pub(crate) post_srq_recv: unsafe extern "C" fn(
        *mut SharedReceiveQueue,
        *mut ReceiveRequest,
        *mut *mut ReceiveRequest,
    ) -> c_int,
    pub(crate) before_post_send: [NotUsed; 4],
    pub(crate) post_send:
        unsafe extern "C" fn(*mut QueuePair, *mut SendRequest, *mut *mut SendRequest) -> c_int,
    pub(crate) behind_post_send: [NotUsed; 6],
}

/// `ibv_context`; the library allocates it.
#[repr(C)]
pub(crate) struct Context {
    pub(crate) device: *mut Device,
    pub(crate) ops: ContextOps,
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
    pub(crate) mutex: libc::pthread_mutex_t,
    /// [`EXTENDED`] in a context that is inside an [`ExtendedContext`].
    pub(crate) abi_compat: *mut c_void,
}

/// The value of `abi_compat` that marks an extended context.
pub(crate) const EXTENDED: usize = usize::MAX;

/// The end of `verbs_context`, from the functions for device memory on. This structure grows at its
/// start. A function that a provider lacks is null.
#[repr(C)]
pub(crate) struct ExtendedContext {
    pub(crate) reg_dm_mr: Option<
        unsafe extern "C" fn(
            *mut ProtectionDomain,
            *mut DeviceMemory,
            u64,
            usize,
            c_uint,
        ) -> *mut MemoryRegion,
    >,
    pub(crate) alloc_dm:
        Option<unsafe extern "C" fn(*mut Context, *mut DeviceMemoryAttr) -> *mut DeviceMemory>,
    pub(crate) free_dm: Option<unsafe extern "C" fn(*mut DeviceMemory) -> c_int>,
    pub(crate) behind_free_dm: [NotUsed; 28],
    pub(crate) abi_placeholder: u64,
    /// The bytes of the whole `verbs_context` of the library.
    pub(crate) sz: usize,
    pub(crate) context: Context,
}

/// The used part of `ibv_dm`; the library allocates it.
#[repr(C)]
pub(crate) struct DeviceMemory {
    pub(crate) context: *mut Context,
    pub(crate) memcpy_to_dm:
        unsafe extern "C" fn(*mut DeviceMemory, u64, *const c_void, usize) -> c_int,
}

/// `ibv_alloc_dm_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct DeviceMemoryAttr {
    pub(crate) length: usize,
    pub(crate) log_align_req: u32,
    pub(crate) comp_mask: u32,
}

/// The used part of `ibv_cq`; the library allocates it.
#[repr(C)]
pub(crate) struct CompletionQueue {
    pub(crate) context: *mut Context,
    pub(crate) channel: *mut CompletionChannel,
    pub(crate) cq_context: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) cqe: c_int,
}

/// The used part of `ibv_comp_channel`; the library allocates it.
#[repr(C)]
pub(crate) struct ChannelHead {
    pub(crate) context: *mut Context,
    pub(crate) fd: c_int,
}

/// The used part of `ibv_srq`; the library allocates it.
#[repr(C)]
pub(crate) struct SharedReceiveHead {
    pub(crate) context: *mut Context,
}

/// The used part of `ibv_qp`; the library allocates it.
#[repr(C)]
pub(crate) struct QueuePair {
    pub(crate) context: *mut Context,
    pub(crate) qp_context: *mut c_void,
    pub(crate) pd: *mut ProtectionDomain,
    pub(crate) send_cq: *mut CompletionQueue,
    pub(crate) recv_cq: *mut CompletionQueue,
    pub(crate) srq: *mut SharedReceiveQueue,
    pub(crate) handle: u32,
    pub(crate) qp_num: u32,
}

/// `ibv_mr`; the library allocates it.
#[repr(C)]
pub(crate) struct MemoryRegion {
    pub(crate) context: *mut Context,
    pub(crate) pd: *mut ProtectionDomain,
    pub(crate) addr: *mut c_void,
    pub(crate) length: usize,
    pub(crate) handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

/// `ibv_async_event`. Its type decides whether `element` is a completion queue, a queue pair, a
/// shared receive queue or a port's number.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AsyncEvent {
    pub(crate) element: *mut c_void,
    pub(crate) event_type: c_uint,
}

/// `ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

/// `ibv_send_wr.wr.rdma`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Rdma {
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
}

/// `ibv_send_wr.wr.atomic`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Atomic {
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    pub(crate) rkey: u32,
}

/// `ibv_send_wr.wr`, without the variant for datagrams. That variant is smaller than the variant
/// for atomics, so the size is the same.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Remote {
    pub(crate) rdma: Rdma,
    pub(crate) atomic: Atomic,
}

/// `ibv_send_wr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SendRequest {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut SendRequest,
    pub(crate) sg_list: *mut Sge,
    pub(crate) num_sge: c_int,
    pub(crate) opcode: c_uint,
    pub(crate) send_flags: c_uint,
    pub(crate) imm_data: u32,
    pub(crate) wr: Remote,
    pub(crate) xrc_remote_srqn: u32,
    pub(crate) bind_or_segments: [u64; 6],
}

/// `ibv_recv_wr`.
#[repr(C)]
pub(crate) struct ReceiveRequest {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut ReceiveRequest,
    pub(crate) sg_list: *mut Sge,
    pub(crate) num_sge: c_int,
}

/// `ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct WorkCompletion {
    pub(crate) wr_id: u64,
    pub(crate) status: c_uint,
    pub(crate) opcode: c_uint,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm_data: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) wc_flags: c_uint,
    pub(crate) pkey_index: u16,
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) dlid_path_bits: u8,
}

/// `ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct QueuePairCap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

/// `ibv_qp_init_attr`.
#[repr(C)]
pub(crate) struct QueuePairInit {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut CompletionQueue,
    pub(crate) recv_cq: *mut CompletionQueue,
    pub(crate) srq: *mut SharedReceiveQueue,
    pub(crate) cap: QueuePairCap,
    pub(crate) qp_type: c_uint,
    pub(crate) sq_sig_all: c_int,
}

/// `ibv_srq_init_attr`, with `ibv_srq_attr` in it.
#[repr(C)]
pub(crate) struct SharedReceiveInit {
    pub(crate) srq_context: *mut c_void,
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) srq_limit: u32,
}

/// `ibv_global_route`; the destination is 16 bytes in network order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GlobalRoute {
    pub(crate) dgid: Gid,
    pub(crate) flow_label: u32,
    pub(crate) sgid_index: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
}

/// `ibv_gid`, with the alignment of its variant of two 64-bit halves.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Gid(pub(crate) [u8; 16]);

/// `ibv_ah_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct AddressHandle {
    pub(crate) grh: GlobalRoute,
    pub(crate) dlid: u16,
    pub(crate) sl: u8,
    pub(crate) src_path_bits: u8,
    pub(crate) static_rate: u8,
    pub(crate) is_global: u8,
    pub(crate) port_num: u8,
}

/// `ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct QueuePairAttr {
    pub(crate) qp_state: c_uint,
    pub(crate) cur_qp_state: c_uint,
    pub(crate) path_mtu: c_uint,
    pub(crate) path_mig_state: c_uint,
    pub(crate) qkey: u32,
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) dest_qp_num: u32,
    pub(crate) qp_access_flags: c_uint,
    pub(crate) cap: QueuePairCap,
    pub(crate) ah_attr: AddressHandle,
    pub(crate) alt_ah_attr: AddressHandle,
    pub(crate) pkey_index: u16,
    pub(crate) alt_pkey_index: u16,
    pub(crate) en_sqd_async_notify: u8,
    pub(crate) sq_draining: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) port_num: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) alt_port_num: u8,
    pub(crate) alt_timeout: u8,
    pub(crate) rate_limit: u32,
}

/// `ibv_device_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DeviceAttr {
    pub(crate) fw_ver: [c_char; 64],
    pub(crate) node_guid: u64,
    pub(crate) sys_image_guid: u64,
    pub(crate) max_mr_size: u64,
    pub(crate) page_size_cap: u64,
    pub(crate) vendor_id: u32,
    pub(crate) vendor_part_id: u32,
    pub(crate) hw_ver: u32,
    pub(crate) max_qp: c_int,
    pub(crate) max_qp_wr: c_int,
    pub(crate) device_cap_flags: c_uint,
    pub(crate) max_sge: c_int,
    pub(crate) max_sge_rd: c_int,
    pub(crate) max_cq: c_int,
    pub(crate) max_cqe: c_int,
    pub(crate) max_mr: c_int,
    pub(crate) max_pd: c_int,
    pub(crate) max_qp_rd_atom: c_int,
    pub(crate) max_ee_rd_atom: c_int,
    pub(crate) max_res_rd_atom: c_int,
    pub(crate) max_qp_init_rd_atom: c_int,
    pub(crate) max_ee_init_rd_atom: c_int,
    pub(crate) atomic_cap: c_uint,
    pub(crate) max_ee: c_int,
    pub(crate) max_rdd: c_int,
    pub(crate) max_mw: c_int,
    pub(crate) max_raw_ipv6_qp: c_int,
    pub(crate) max_raw_ethy_qp: c_int,
    pub(crate) max_mcast_grp: c_int,
    pub(crate) max_mcast_qp_attach: c_int,
    pub(crate) max_total_mcast_qp_attach: c_int,
    pub(crate) max_ah: c_int,
    pub(crate) max_fmr: c_int,
    pub(crate) max_map_per_fmr: c_int,
    pub(crate) max_srq: c_int,
    pub(crate) max_srq_wr: c_int,
    pub(crate) max_srq_sge: c_int,
    pub(crate) max_pkeys: u16,
    pub(crate) local_ca_ack_delay: u8,
    pub(crate) phys_port_cnt: u8,
}

/// `ibv_port_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PortAttr {
    pub(crate) state: c_uint,
    pub(crate) max_mtu: c_uint,
    pub(crate) active_mtu: c_uint,
    pub(crate) gid_tbl_len: c_int,
    pub(crate) port_cap_flags: u32,
    pub(crate) max_msg_sz: u32,
    pub(crate) bad_pkey_cntr: u32,
    pub(crate) qkey_viol_cntr: u32,
    pub(crate) pkey_tbl_len: u16,
    pub(crate) lid: u16,
    pub(crate) sm_lid: u16,
    pub(crate) lmc: u8,
    pub(crate) max_vl_num: u8,
    pub(crate) sm_sl: u8,
    pub(crate) subnet_timeout: u8,
    pub(crate) init_type_reply: u8,
    pub(crate) active_width: u8,
    pub(crate) active_speed: u8,
    pub(crate) phys_state: u8,
    pub(crate) link_layer: u8,
    pub(crate) flags: u8,
    pub(crate) port_cap_flags2: u16,
    pub(crate) active_speed_ex: u32,
}

/// The values of `ibv_event_type` that this crate handles.
pub(crate) mod event {
    use super::c_uint;
    pub(crate) const CQ_ERR: c_uint = 0;
    pub(crate) const QP_FATAL: c_uint = 1;
    pub(crate) const DEVICE_FATAL: c_uint = 8;
    pub(crate) const PORT_ACTIVE: c_uint = 9;
    pub(crate) const PORT_ERR: c_uint = 10;
    pub(crate) const SRQ_ERR: c_uint = 14;
}

/// `ibv_access_flags`.
pub(crate) mod access {
    use super::c_uint;
    pub(crate) const LOCAL_WRITE: c_uint = 1;
    pub(crate) const REMOTE_WRITE: c_uint = 2;
    pub(crate) const REMOTE_READ: c_uint = 4;
    pub(crate) const REMOTE_ATOMIC: c_uint = 8;
    pub(crate) const ZERO_BASED: c_uint = 32;
}

/// `ibv_wr_opcode`.
pub(crate) mod opcode {
    use super::c_uint;
    pub(crate) const RDMA_WRITE: c_uint = 0;
    pub(crate) const SEND: c_uint = 2;
    pub(crate) const RDMA_READ: c_uint = 4;
    pub(crate) const ATOMIC_CMP_AND_SWP: c_uint = 5;
    pub(crate) const ATOMIC_FETCH_AND_ADD: c_uint = 6;
}

/// `ibv_send_flags`.
pub(crate) mod send {
    use super::c_uint;
    pub(crate) const SIGNALED: c_uint = 2;
    pub(crate) const INLINE: c_uint = 8;
}

/// `ibv_qp_type`.
pub(crate) const QPT_RC: c_uint = 2;

/// `ibv_qp_state`.
pub(crate) mod state {
    use super::c_uint;
    pub(crate) const INIT: c_uint = 1;
    pub(crate) const RTR: c_uint = 2;
    pub(crate) const RTS: c_uint = 3;
}

/// `ibv_qp_attr_mask`.
pub(crate) mod mask {
    use super::c_int;
    pub(crate) const STATE: c_int = 1;
    pub(crate) const ACCESS_FLAGS: c_int = 1 << 3;
    pub(crate) const PKEY_INDEX: c_int = 1 << 4;
    pub(crate) const PORT: c_int = 1 << 5;
    pub(crate) const AV: c_int = 1 << 7;
    pub(crate) const PATH_MTU: c_int = 1 << 8;
    pub(crate) const TIMEOUT: c_int = 1 << 9;
    pub(crate) const RETRY_CNT: c_int = 1 << 10;
    pub(crate) const RNR_RETRY: c_int = 1 << 11;
    pub(crate) const RQ_PSN: c_int = 1 << 12;
    pub(crate) const MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    pub(crate) const MIN_RNR_TIMER: c_int = 1 << 15;
    pub(crate) const SQ_PSN: c_int = 1 << 16;
    pub(crate) const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub(crate) const DEST_QPN: c_int = 1 << 20;
}

/// `ibv_wc_status`: success.
pub(crate) const WC_SUCCESS: c_uint = 0;

/// `ibv_port_state`: a port that carries frames.
pub(crate) const PORT_ACTIVE: c_uint = 4;

/// `ibv_atomic_cap`: no atomics at all.
pub(crate) const ATOMIC_NONE: c_uint = 0;

/// `IBV_LINK_LAYER_ETHERNET`.
pub(crate) const LINK_LAYER_ETHERNET: u8 = 2;
