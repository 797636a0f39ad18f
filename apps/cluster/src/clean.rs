//! `cluster clean`: removes what killed processes have left, and nothing that a living process has.
//!
//! | what | whose it is | how a living owner is known |
//! | --- | --- | --- |
//! | directories of runs, in `$TMPDIR` and `/dev/shm` | a `cluster run` that was killed together with its guard | the process in the directory's name lives |
//! | files in `/dev/shm/latchwork` and in `--shm-dir` | nodes that share memory | it holds the lock of its owner's file |

use std::path::Path;

use latchwork_cluster::SHARED_DIRECTORY;
use latchwork_harness::AppError;
use latchwork_harness::outcome::{many, tell as tell_result};
use latchwork_verbs_shm::{Cleaned, Fabric};

use crate::args::Clean;
use crate::guard::{self, Left};
use crate::tell;

/// Removes all of it, as far as this user may; the status says whether that was all.
pub(crate) fn command(clean: &Clean) -> Result<u8, AppError> {
    let mut text = String::new();
    let mut problems = 0;
    for Left { directory, removed: outcome, .. } in guard::sweep_all() {
        match outcome {
            Ok(()) => {
                text += &format!("removed {}: the run was killed\n", directory.display());
            }
            Err(error) => {
                problems += 1;
                tell(&format!("cluster: {}: {error}", directory.display()));
            }
        }
    }
    let given = clean.shm_dir.iter().map(|path| path.as_path());
    for directory in std::iter::once(Path::new(SHARED_DIRECTORY)).chain(given) {
        match Fabric::clean(directory) {
            Ok(Cleaned { files: 0, .. }) => {}
            Ok(Cleaned { files, bytes }) => {
                let (files, mib) = (many(files as usize, "file"), bytes as f64 / (1 << 20) as f64);
                let place = directory.display();
                text += &format!(
                    "removed {files} ({mib:.1} MiB) in {place}: their processes have ended\n"
                );
            }
            Err(error) => {
                problems += 1;
                tell(&format!("cluster: {error}"));
            }
        }
    }
    if text.is_empty() && problems == 0 {
        text += "nothing is left of processes that were killed\n";
    }
    tell_result(None, |out| write!(out, "{text}"))?;
    Ok(u8::from(problems > 0))
}
