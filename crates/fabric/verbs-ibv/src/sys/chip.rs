//! [`Chip`]: on-chip memory of a device, registered for the verbs of peers.

use std::mem::{offset_of, size_of};
use std::ptr::NonNull;
use std::sync::Arc;

use latchwork_verbs::{Region, SetupError};

use crate::error::{check, last};
use crate::sys::device::Device;
use crate::sys::ffi::{
    DeviceMemory, DeviceMemoryAttr, EXTENDED, ExtendedContext, MemoryRegion, access,
};

/// Zeroed on-chip memory, with a key of its own. Peers address its bytes from 0.
pub(crate) struct Chip {
    memory: NonNull<DeviceMemory>,
    /// Empty only while the value is made.
    region: Option<NonNull<MemoryRegion>>,
    pub(crate) len: u64,
    pub(crate) rkey: u32,
    device: Arc<Device>,
}

// SAFETY: the pointers are used once, to free the objects, which any thread may do.
unsafe impl Send for Chip {}
// SAFETY: a shared reference gives access only to integers.
unsafe impl Sync for Chip {}

impl Chip {
    /// Allocates and registers `bytes` bytes, a positive multiple of 8.
    pub(crate) fn new(device: &Arc<Device>, bytes: u64) -> Result<Chip, SetupError> {
        let none = SetupError::NoChip { bytes };
        let len = usize::try_from(bytes).map_err(|_| none)?;
        let functions = extended(device).ok_or(none)?;
        let (Some(alloc), Some(register)) = (functions.alloc_dm, functions.reg_dm_mr) else {
            return Err(none);
        };
        let mut attr = DeviceMemoryAttr { length: len, log_align_req: 3, comp_mask: 0 };
        // SAFETY: the context is open, and the attributes are as the function reads them.
        let memory = unsafe { alloc(device.context.as_ptr(), &raw mut attr) };
        let memory = NonNull::new(memory).ok_or(none)?;
        // From now on the value owns the memory, so a failure below also frees it.
        let mut chip = Chip { memory, region: None, len: bytes, rkey: 0, device: device.clone() };
        let zeros = Region::zeroed(len)?;
        // SAFETY: the device memory and the region have `len` bytes each.
        let copied = unsafe {
            let copy = (*memory.as_ptr()).memcpy_to_dm;
            copy(memory.as_ptr(), 0, zeros.atomics().as_ptr().cast(), len)
        };
        check("ibv_memcpy_to_dm", copied)?;
        // Providers register device memory only with addresses from 0.
        let rights = access::LOCAL_WRITE
            | access::REMOTE_WRITE
            | access::REMOTE_READ
            | access::REMOTE_ATOMIC
            | access::ZERO_BASED;
        // SAFETY: the protection domain and the memory are of one open device.
        let region = unsafe { register(device.domain.as_ptr(), memory.as_ptr(), 0, len, rights) };
        let region = NonNull::new(region).ok_or_else(|| last("ibv_reg_dm_mr"))?;
        // SAFETY: the library returned the pointer, and the object is a `MemoryRegion`.
        chip.rkey = unsafe { (*region.as_ptr()).rkey };
        chip.region = Some(region);
        Ok(chip)
    }
}

/// The functions of the provider that the library does not export; `None` when the library or the
/// provider is too old to have them.
fn extended(device: &Device) -> Option<&ExtendedContext> {
    let context = device.context.as_ptr();
    // SAFETY: the context is open. If it is marked as extended, it is the last field of a
    // `verbs_context`, whose field `sz` comes before it. If `sz` covers the whole
    // `ExtendedContext`, the memory before the context has its fields. The context stays open as
    // long as the device exists.
    unsafe {
        if (*context).abi_compat.addr() != EXTENDED {
            return None;
        }
        let start = context.byte_sub(offset_of!(ExtendedContext, context));
        let start = start.cast::<ExtendedContext>();
        let sz = (&raw const (*start).sz).read();
        (sz >= size_of::<ExtendedContext>()).then(|| &*start)
    }
}

impl Drop for Chip {
    fn drop(&mut self) {
        if let Some(region) = self.region {
            // SAFETY: the region is deregistered only once, before its memory is freed.
            let result = unsafe { (self.device.library.dereg_mr)(region.as_ptr()) };
            debug_assert_eq!(result, 0, "on-chip memory stays registered");
        }
        if let Some(free) = extended(&self.device).and_then(|functions| functions.free_dm) {
            // SAFETY: the memory is freed only once, and nothing uses it any more.
            unsafe { free(self.memory.as_ptr()) };
        }
    }
}
