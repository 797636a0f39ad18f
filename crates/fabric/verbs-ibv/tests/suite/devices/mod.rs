//! Fabrics on the machine's RDMA devices, and the behaviour without devices.

use std::io::Write;

use latchwork_verbs_ibv::{IbvConfig, IbvFabric};

/// The variable that `scripts/rxe-vm.sh` sets. If it is set, devices must be found.
const IN_VM: &str = "RXE_HOSTS";

/// Opens a fabric on all devices. Without devices, returns `None` and prints one line with the
/// reason.
pub(crate) fn open(config: IbvConfig) -> Option<IbvFabric> {
    match IbvFabric::open(config) {
        Ok(fabric) => Some(fabric),
        Err(error) => {
            assert!(
                std::env::var_os(IN_VM).is_none(),
                "no RDMA fabric in the virtual machine: {error}"
            );
            // Written directly, because `eprintln` would be captured.
            let _ = writeln!(std::io::stderr(), "skipped (scripts/rxe-vm.sh has devices): {error}");
            None
        }
    }
}

/// Long time limits, for an emulated virtual machine on a busy host: a connection fails after seven
/// times one second without an acknowledgement.
pub(crate) fn patient() -> IbvConfig {
    IbvConfig { timeout: 18, ..IbvConfig::default() }
}
