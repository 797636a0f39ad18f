//! Fabrics on the machine's RDMA devices, and what to do without.

use std::io::Write;

use latchwork_verbs_ibv::{Config, Fabric};

/// The variable that `scripts/rxe-vm.sh` sets: there devices must be found.
const IN_VM: &str = "RXE_HOSTS";

/// A fabric on all devices; `None`, and a line that says why, where there are none.
pub(crate) fn open(config: Config) -> Option<Fabric> {
    match Fabric::open(config) {
        Ok(fabric) => Some(fabric),
        Err(error) => {
            assert!(
                std::env::var_os(IN_VM).is_none(),
                "no RDMA fabric in the virtual machine: {error}"
            );
            // Not captured as `eprintln` would be.
            let _ = writeln!(std::io::stderr(), "skipped (scripts/rxe-vm.sh has devices): {error}");
            None
        }
    }
}

/// Patient enough for a virtual machine that is emulated on a busy host: seven times a second
/// without an acknowledgement.
pub(crate) fn patient() -> Config {
    Config { timeout: 18, ..Config::default() }
}
