//! [`Registered`]: a region of memory that a device may read and write.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use latchwork_verbs::{Region, SetupError};

use crate::error::last;
use crate::sys::device::Device;
use crate::sys::ffi::{MemoryRegion, access};

/// A memory region of a device's protection domain.
///
/// What the device writes there it writes as another thread would with relaxed atomic stores of
/// words; so nothing but [`Region`]'s atomics may look at the memory, and nothing else can, because
/// the region gives out nothing else.
pub(crate) struct Registered {
    memory: NonNull<MemoryRegion>,
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
    // Kept until the device has let go of it.
    pub(crate) region: Arc<Region>,
    device: Arc<Device>,
}

// SAFETY: the pointer is used once, to give the registration back, which any thread may do.
unsafe impl Send for Registered {}
// SAFETY: shared, nothing but integers is looked at.
unsafe impl Sync for Registered {}

impl Registered {
    /// Registers `region` for everything that verbs do. Its pages are locked in memory until the
    /// value is dropped.
    pub(crate) fn new(device: &Arc<Device>, region: Arc<Region>) -> Result<Registered, SetupError> {
        let address = region.atomics().as_ptr();
        let rights = access::LOCAL_WRITE
            | access::REMOTE_WRITE
            | access::REMOTE_READ
            | access::REMOTE_ATOMIC;
        // SAFETY: the range is the region's own memory, which lives as long as the value that is
        // made here. The device writes only what peers or this node's endpoints ask for, as racing
        // atomic words do.
        let memory = unsafe {
            (device.library.reg_mr)(
                device.domain.as_ptr(),
                address.cast_mut().cast(),
                region.len(),
                rights.cast_signed(),
            )
        };
        let memory = NonNull::new(memory).ok_or_else(|| match last("ibv_reg_mr") {
            // What some kernels say when too much is locked.
            SetupError::System { call, errno } if errno == libc::EAGAIN || errno == libc::EPERM => {
                SetupError::System { call, errno: libc::ENOMEM }
            }
            error => error,
        })?;
        // SAFETY: the library gave it, and it is as `MemoryRegion` says.
        let (lkey, rkey) = unsafe { ((*memory.as_ptr()).lkey, (*memory.as_ptr()).rkey) };
        Ok(Registered {
            memory,
            address: address.expose_provenance() as u64,
            len: region.len() as u64,
            lkey,
            rkey,
            region,
            device: Arc::clone(device),
        })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: registered once. Requests that name it are refused by the device from then on;
        // the device is done with the memory when this returns.
        let result = unsafe { (self.device.library.dereg_mr)(self.memory.as_ptr()) };
        debug_assert_eq!(result, 0, "{}", io::Error::from_raw_os_error(result));
    }
}
