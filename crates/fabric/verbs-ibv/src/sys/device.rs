//! [`Device`]: an opened RDMA device, its protection domain, and what its port tells.

use std::ffi::CStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io, slice};

use crate::error::OpenError;
use crate::sys::events::Health;
use crate::sys::ffi::{
    ATOMIC_NONE, Context, DeviceAttr, Gid, LINK_LAYER_ETHERNET, PORT_ACTIVE, PortAttr,
    ProtectionDomain,
};
use crate::sys::library::Library;

/// The port that is used. Second ports of NICs appear as devices of their own.
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

/// What the device can do, of what is asked of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// READs and atomics outstanding per queue pair, as a requester.
    pub(crate) reads_sent: u8,
    /// The same as a responder.
    pub(crate) reads_served: u8,
    /// Requests in a send queue.
    pub(crate) send_queue: u32,
    /// Buffers in a shared receive queue.
    pub(crate) receive_queue: u32,
    /// Entries of a completion queue.
    pub(crate) completions: u32,
}

/// Where the device's port is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) gid: Gid,
    pub(crate) gid_index: u8,
    pub(crate) lid: u16,
    /// The port's largest packet, as `ibv_mtu` counts: 1 for 256 bytes, 5 for 4096.
    pub(crate) mtu: u8,
    pub(crate) ethernet: bool,
}

// SAFETY: the library's objects may be used from any thread, at the same time (libibverbs is thread
// safe by its manual).
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// The names of all devices.
    pub(crate) fn names(library: &Library) -> Vec<String> {
        let mut names = Vec::new();
        // SAFETY: the list has `count` devices, whose names are C strings, and is freed once,
        // behind its last use.
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
    ) -> Result<Arc<Device>, OpenError> {
        let failed = |call, error| OpenError::Call { device: name.to_owned(), call, error };
        let context = open_context(library, name)?;
        // SAFETY: an open context.
        let domain = unsafe { (library.alloc_pd)(context.as_ptr()) };
        let Some(domain) = NonNull::new(domain) else {
            let error = io::Error::last_os_error();
            // SAFETY: open, and used by nobody.
            unsafe { (library.close_device)(context.as_ptr()) };
            return Err(failed("ibv_alloc_pd", error));
        };
        // Owned from here on, so that whatever fails below closes it.
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
        // What others may look for is said here: latch words are whole words in ordinary memory, on
        // every device.
        tracing::info!(
            device = name,
            reads_sent,
            reads_served,
            send_queue,
            receive_queue,
            "an RDMA device is open; masked atomics and memory on the device are not used"
        );
        Ok(Arc::new(device))
    }

    fn failed(&self, call: &'static str, result: i32) -> OpenError {
        OpenError::Call {
            device: self.name.clone(),
            call,
            error: io::Error::from_raw_os_error(result),
        }
    }

    fn query_limits(&self) -> Result<Limits, OpenError> {
        let mut attr = MaybeUninit::<DeviceAttr>::zeroed();
        // SAFETY: an open context, and memory for the attributes.
        let result =
            unsafe { (self.library.query_device)(self.context.as_ptr(), attr.as_mut_ptr()) };
        if result != 0 {
            return Err(self.failed("ibv_query_device", result));
        }
        // SAFETY: zeroed, which all of its integers may be, and then written.
        let attr = unsafe { attr.assume_init() };
        if attr.atomic_cap == ATOMIC_NONE {
            return Err(OpenError::NoAtomics { device: self.name.clone() });
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

    fn query_address(&self, gid_index: Option<u8>) -> Result<Address, OpenError> {
        let mut port = PortAttr::default();
        // SAFETY: an open context, and memory for the attributes: the exported function writes no
        // more than the older part of them.
        let result =
            unsafe { (self.library.query_port)(self.context.as_ptr(), PORT, &raw mut port) };
        if result != 0 {
            return Err(self.failed("ibv_query_port", result));
        }
        if port.state != PORT_ACTIVE {
            return Err(OpenError::NotActive { device: self.name.clone() });
        }
        let ethernet = port.link_layer == LINK_LAYER_ETHERNET;
        let table = u8::try_from(port.gid_tbl_len.clamp(0, 255)).unwrap_or(u8::MAX);
        let chosen = gid_index.or_else(|| {
            if !ethernet {
                return Some(0);
            }
            // Routable RoCE on an IPv4 address, or on whatever address there is.
            let usable = |&index: &u8| self.is_routable(index);
            let v4 = |&index: &u8| {
                self.gid(index)
                    .is_some_and(|gid| gid.0[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
            };
            (0..table).filter(usable).find(v4).or_else(|| (0..table).find(usable))
        });
        let device = || self.name.clone();
        let none = || match gid_index {
            Some(index) => OpenError::NoGid { device: device(), index },
            None => OpenError::NoAddress { device: device() },
        };
        let gid_index = chosen.ok_or_else(none)?;
        let gid = self.gid(gid_index).ok_or_else(none)?;
        let mtu = port.active_mtu.clamp(1, 5) as u8;
        Ok(Address { gid, gid_index, lid: port.lid, mtu, ethernet })
    }

    fn gid(&self, index: u8) -> Option<Gid> {
        let mut gid = Gid::default();
        // SAFETY: an open context, and memory for the address.
        let result = unsafe {
            (self.library.query_gid)(self.context.as_ptr(), PORT, index.into(), &raw mut gid)
        };
        (result == 0 && gid != Gid::default()).then_some(gid)
    }

    /// Whether the entry of the table is of RoCE version 2, which only the kernel's files tell in
    /// every version of the library.
    fn is_routable(&self, index: u8) -> bool {
        let path =
            format!("/sys/class/infiniband/{}/ports/{PORT}/gid_attrs/types/{index}", self.name);
        fs::read_to_string(path).is_ok_and(|kind| kind.trim() == "RoCE v2")
    }

    /// A packet number to start from, another one for each queue pair, so that packets of one that
    /// is gone do not fit.
    pub(crate) fn next_psn(&self) -> u32 {
        self.next_psn.fetch_add(0x1_0361, Ordering::Relaxed) & 0xff_ffff
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: whatever stood on the device has owned it, and is gone.
        unsafe {
            (self.library.dealloc_pd)(self.domain.as_ptr());
            (self.library.close_device)(self.context.as_ptr());
        }
    }
}

/// Where the packet numbers of this process begin: elsewhere than those of another one on the same
/// device, whose queue pairs may have had the same numbers.
fn first_psn() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

fn open_context(library: &Library, name: &str) -> Result<NonNull<Context>, OpenError> {
    // SAFETY: the list has `count` devices, whose names are C strings; a device stays valid while
    // it is open, beyond the list.
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
                return context.map_err(|error| OpenError::Call {
                    device: name.to_owned(),
                    call: "ibv_open_device",
                    error,
                });
            }
        }
    }
    let names = Device::names(library);
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(OpenError::NoDevice { wanted: format!("with the name {name}"), there })
}
