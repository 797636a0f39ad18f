//! [`Device`]: an opened RDMA device, its protection domain, and the attributes of its port.

use std::ffi::CStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io, slice};

use crate::error::IbvOpenError;
use crate::sys::ffi::{
    ATOMIC_NONE, Context, DeviceAttr, Gid, LINK_LAYER_ETHERNET, PORT_ACTIVE, PortAttr,
    ProtectionDomain,
};
use crate::sys::health::Health;
use crate::sys::library::Library;

/// The number of the port that the fabric uses on each device. On many NICs a second port appears
/// as a device of its own. If a device has further ports, the fabric does not use them.
pub(crate) const PORT: u8 = 1;

/// An opened device with a protection domain.
pub(crate) struct Device {
    pub(crate) library: Arc<Library>,
    pub(crate) context: NonNull<Context>,
    pub(crate) domain: NonNull<ProtectionDomain>,
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) address: Address,
    pub(crate) health: Health,
    next_psn: AtomicU32,
}

/// The limits of a device that this crate respects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Outstanding READs and atomics per queue pair, as a requester.
    pub(crate) reads_sent: u8,
    /// Outstanding READs and atomics per queue pair, as a responder.
    pub(crate) reads_served: u8,
    /// Requests in a send queue.
    pub(crate) send_queue: u32,
    /// Buffers in a shared receive queue.
    pub(crate) receive_queue: u32,
    /// Entries of a completion queue.
    pub(crate) completions: u32,
}

/// The address of the device's port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) gid: Gid,
    pub(crate) gid_index: u8,
    pub(crate) lid: u16,
    /// The largest packet of the port, in the units of `ibv_mtu`: 1 for 256 bytes, 5 for 4096.
    pub(crate) mtu: u8,
    pub(crate) ethernet: bool,
}

// SAFETY: the library's objects may be used from any thread, also at the same time (the manual of
// libibverbs promises thread safety).
unsafe impl Send for Device {}
// SAFETY: the same argument: the manual of libibverbs promises thread safety.
unsafe impl Sync for Device {}

impl Device {
    /// The names of all devices.
    pub(crate) fn names(library: &Library) -> Vec<String> {
        let mut names = Vec::new();
        // SAFETY: the list has `count` devices with names that are C strings. The list is freed
        // once, after its last use.
        unsafe {
            let mut count = 0;
            let list = (library.get_device_list)(&raw mut count);
            if list.is_null() {
                return names;
            }
            for &device in slice::from_raw_parts(list, usize::try_from(count).unwrap_or(0)) {
                let name = CStr::from_ptr((library.get_device_name)(device));
                names.push(name.to_string_lossy().into_owned());
            }
            (library.free_device_list)(list);
        }
        names.sort_unstable();
        names
    }

    /// Opens the device `name`.
    pub(crate) fn open(
        library: &Arc<Library>,
        name: &str,
        gid_index: Option<u8>,
    ) -> Result<Arc<Device>, IbvOpenError> {
        let failed = |call, error| IbvOpenError::Call { device: name.to_owned(), call, error };
        let context = open_context(library, name)?;
        // SAFETY: the context is open.
        let domain = unsafe { (library.alloc_pd)(context.as_ptr()) };
        let Some(domain) = NonNull::new(domain) else {
            let error = io::Error::last_os_error();
            // SAFETY: the context is open, and not used.
            unsafe { (library.close_device)(context.as_ptr()) };
            return Err(failed("ibv_alloc_pd", error));
        };
        // From now on the value owns the two objects, so a failure below also closes them.
        let mut device = Device {
            library: Arc::clone(library),
            context,
            domain,
            name: name.to_owned(),
            limits: Limits {
                reads_sent: 1,
                reads_served: 1,
                send_queue: 0,
                receive_queue: 0,
                completions: 0,
            },
            address: Address { gid: Gid::default(), gid_index: 0, lid: 0, mtu: 1, ethernet: true },
            health: Health::default(),
            next_psn: AtomicU32::new(first_psn()),
        };
        device.limits = device.query_limits()?;
        device.address = device.query_address(gid_index)?;
        device.listen().map_err(|error| failed("fcntl", error))?;
        let Limits { reads_sent, reads_served, send_queue, receive_queue, .. } = device.limits;
        // The log states which device feature is not used: masked atomics. A latch word is a whole
        // word, so no code needs this feature.
        tracing::info!(
            device = name,
            reads_sent,
            reads_served,
            send_queue,
            receive_queue,
            "an RDMA device is open; masked atomics are not used"
        );
        Ok(Arc::new(device))
    }

    fn failed(&self, call: &'static str, result: i32) -> IbvOpenError {
        IbvOpenError::Call {
            device: self.name.clone(),
            call,
            error: io::Error::from_raw_os_error(result),
        }
    }

    fn query_limits(&self) -> Result<Limits, IbvOpenError> {
        let mut attr = MaybeUninit::<DeviceAttr>::zeroed();
        // SAFETY: the context is open, and there is memory for the attributes.
        let result =
            unsafe { (self.library.query_device)(self.context.as_ptr(), attr.as_mut_ptr()) };
        if result != 0 {
            return Err(self.failed("ibv_query_device", result));
        }
        // SAFETY: the memory was zeroed, which is valid for all of its integers, and then written.
        let attr = unsafe { attr.assume_init() };
        if attr.atomic_cap == ATOMIC_NONE {
            return Err(IbvOpenError::NoAtomics { device: self.name.clone() });
        }
        let reads = |limit: i32| limit.clamp(1, 255) as u8;
        let count = |limit: i32| limit.max(0) as u32;
        Ok(Limits {
            reads_sent: reads(attr.max_qp_init_rd_atom),
            reads_served: reads(attr.max_qp_rd_atom),
            send_queue: count(attr.max_qp_wr),
            receive_queue: count(attr.max_srq_wr),
            completions: count(attr.max_cqe),
        })
    }

    fn query_address(&self, gid_index: Option<u8>) -> Result<Address, IbvOpenError> {
        let mut port = PortAttr::default();
        // SAFETY: the context is open, and there is memory for the attributes. The exported
        // function writes only the fields that the first version of the structure had.
        let result =
            unsafe { (self.library.query_port)(self.context.as_ptr(), PORT, &raw mut port) };
        if result != 0 {
            return Err(self.failed("ibv_query_port", result));
        }
        if port.state != PORT_ACTIVE {
            return Err(IbvOpenError::NotActive { device: self.name.clone() });
        }
        let ethernet = port.link_layer == LINK_LAYER_ETHERNET;
        let table = u8::try_from(port.gid_tbl_len.clamp(0, 255)).unwrap_or(u8::MAX);
        let chosen = gid_index.or_else(|| {
            if !ethernet {
                return Some(0);
            }
            // The first entry of RoCE version 2 with an IPv4 address, or otherwise the first entry
            // of RoCE version 2.
            let usable = |&index: &u8| self.is_routable(index);
            let v4 = |&index: &u8| {
                self.gid(index)
                    .is_some_and(|gid| gid.0[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
            };
            (0..table).filter(usable).find(v4).or_else(|| (0..table).find(usable))
        });
        let device = || self.name.clone();
        let none = || match gid_index {
            Some(index) => IbvOpenError::NoGid { device: device(), index },
            None => IbvOpenError::NoAddress { device: device() },
        };
        let gid_index = chosen.ok_or_else(none)?;
        let gid = self.gid(gid_index).ok_or_else(none)?;
        let mtu = port.active_mtu.clamp(1, 5) as u8;
        Ok(Address { gid, gid_index, lid: port.lid, mtu, ethernet })
    }

    fn gid(&self, index: u8) -> Option<Gid> {
        let mut gid = Gid::default();
        // SAFETY: the context is open, and there is memory for the address.
        let result = unsafe {
            (self.library.query_gid)(self.context.as_ptr(), PORT, index.into(), &raw mut gid)
        };
        (result == 0 && gid != Gid::default()).then_some(gid)
    }

    /// Whether the entry of the table is of RoCE version 2, which is routable. The kernel's files
    /// report this, whatever the version of the library is.
    fn is_routable(&self, index: u8) -> bool {
        let path =
            format!("/sys/class/infiniband/{}/ports/{PORT}/gid_attrs/types/{index}", self.name);
        fs::read_to_string(path).is_ok_and(|kind| kind.trim() == "RoCE v2")
    }

    /// The number of the first packet of a new queue pair. Successive queue pairs get numbers far
    /// apart, so that a late packet of a destroyed queue pair is most likely refused.
    pub(crate) fn next_psn(&self) -> u32 {
        self.next_psn.fetch_add(0x1_0361, Ordering::Relaxed) & 0xff_ffff
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: each object on the device holds an `Arc` of this device. No such object exists
        // any more, so nothing uses the domain or the context after this call.
        unsafe {
            (self.library.dealloc_pd)(self.domain.as_ptr());
            (self.library.close_device)(self.context.as_ptr());
        }
    }
}

/// The first packet number of an opened device. A new queue pair may get the queue pair number of
/// an earlier process, and late packets to that process may still arrive. The first packet number
/// is random, so the numbers of such packets most likely differ from the expected ones.
fn first_psn() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

fn open_context(library: &Library, name: &str) -> Result<NonNull<Context>, IbvOpenError> {
    // SAFETY: the list has `count` devices with names that are C strings. An open device stays
    // valid after the list is freed.
    unsafe {
        let mut count = 0;
        let list = (library.get_device_list)(&raw mut count);
        if !list.is_null() {
            let devices = slice::from_raw_parts(list, usize::try_from(count).unwrap_or(0));
            let is_it = |device: &&_| {
                CStr::from_ptr((library.get_device_name)(**device)).to_bytes() == name.as_bytes()
            };
            let context = devices.iter().find(is_it).map(|&device| {
                let context = NonNull::new((library.open_device)(device));
                context.ok_or_else(io::Error::last_os_error)
            });
            (library.free_device_list)(list);
            if let Some(context) = context {
                return context.map_err(|error| IbvOpenError::Call {
                    device: name.to_owned(),
                    call: "ibv_open_device",
                    error,
                });
            }
        }
    }
    let names = Device::names(library);
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(IbvOpenError::NoDevice { wanted: format!("with the name {name}"), there })
}
