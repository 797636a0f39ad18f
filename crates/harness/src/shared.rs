//! [`Shared`]: one process's part in a program that many processes run together.

use std::time::Duration;

use latchwork_cluster::{ClusterConfig, JoinError, Joined, Member};
use latchwork_membership::Role;
use latchwork_runtime::sync::{AtomicU64, Ordering};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{AppError, ClusterFlags, JoinChoice, loss};

/// How much longer than this one another process may take to come to the end of a phase. One that has died is noticed
/// at once.
const LATE: Duration = Duration::from_secs(600);

/// A node that joined, and the results that went around so far.
pub struct Shared {
    node: Joined,
    gathered: AtomicU64,
}

impl Shared {
    pub(crate) fn join(mut config: ClusterConfig, join: &JoinChoice) -> Result<Shared, AppError> {
        let (membership, transport) = join.join(Role::Compute)?;
        // How much the memory nodes have is theirs to say.
        let view = membership.view();
        let bytes = view.memory().filter_map(|member| match member.role {
            Role::Memory { bytes } => Some(bytes),
            Role::Compute => None,
        });
        config.memory_bytes = bytes.min().unwrap_or(config.memory_bytes);
        let told = config.clone();
        let node = Joined::start(config, &transport, membership, join.wait());
        let node = node.map_err(|error| join_error(&told, &error))?;
        Ok(Shared { node, gathered: AtomicU64::new(0) })
    }

    /// This process's node.
    pub fn node(&self) -> &Joined {
        &self.node
    }

    /// Runs `body` on this process's workers, and gives their results.
    pub(crate) fn run<T, F, Fut>(&self, body: F) -> Result<Vec<T>, AppError>
    where
        T: Send,
        F: Fn(Member) -> Fut + Sync,
        Fut: Future<Output = T>,
    {
        self.node.run(body).map_err(|error| join_error(self.node.config(), &error))
    }

    pub(crate) fn is_first(&self) -> bool {
        self.node.group().rank() == 0
    }

    pub(crate) fn process(&self) -> (usize, usize) {
        (self.node.group().rank(), self.node.group().nodes().len())
    }

    /// Runs `body`; `fail` hears of it when a node is gone meanwhile.
    pub(crate) fn watch<T>(&self, fail: impl Fn(AppError) + Send, body: impl FnOnce() -> T) -> T {
        loss::watch(self.node.membership(), self.node.group(), fail, body)
    }

    /// Tells the others what came of something here, and waits for what came of it there: all of it by the places of the
    /// processes, or the first error.
    pub(crate) fn gather<T: Serialize + DeserializeOwned>(
        &self,
        own: Result<Vec<T>, AppError>,
    ) -> Result<Vec<T>, AppError> {
        let number = self.gathered.fetch_add(1, Ordering::Relaxed);
        let told = own.as_ref().map_err(|error| (error.status(), error.to_string()));
        let failed = |error: &dyn std::fmt::Display| {
            AppError::Failed(format!("the results of other nodes cannot be had: {error}"))
        };
        let bytes = postcard::to_stdvec(&told).map_err(|error| failed(&error))?;
        let group = self.node.group();
        let all = group.exchange(&format!("results-{number}"), &bytes, LATE);
        // Where a node is gone, all else is what came of that.
        if all.is_err()
            && let Some(lost) = loss::lost_lately(self.node.membership(), group)
        {
            return Err(lost);
        }
        // What happened here says more than what became of the others.
        own?;
        let all = all.map_err(|error| failed(&error))?;
        let mut gathered = Vec::new();
        for (node, bytes) in group.nodes().iter().zip(all) {
            let told: Result<Vec<T>, (u8, String)> =
                postcard::from_bytes(&bytes).map_err(|error| failed(&error))?;
            // All end with the same status.
            gathered.extend(told.map_err(|(status, error)| match status {
                2 => AppError::Usage(format!("node {node}: {error}")),
                _ => AppError::Failed(format!("node {node}: {error}")),
            })?);
        }
        Ok(gathered)
    }

    pub(crate) fn leave(self) -> Result<(), AppError> {
        // Nobody goes while another may still want a line.
        self.gather(Ok(vec![()]))?;
        let config = self.node.config().clone();
        self.node.leave().map_err(|error| {
            AppError::Failed(format!(
                "the node could not leave in order: {}",
                join_error(&config, &error)
            ))
        })
    }
}

/// Why a process cannot be a node of such a cluster, with the flag that would help.
pub(crate) fn join_error(config: &ClusterConfig, error: &JoinError) -> AppError {
    match error {
        JoinError::Cluster(error) => ClusterFlags::cluster_error(config, error),
        error => AppError::Failed(error.to_string()),
    }
}
