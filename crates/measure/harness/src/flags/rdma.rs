//! [`RdmaFlags`]: the flags for RDMA devices.

use clap::Args;
use latchwork_verbs_ibv::IbvConfig;

use super::kind::FabricKind;
use crate::error::FlagError;

/// Flags of RDMA devices.
#[derive(Clone, Debug, Default, Args)]
pub struct RdmaFlags {
    /// An RDMA device, by its name in `ibv_devices`. A process that joins others uses one of them,
    /// by its node's id. [default: all there are]
    #[arg(long, global = true, value_name = "NAME", hide = true, help_heading = "Settings: RDMA")]
    pub device: Vec<String>,
    /// The number of the address (GID) of the devices' ports. [default: routable RoCE, on IPv4
    /// where there is that]
    #[arg(long, global = true, value_name = "N", value_parser = crate::parse::whole(0..=u8::MAX), hide = true, help_heading = "Settings: RDMA")]
    pub gid_index: Option<u8>,
    /// How long no acknowledgement may come until a connection counts as failed: seven times as
    /// long as one is waited for.
    #[arg(long, global = true, value_name = "SECONDS", default_value = "1.8s", value_parser = crate::parse::seconds_f64, hide = true, help_heading = "Settings: RDMA")]
    pub rdma_timeout: f64,
}

impl RdmaFlags {
    /// The configuration of the devices.
    ///
    /// # Errors
    /// When a flag of RDMA devices is given with another fabric.
    pub fn config(&self, kind: FabricKind) -> Result<IbvConfig, FlagError> {
        let flag = match (&self.device[..], self.gid_index) {
            ([name, ..], _) => Some(format!("--set device={name}")),
            ([], Some(index)) => Some(format!("--set gid-index={index}")),
            ([], None) => None,
        };
        if let Some(flag) = flag.filter(|_| kind != FabricKind::Ibverbs) {
            return Err(FlagError(format!("{flag}: there are devices with --fabric ibverbs only")));
        }
        let timeout = exponent(self.rdma_timeout);
        Ok(IbvConfig {
            devices: self.device.clone(),
            gid_index: self.gid_index,
            timeout,
            ..IbvConfig::default()
        })
    }
}

/// The timeout as devices take it. A device waits 4.096 us times 2^n for an acknowledgement, and
/// sends seven times. The result is the smallest n, from 1 to 31, with which seven waits take at
/// least `seconds`.
fn exponent(seconds: f64) -> u8 {
    let one = seconds / 7.0 / 4.096e-6;
    one.log2().ceil().clamp(1.0, 31.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_what_devices_know() {
        for (seconds, power) in [(1e-9, 1), (0.9, 15), (1.87, 16), (1.89, 17), (2.0, 17), (1e9, 31)]
        {
            assert_eq!(exponent(seconds), power, "{seconds}");
        }
    }

    #[test]
    fn devices_of_another_fabric_are_refused_in_a_line() {
        let flags = RdmaFlags { rdma_timeout: 1.8, ..RdmaFlags::default() };
        assert!(flags.config(FabricKind::Shm).is_ok());
        let named =
            RdmaFlags { device: vec!["mlx5_0".to_owned(), "mlx5_1".to_owned()], ..flags.clone() };
        let error = named.config(FabricKind::Tcp).expect_err("sockets need none").to_string();
        assert!(error.starts_with("--set device=mlx5_0: ") && !error.contains('\n'), "{error}");
        let config = named.config(FabricKind::Ibverbs).expect("devices");
        assert_eq!((config.devices.len(), config.timeout), (2, 16));
        let indexed = RdmaFlags { gid_index: Some(3), ..flags };
        assert!(indexed.config(FabricKind::Sim).is_err());
        assert_eq!(indexed.config(FabricKind::Ibverbs).expect("devices").gid_index, Some(3));
    }
}
