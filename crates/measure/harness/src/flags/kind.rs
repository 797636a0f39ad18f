//! [`FabricKind`]: the values of `--fabric`.

use clap::ValueEnum;

/// The kinds of fabrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FabricKind {
    /// Shared memory: threads, in real time.
    #[default]
    Shm,
    /// A simulated network: virtual time, and every figure follows from the flags.
    Sim,
    /// Sockets.
    Tcp,
    /// RDMA devices.
    Ibverbs,
}

impl FabricKind {
    /// The name of the fabric, as `--fabric` takes it.
    pub fn name(self) -> &'static str {
        match self {
            FabricKind::Shm => "shm",
            FabricKind::Sim => "sim",
            FabricKind::Tcp => "tcp",
            FabricKind::Ibverbs => "ibverbs",
        }
    }
}
