//! The flags that all programs share.

mod cluster;
mod fabric;
mod files;
mod join;
mod kind;
mod rdma;
mod settings;

pub use cluster::ClusterFlags;
pub use fabric::{FabricChoice, FabricFlags, NicChoice};
pub use files::{directory_to_write, output, write, write_file};
pub use join::{JoinChoice, JoinFlags};
pub use kind::FabricKind;
pub use rdma::RdmaFlags;
pub use settings::SettingFlags;
pub(crate) use settings::is_of_homes;

use std::path::PathBuf;

use clap::Args;
use latchwork_files::{Named, Output};

use crate::error::FlagError;

/// Where results go.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputFlags {
    /// Write one result document in JSON; - is standard output.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
}

impl OutputFlags {
    /// The files that these flags name.
    pub fn files(&self) -> impl Iterator<Item = Named> {
        self.json.iter().map(|path| Named::written("--json", path))
    }

    /// The output for the result document, if `--json` names one.
    ///
    /// # Errors
    /// When the path cannot be written. The check is before the run, so that a wrong path does not
    /// cost a long run.
    pub fn destination(&self) -> Result<Option<Output>, FlagError> {
        self.json.as_deref().map(|path| output("--json", path)).transpose()
    }
}
