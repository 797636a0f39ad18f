//! `cluster clean`: removes the files of killed processes, and no file of a living process.
//!
//! | leftovers | owner | the owner is alive if |
//! | --- | --- | --- |
//! | directories of runs, in `$TMPDIR` and `/dev/shm` | a `cluster run` that was killed together with its guard | the process in the directory's name lives |
//! | files in `/dev/shm/latchwork` and in `shm-dir` | nodes that share memory | a process holds the lock of the owner's file |

use std::path::Path;

use latchwork_cluster::SHARED_DIRECTORY;
use latchwork_harness::AppError;
use latchwork_harness::outcome::{many, tell as tell_result};
use latchwork_verbs_shm::{Cleaned, ShmError, ShmFabric};

use crate::args::Clean;
use crate::guard::{self, Left};
use crate::tell;

/// Removes all leftovers that this user may remove. The status says whether any remain.
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
        match ShmFabric::clean(directory) {
            Ok(Cleaned { files, bytes, foreign, foreign_user }) => {
                let place = directory.display();
                if files > 0 {
                    let mib = bytes as f64 / (1 << 20) as f64;
                    let files = many(files as usize, "file");
                    text += &format!(
                        "removed {files} ({mib:.1} MiB) in {place}: their processes have ended\n"
                    );
                }
                if let Some(user) = foreign_user {
                    problems += 1;
                    let files = many(foreign as usize, "file");
                    tell(&format!(
                        "cluster: {place}: {files} of other users stay, as of the user with id {user}; they \
                         run `cluster clean` themselves"
                    ));
                }
                // Programs create the directory on demand. The call fails for a directory in use,
                // because that directory has files in it.
                if std::fs::remove_dir(directory).is_ok() {
                    text += &format!("removed {place}: it was empty\n");
                }
            }
            Err(ShmError::OtherUser { path, owner, .. }) => {
                problems += 1;
                tell(&format!(
                    "cluster: {}: it belongs to the user with id {owner}, and stays; that user runs \
                     `cluster clean`, and others name a directory of their own with --set shm-dir",
                    path.display()
                ));
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
