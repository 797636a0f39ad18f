//! Why the fabric could not be opened, or a connection not be made.

use std::ffi::CStr;
use std::io;

use latchwork_verbs::SetupError;
use thiserror::Error;

/// Why no RDMA fabric could be opened on this machine.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is no libibverbs, or it does not load.
    #[error(
        "libibverbs cannot be opened ({why}): install rdma-core (Debian: libibverbs1 and ibverbs-providers)"
    )]
    Library {
        /// What the loader says.
        why: String,
    },
    /// The libibverbs that is there is older than everything that this was written for.
    #[error("libibverbs has no {name:?}: install rdma-core 17 or later")]
    Symbol {
        /// The function that is missing.
        name: &'static CStr,
    },
    /// No RDMA device, or none with the name that was asked for.
    #[error(
        "no RDMA device {wanted}; there are: {there} (`ibv_devices` lists them, `rdma link add rxe0 type rxe netdev INTERFACE` \
         makes one of any network interface)"
    )]
    NoDevice {
        /// The name that was asked for, or "at all".
        wanted: String,
        /// The names of those that are there, or "none".
        there: String,
    },
    /// The device's port carries no frames.
    #[error("port 1 of {device} is not active: see `ibv_devinfo -d {device}` and `rdma link`")]
    NotActive {
        /// The device.
        device: String,
    },
    /// The device cannot do what latch words need.
    #[error("{device} has no atomics: it cannot be used")]
    NoAtomics {
        /// The device.
        device: String,
    },
    /// The device has no address in the table of its port.
    #[error(
        "port 1 of {device} has no usable address (GID): give its network interface an IP address"
    )]
    NoAddress {
        /// The device.
        device: String,
    },
    /// The device has no such address in the table of its port.
    #[error(
        "port 1 of {device} has no address (GID) with the number {index}: see /sys/class/infiniband/{device}/ports/1/gids"
    )]
    NoGid {
        /// The device.
        device: String,
        /// The number that was asked for.
        index: u8,
    },
    /// The thread that wakes parked workers could not be started.
    #[error(transparent)]
    Thread {
        /// Why.
        error: SetupError,
    },
    /// A call failed.
    #[error("{device}: {call}: {error}")]
    Call {
        /// The device.
        device: String,
        /// The function of libibverbs.
        call: &'static str,
        /// What it said.
        error: io::Error,
    },
}

/// Why a peer did not connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ConnectError {
    /// The peer is gone, or refuses for good.
    #[error("the peer is gone")]
    Gone,
    /// The peer is not a node that is known here.
    #[error("no such node")]
    Unknown,
    /// Nobody answered in time.
    #[error("the peer does not answer")]
    Unreachable,
    /// The bytes are no offer or answer that this version understands.
    #[error(
        "not connection data of version {}: run the same release on all nodes",
        crate::connection::VERSION
    )]
    Malformed,
    /// The peer could not make a queue pair.
    #[error("the peer could not make a queue pair: {}", io::Error::from_raw_os_error(*errno))]
    Refused {
        /// The error's number, there.
        errno: i32,
    },
    /// The queue pair could not be made.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// The error of a call that tells through `errno`.
pub(crate) fn last(call: &'static str) -> SetupError {
    SetupError::System { call, errno: io::Error::last_os_error().raw_os_error().unwrap_or(0) }
}

/// The error of a call that returns the error's number, or -1 and sets `errno`.
pub(crate) fn check(call: &'static str, result: i32) -> Result<(), SetupError> {
    match result {
        0 => Ok(()),
        errno if errno > 0 => Err(SetupError::System { call, errno }),
        _ => Err(last(call)),
    }
}
