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
/// The device's writes count as relaxed atomic stores of words by another thread. So code may
/// access the memory only through the atomics of [`Region`]. Other accesses are impossible, because
/// a region gives access to nothing else.
pub(crate) struct Registered {
    memory: NonNull<MemoryRegion>,
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
    // The memory, kept until the device does not use it any more.
    pub(crate) region: Arc<Region>,
    device: Arc<Device>,
}

// SAFETY: the pointer is used once, for the deregistration, which any thread may do.
unsafe impl Send for Registered {}
// SAFETY: a shared reference gives access only to integers and to the region, which is itself
// `Sync`.
unsafe impl Sync for Registered {}

impl Registered {
    /// Registers `region` for all verbs. Its pages are locked in memory until the value is dropped.
    pub(crate) fn new(device: &Arc<Device>, region: Arc<Region>) -> Result<Registered, SetupError> {
        let address = region.atomics().as_ptr();
        let rights = access::LOCAL_WRITE
            | access::REMOTE_WRITE
            | access::REMOTE_READ
            | access::REMOTE_ATOMIC;
        // SAFETY: the range is the memory of the region, which lives as long as the new value. The
        // device writes only at requests of peers or of this node's endpoints. Its writes count as
        // atomic stores of words.
        let memory = unsafe {
            (device.library.reg_mr)(
                device.domain.as_ptr(),
                address.cast_mut().cast(),
                region.len(),
                rights.cast_signed(),
            )
        };
        let memory = NonNull::new(memory).ok_or_else(|| match last("ibv_reg_mr") {
            // Some kernels return these errors when too much memory is locked. `ENOMEM` gives the
            // user the right advice.
            SetupError::System { call, errno } if errno == libc::EAGAIN || errno == libc::EPERM => {
                SetupError::System { call, errno: libc::ENOMEM }
            }
            error => error,
        })?;
        // SAFETY: the library returned the pointer, and the object is a `MemoryRegion`.
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
        // SAFETY: the region is deregistered only once. After the deregistration the device refuses
        // requests that name the region. When the call returns, the device does not use the memory
        // any more.
        let result = unsafe { (self.device.library.dereg_mr)(self.memory.as_ptr()) };
        debug_assert_eq!(result, 0, "{}", io::Error::from_raw_os_error(result));
    }
}
