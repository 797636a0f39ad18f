//! [`Library`]: libibverbs, opened at run time.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::error::IbvOpenError;
use crate::sys::ffi::{
    AsyncEvent, CompletionChannel, CompletionQueue, Context, Device, DeviceAttr, Gid, MemoryRegion,
    PortAttr, ProtectionDomain, QueuePair, QueuePairAttr, QueuePairInit, SharedReceiveInit,
    SharedReceiveQueue,
};

/// The file name of the library: its soname, which Debian's package libibverbs1 installs.
const NAME: &CStr = c"libibverbs.so.1";

macro_rules! functions {
    ($($field:ident: $symbol:literal of $version:literal, fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of the library. The library stays open until the process ends, because
        /// providers start threads and register handlers that must not be unmapped.
        pub(crate) struct Library {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Library {
            pub(crate) fn open() -> Result<Library, IbvOpenError> {
                // SAFETY: the name is a C string. Loading the library runs its own start code,
                // which this crate trusts like the system's package.
                let library = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW) };
                if library.is_null() {
                    return Err(IbvOpenError::Library { why: last_error() });
                }
                Ok(Library {
                    $($field: {
                        let symbol = symbol(library, $symbol, $version).ok_or(IbvOpenError::Symbol { name: $symbol })?;
                        // SAFETY: the symbol in the requested version is a function with this
                        // signature (infiniband/verbs.h of rdma-core; a version of a symbol never
                        // changes its signature).
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    get_device_list: c"ibv_get_device_list" of c"IBVERBS_1.1", fn(*mut c_int) -> *mut *mut Device;
    free_device_list: c"ibv_free_device_list" of c"IBVERBS_1.1", fn(*mut *mut Device) -> ();
    get_device_name: c"ibv_get_device_name" of c"IBVERBS_1.1", fn(*mut Device) -> *const c_char;
    open_device: c"ibv_open_device" of c"IBVERBS_1.1", fn(*mut Device) -> *mut Context;
    close_device: c"ibv_close_device" of c"IBVERBS_1.1", fn(*mut Context) -> c_int;
    query_device: c"ibv_query_device" of c"IBVERBS_1.1", fn(*mut Context, *mut DeviceAttr) -> c_int;
    query_port: c"ibv_query_port" of c"IBVERBS_1.1", fn(*mut Context, u8, *mut PortAttr) -> c_int;
    query_gid: c"ibv_query_gid" of c"IBVERBS_1.1", fn(*mut Context, u8, c_int, *mut Gid) -> c_int;
    get_async_event: c"ibv_get_async_event" of c"IBVERBS_1.1", fn(*mut Context, *mut AsyncEvent) -> c_int;
    ack_async_event: c"ibv_ack_async_event" of c"IBVERBS_1.1", fn(*mut AsyncEvent) -> ();
    alloc_pd: c"ibv_alloc_pd" of c"IBVERBS_1.1", fn(*mut Context) -> *mut ProtectionDomain;
    dealloc_pd: c"ibv_dealloc_pd" of c"IBVERBS_1.1", fn(*mut ProtectionDomain) -> c_int;
    reg_mr: c"ibv_reg_mr" of c"IBVERBS_1.1", fn(*mut ProtectionDomain, *mut c_void, usize, c_int) -> *mut MemoryRegion;
    dereg_mr: c"ibv_dereg_mr" of c"IBVERBS_1.1", fn(*mut MemoryRegion) -> c_int;
    create_comp_channel: c"ibv_create_comp_channel" of c"IBVERBS_1.0", fn(*mut Context) -> *mut CompletionChannel;
    destroy_comp_channel: c"ibv_destroy_comp_channel" of c"IBVERBS_1.0", fn(*mut CompletionChannel) -> c_int;
    create_cq: c"ibv_create_cq" of c"IBVERBS_1.1",
        fn(*mut Context, c_int, *mut c_void, *mut CompletionChannel, c_int) -> *mut CompletionQueue;
    destroy_cq: c"ibv_destroy_cq" of c"IBVERBS_1.1", fn(*mut CompletionQueue) -> c_int;
    get_cq_event: c"ibv_get_cq_event" of c"IBVERBS_1.1",
        fn(*mut CompletionChannel, *mut *mut CompletionQueue, *mut *mut c_void) -> c_int;
    ack_cq_events: c"ibv_ack_cq_events" of c"IBVERBS_1.1", fn(*mut CompletionQueue, c_uint) -> ();
    create_srq: c"ibv_create_srq" of c"IBVERBS_1.1",
        fn(*mut ProtectionDomain, *mut SharedReceiveInit) -> *mut SharedReceiveQueue;
    destroy_srq: c"ibv_destroy_srq" of c"IBVERBS_1.1", fn(*mut SharedReceiveQueue) -> c_int;
    create_qp: c"ibv_create_qp" of c"IBVERBS_1.1", fn(*mut ProtectionDomain, *mut QueuePairInit) -> *mut QueuePair;
    modify_qp: c"ibv_modify_qp" of c"IBVERBS_1.1", fn(*mut QueuePair, *mut QueuePairAttr, c_int) -> c_int;
    destroy_qp: c"ibv_destroy_qp" of c"IBVERBS_1.1", fn(*mut QueuePair) -> c_int;
}

/// The address of a symbol in the given version. If the C library does not support versions, the
/// newest version is taken, which is the same: none of the symbols has a later version.
fn symbol(library: *mut c_void, name: &CStr, version: &CStr) -> Option<*mut c_void> {
    #[cfg(target_env = "gnu")]
    // SAFETY: the library is open, and there are two C strings.
    let symbol = unsafe { libc::dlvsym(library, name.as_ptr(), version.as_ptr()) };
    #[cfg(not(target_env = "gnu"))]
    // SAFETY: the library is open, and there is one C string.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    let _ = version;
    (!symbol.is_null()).then_some(symbol)
}

/// The loader's text for its last error.
fn last_error() -> String {
    // SAFETY: the pointer is null, or a C string that is valid until this thread's next call into
    // the loader.
    unsafe {
        let why = libc::dlerror();
        if why.is_null() {
            String::new()
        } else {
            CStr::from_ptr(why).to_string_lossy().into_owned()
        }
    }
}
