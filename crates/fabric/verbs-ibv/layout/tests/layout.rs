//! Compares the structures and constants of `../src/sys/ffi.rs` with the headers of libibverbs,
//! which bindgen has translated for `ibverbs-sys`.

#![allow(dead_code, unreachable_pub, missing_docs)]

#[path = "../../src/sys/ffi.rs"]
mod ffi;

use std::mem::{align_of, offset_of, size_of};

use ibverbs_sys as sys;

/// Compares the offsets of fields on both sides, and the sizes of fields that have the same name.
macro_rules! fields {
    ($ours:ty, $theirs:ty: $($($field:ident).+ => $($their:ident).+),* $(,)?) => {$(
        assert_eq!(
            offset_of!($ours, $($field).+), offset_of!($theirs, $($their).+),
            "{}", stringify!($theirs.$($their).+)
        );
    )*};
    ($ours:ty, $theirs:ty: $($field:ident),* $(,)?) => {
        fields!($ours, $theirs: $($field => $field),*);
        // The function only names the field, so that its type has a size; no code calls the
        // function.
        $(assert_eq!(
            size_of_field(|s: &$ours| &raw const s.$field), size_of_field(|s: &$theirs| &raw const s.$field),
            "size of {}", stringify!($theirs.$field)
        );)*
    };
}

fn size_of_field<S, F>(_: impl Fn(&S) -> *const F) -> usize {
    size_of::<F>()
}

/// Like [`fields`], for structures that this crate allocates: their sizes and alignments must also
/// be equal.
macro_rules! whole {
    ($ours:ty, $theirs:ty: $($field:ident),* $(,)?) => {
        assert_eq!(size_of::<$ours>(), size_of::<$theirs>(), "size of {}", stringify!($theirs));
        assert_eq!(align_of::<$ours>(), align_of::<$theirs>(), "alignment of {}", stringify!($theirs));
        fields!($ours, $theirs: $($field),*);
    };
}

#[test]
fn structures_that_the_library_allocates_have_the_fields_where_they_are_looked_for() {
    assert_eq!(size_of::<ffi::ContextOps>(), size_of::<sys::ibv_context_ops>());
    fields!(ffi::ContextOps, sys::ibv_context_ops: poll_cq, req_notify_cq, post_srq_recv, post_send);
    whole!(ffi::Context, sys::ibv_context:
        device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat);
    fields!(ffi::DeviceMemory, sys::ibv_dm: context, memcpy_to_dm);
    fields!(ffi::CompletionQueue, sys::ibv_cq: context, channel, cq_context, handle, cqe);
    fields!(ffi::ChannelHead, sys::ibv_comp_channel: context, fd);
    fields!(ffi::SharedReceiveHead, sys::ibv_srq: context);
    fields!(ffi::QueuePair, sys::ibv_qp: context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num);
    whole!(ffi::AsyncEvent, sys::ibv_async_event: element, event_type);
    whole!(ffi::MemoryRegion, sys::ibv_mr: context, pd, addr, length, handle, lkey, rkey);
}

/// The bindings lack `verbs_context`, so a C program prints the offsets of its fields, counted from
/// `reg_dm_mr`.
#[test]
fn an_extended_context_has_its_functions_where_they_are_looked_for() {
    use std::process::{Command, Stdio};

    let fields = ["alloc_dm", "free_dm", "sz", "context"];
    let print = fields.map(|field| {
        let offset = format!("offsetof(struct verbs_context, {field})");
        format!("printf(\"%zu \", {offset} - offsetof(struct verbs_context, reg_dm_mr));")
    });
    let includes = "#include <infiniband/verbs.h>\n#include <stddef.h>\n#include <stdio.h>\n";
    let program = format!("{includes}int main(void) {{ {} }}", print.concat());
    let binary = concat!(env!("CARGO_TARGET_TMPDIR"), "/offsets");
    let mut compiler = Command::new("cc");
    let compiler = compiler.args(["-x", "c", "-", "-o", binary]).stdin(Stdio::piped());
    let mut compiler = compiler.spawn().expect("a compiler");
    std::io::Write::write_all(&mut compiler.stdin.take().expect("piped"), program.as_bytes())
        .expect("it reads");
    assert!(compiler.wait().expect("it ends").success());
    let output = Command::new(binary).output().expect("it runs").stdout;
    let theirs: Vec<usize> = String::from_utf8_lossy(&output)
        .split_whitespace()
        .map(|offset| offset.parse().expect("a number"))
        .collect();
    let ours = [
        offset_of!(ffi::ExtendedContext, alloc_dm),
        offset_of!(ffi::ExtendedContext, free_dm),
        offset_of!(ffi::ExtendedContext, sz),
        offset_of!(ffi::ExtendedContext, context),
    ];
    assert_eq!(theirs, ours);
}

#[test]
fn requests_are_as_providers_read_them() {
    whole!(ffi::Sge, sys::ibv_sge: addr, length, lkey);
    whole!(ffi::SendRequest, sys::ibv_send_wr: wr_id, next, sg_list, num_sge, opcode, send_flags, wr);
    fields!(ffi::SendRequest, sys::ibv_send_wr:
        imm_data => __bindgen_anon_1, xrc_remote_srqn => qp_type, bind_or_segments => __bindgen_anon_2);
    whole!(ffi::Rdma, sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_1: remote_addr, rkey);
    whole!(ffi::Atomic, sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_2: remote_addr, compare_add, swap, rkey);
    whole!(ffi::ReceiveRequest, sys::ibv_recv_wr: wr_id, next, sg_list, num_sge);
}

#[test]
fn completions_are_as_providers_write_them() {
    whole!(ffi::WorkCompletion, sys::ibv_wc: imm_data, qp_num, src_qp, wc_flags, pkey_index, slid, sl, dlid_path_bits);
    // Five fields of the other type are private, so the test reads their values from the printed
    // form.
    let ours = ffi::WorkCompletion {
        wr_id: 1 << 40,
        status: 2,
        opcode: 3,
        vendor_err: 4,
        byte_len: 5,
        ..Default::default()
    };
    // SAFETY: as large and aligned as strictly (above), and made of integers only.
    let theirs: sys::ibv_wc = unsafe { std::mem::transmute(ours) };
    let printed = format!("{theirs:?}");
    for field in ["wr_id: 1099511627776", "status: 2", "opcode: 3", "vendor_err: 4", "byte_len: 5"]
    {
        assert!(printed.contains(&format!("{field},")), "{field}: {printed}");
    }
    assert_eq!(theirs.wr_id(), ours.wr_id);
}

#[test]
fn attributes_are_as_the_library_reads_and_writes_them() {
    whole!(ffi::DeviceMemoryAttr, sys::ibv_alloc_dm_attr: length, log_align_req, comp_mask);
    whole!(ffi::QueuePairCap, sys::ibv_qp_cap:
        max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data);
    whole!(ffi::QueuePairInit, sys::ibv_qp_init_attr:
        qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all);
    assert_eq!(size_of::<ffi::SharedReceiveInit>(), size_of::<sys::ibv_srq_init_attr>());
    fields!(ffi::SharedReceiveInit, sys::ibv_srq_init_attr:
        srq_context => srq_context, max_wr => attr.max_wr, max_sge => attr.max_sge, srq_limit => attr.srq_limit);
    assert_eq!(size_of::<ffi::Gid>(), size_of::<sys::ibv_gid>());
    assert_eq!(align_of::<ffi::Gid>(), align_of::<sys::ibv_gid>());
    whole!(ffi::GlobalRoute, sys::ibv_global_route:
        dgid, flow_label, sgid_index, hop_limit, traffic_class);
    whole!(ffi::AddressHandle, sys::ibv_ah_attr:
        grh, dlid, sl, src_path_bits, static_rate, is_global, port_num);
    whole!(ffi::QueuePairAttr, sys::ibv_qp_attr:
        qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap,
        ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic,
        max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout,
        rate_limit);
    whole!(ffi::DeviceAttr, sys::ibv_device_attr:
        fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id, hw_ver, max_qp,
        max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom,
        max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw,
        max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah,
        max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt);
    whole!(ffi::PortAttr, sys::ibv_port_attr:
        state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr,
        pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed,
        phys_state, link_layer, flags, port_cap_flags2, active_speed_ex);
}

#[test]
fn constants_have_the_headers_values() {
    use sys::{ibv_access_flags as access, ibv_qp_attr_mask as mask, ibv_send_flags as send};
    let flags = [
        (ffi::access::LOCAL_WRITE, access::IBV_ACCESS_LOCAL_WRITE),
        (ffi::access::REMOTE_WRITE, access::IBV_ACCESS_REMOTE_WRITE),
        (ffi::access::REMOTE_READ, access::IBV_ACCESS_REMOTE_READ),
        (ffi::access::REMOTE_ATOMIC, access::IBV_ACCESS_REMOTE_ATOMIC),
        (ffi::access::ZERO_BASED, access::IBV_ACCESS_ZERO_BASED),
    ];
    flags.into_iter().for_each(|(ours, theirs)| assert_eq!(ours, theirs.0));
    assert_eq!(ffi::send::SIGNALED, send::IBV_SEND_SIGNALED.0);
    assert_eq!(ffi::send::INLINE, send::IBV_SEND_INLINE.0);
    assert_eq!(ffi::opcode::RDMA_WRITE, sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE);
    assert_eq!(ffi::opcode::SEND, sys::ibv_wr_opcode::IBV_WR_SEND);
    assert_eq!(ffi::opcode::RDMA_READ, sys::ibv_wr_opcode::IBV_WR_RDMA_READ);
    assert_eq!(ffi::opcode::ATOMIC_CMP_AND_SWP, sys::ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP);
    assert_eq!(ffi::opcode::ATOMIC_FETCH_AND_ADD, sys::ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD);
    assert_eq!(ffi::QPT_RC, sys::ibv_qp_type::IBV_QPT_RC);
    assert_eq!(ffi::state::INIT, sys::ibv_qp_state::IBV_QPS_INIT);
    assert_eq!(ffi::state::RTR, sys::ibv_qp_state::IBV_QPS_RTR);
    assert_eq!(ffi::state::RTS, sys::ibv_qp_state::IBV_QPS_RTS);
    let masks = [
        (ffi::mask::STATE, mask::IBV_QP_STATE),
        (ffi::mask::ACCESS_FLAGS, mask::IBV_QP_ACCESS_FLAGS),
        (ffi::mask::PKEY_INDEX, mask::IBV_QP_PKEY_INDEX),
        (ffi::mask::PORT, mask::IBV_QP_PORT),
        (ffi::mask::AV, mask::IBV_QP_AV),
        (ffi::mask::PATH_MTU, mask::IBV_QP_PATH_MTU),
        (ffi::mask::TIMEOUT, mask::IBV_QP_TIMEOUT),
        (ffi::mask::RETRY_CNT, mask::IBV_QP_RETRY_CNT),
        (ffi::mask::RNR_RETRY, mask::IBV_QP_RNR_RETRY),
        (ffi::mask::RQ_PSN, mask::IBV_QP_RQ_PSN),
        (ffi::mask::MAX_QP_RD_ATOMIC, mask::IBV_QP_MAX_QP_RD_ATOMIC),
        (ffi::mask::MIN_RNR_TIMER, mask::IBV_QP_MIN_RNR_TIMER),
        (ffi::mask::SQ_PSN, mask::IBV_QP_SQ_PSN),
        (ffi::mask::MAX_DEST_RD_ATOMIC, mask::IBV_QP_MAX_DEST_RD_ATOMIC),
        (ffi::mask::DEST_QPN, mask::IBV_QP_DEST_QPN),
    ];
    masks.into_iter().for_each(|(ours, theirs)| assert_eq!(ours as u32, theirs.0));
    let events = [
        (ffi::event::CQ_ERR, sys::IBV_EVENT_CQ_ERR),
        (ffi::event::QP_FATAL, sys::IBV_EVENT_QP_FATAL),
        (ffi::event::DEVICE_FATAL, sys::IBV_EVENT_DEVICE_FATAL),
        (ffi::event::PORT_ACTIVE, sys::IBV_EVENT_PORT_ACTIVE),
        (ffi::event::PORT_ERR, sys::IBV_EVENT_PORT_ERR),
        (ffi::event::SRQ_ERR, sys::IBV_EVENT_SRQ_ERR),
    ];
    events.into_iter().for_each(|(ours, theirs)| assert_eq!(ours, theirs));
    assert_eq!(ffi::WC_SUCCESS, sys::ibv_wc_status::IBV_WC_SUCCESS);
    assert_eq!(ffi::PORT_ACTIVE, sys::ibv_port_state::IBV_PORT_ACTIVE);
    assert_eq!(ffi::ATOMIC_NONE, sys::IBV_ATOMIC_NONE);
    assert_eq!(u32::from(ffi::LINK_LAYER_ETHERNET), sys::IBV_LINK_LAYER_ETHERNET);
}
