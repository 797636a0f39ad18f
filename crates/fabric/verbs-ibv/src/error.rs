//! [`IbvOpenError`] and [`ConnectError`]: errors of opening the fabric, and of connecting two
//! nodes.

use std::ffi::CStr;
use std::io;

use latchwork_verbs::SetupError;
use thiserror::Error;

/// Why no RDMA fabric can be opened on this machine.
#[derive(Debug, Error)]
pub enum IbvOpenError {
    /// The library libibverbs is missing or does not load.
    #[error(
        "libibverbs cannot be opened ({why}): install rdma-core (Debian: libibverbs1 and ibverbs-providers)"
    )]
    Library {
        /// The error of the loader.
        why: String,
    },
    /// The installed libibverbs lacks a function: it is older than the versions that this crate
    /// supports.
    #[error("libibverbs has no {name:?}: install rdma-core 17 or later")]
    Symbol {
        /// The missing function.
        name: &'static CStr,
    },
    /// There is no RDMA device, or no device with the requested name.
    #[error(
        "no RDMA device {wanted}; there are: {there} (`ibv_devices` lists them, `rdma link add rxe0 type rxe netdev INTERFACE` \
         makes one of any network interface)"
    )]
    NoDevice {
        /// The requested name, or "at all".
        wanted: String,
        /// The names of the devices, or "none".
        there: String,
    },
    /// The device's port carries no frames.
    #[error("port 1 of {device} is not active: see `ibv_devinfo -d {device}` and `rdma link`")]
    NotActive {
        /// The device.
        device: String,
    },
    /// The device has no atomics, which latch words need.
    #[error("{device} has no atomics: it cannot be used")]
    NoAtomics {
        /// The device.
        device: String,
    },
    /// The table of the device's port has no usable address.
    #[error(
        "port 1 of {device} has no usable address (GID): give its network interface an IP address"
    )]
    NoAddress {
        /// The device.
        device: String,
    },
    /// The table of the device's port has no address with the requested number.
    #[error(
        "port 1 of {device} has no address (GID) with the number {index}: see /sys/class/infiniband/{device}/ports/1/gids"
    )]
    NoGid {
        /// The device.
        device: String,
        /// The requested number.
        index: u8,
    },
    /// The thread that wakes parked workers cannot be started.
    #[error(transparent)]
    Thread {
        /// The cause.
        error: SetupError,
    },
    /// A call of libibverbs failed.
    #[error("{device}: {call}: {error}")]
    Call {
        /// The device.
        device: String,
        /// The function of libibverbs.
        call: &'static str,
        /// The error of the function.
        error: io::Error,
    },
}

/// Why two nodes could not be connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ConnectError {
    /// The peer has left, has died, or refuses this node permanently.
    #[error("the peer is gone")]
    Gone,
    /// The node is not known.
    #[error("no such node")]
    Unknown,
    /// The peer did not answer in time.
    #[error("the peer does not answer")]
    Unreachable,
    /// The bytes are not an offer or answer of this version.
    #[error(
        "not connection data of version {}: run the same release on all nodes",
        crate::version::VERSION
    )]
    Malformed,
    /// The peer could not create a queue pair.
    #[error("the peer could not make a queue pair: {}", io::Error::from_raw_os_error(*errno))]
    Refused {
        /// The error number at the peer.
        errno: i32,
    },
    /// The queue pair of this side could not be created.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// The error of a call that has just failed and set `errno`.
pub(crate) fn last(call: &'static str) -> SetupError {
    SetupError::System { call, errno: io::Error::last_os_error().raw_os_error().unwrap_or(0) }
}

/// The result of a call that returns 0 for success. For an error it returns the error number, or
/// returns -1 and sets `errno`.
pub(crate) fn check(call: &'static str, result: i32) -> Result<(), SetupError> {
    match result {
        0 => Ok(()),
        errno if errno > 0 => Err(SetupError::System { call, errno }),
        _ => Err(last(call)),
    }
}
