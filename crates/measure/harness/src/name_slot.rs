//! Lanes: the numbers that make a run's names in the pool's catalogue unique. A run takes a lane at
//! its start and releases the lane with all names at its end.
//!
//! A cluster of processes outlives its runs, and its catalogue has room for a limited number of
//! names. So names end with the number of a lane, which later runs reuse, and not with the number
//! of a run. Each run takes the lowest lane that no other run has.
//!
//! ```text
//!   run.0 = 17        usertable.0        lane 0 is run 17's, with what is called so
//!   run.1 = 18        tpcc.1             lane 1 is run 18's, at the same time
//! ```
//!
//! With `survive`, a run frees at its start the lanes of runs whose nodes are all dead and
//! recovered, with their names. If it is alone in its cluster then, and no name is left, it also
//! frees all memory that earlier runs have left. Without `survive` the lane, the names and the
//! memory of a crashed run stay taken.

use std::time::Duration;

use latchwork_cluster::{ClusterError, JoinError, Joined, Member, is_free};
use latchwork_membership::{MembershipError, View, ViewMember};
use latchwork_memnode::{ClaimedChunks, ObjectKind, PoolError};

use crate::AppError;

/// The object kind of a lane's entry in the catalogue: the letters "run".
const RUN: ObjectKind = ObjectKind(0x6e_7572);

/// How long a run waits at its start for the recovery from earlier deaths.
const RECOVERY: Duration = Duration::from_secs(2);

/// The key in the contacts of the processes of a run that outlives them: the lane of the run.
pub(crate) const LANE: &str = "lane";

/// The lane in which this member works, if it has said so.
pub(crate) fn works_in(member: &ViewMember) -> Option<u64> {
    member.contact.get(LANE)?.parse().ok()
}

/// The catalogue name of the object `base` of the run that has this lane.
pub(crate) fn name(base: &str, lane: u64) -> String {
    format!("{base}.{lane}")
}

/// Takes the lowest lane that is free for the run of this node. No node of the run has allocated
/// memory yet. Fails if the catalogue is full.
pub(crate) fn take(node: &Joined) -> Result<u64, AppError> {
    let failed = |error: &dyn std::fmt::Display| {
        AppError::Failed(format!("this run cannot have names in the pool: {error}"))
    };
    let run = node.group().run();
    let survives = node.config().selcc.survive;
    if survives && let Err(error) = clean(node, run) {
        tracing::warn!(%error, "what earlier runs have left stays taken");
    }
    let taken = first_worker(node, async |member| first_free(&member, run).await);
    match taken.map_err(|error| failed(&error))? {
        Ok(lane) => Ok(lane),
        Err(error @ PoolError::CatalogueFull { .. }) => Err(failed(&format!(
            "{error}; runs that died keep theirs: begin a new cluster, under another name"
        ))),
        Err(error) => Err(failed(&error)),
    }
}

/// Runs `body` on the first worker of this node.
fn first_worker<T: Send>(
    node: &Joined,
    body: impl AsyncFn(Member) -> Result<T, PoolError> + Sync,
) -> Result<Result<T, PoolError>, JoinError> {
    let body = &body;
    let ends = node.run(async move |member| match member.worker {
        0 => Some(body(member).await),
        _ => None,
    })?;
    Ok(ends.into_iter().flatten().next().unwrap_or(Err(PoolError::NotFound {
        name: "a worker".to_owned(),
        waited: Duration::ZERO,
    })))
}

/// The lanes of runs whose nodes have all ended, and these runs.
fn ended(node: &Joined) -> Result<Vec<(u64, u64)>, JoinError> {
    let list = async |member: Member| member.catalogue.list(member.memory.port()).await;
    let all = first_worker(node, list)?.unwrap_or_default();
    let lane = |name: &str| name.strip_prefix("run.")?.parse::<u64>().ok();
    let is_recovered =
        |view: &View| view.dead().all(|dead| dead.node.compute().is_none() || is_free(view, dead));
    // A run that starts right after a death would find what the dead have as still in use.
    let membership = node.membership();
    let view = match membership.wait(RECOVERY, is_recovered) {
        Err(MembershipError::Deadline { .. }) => membership.view(),
        view => view?,
    };
    // A process that works along in the place of a dead one may be the last that uses the names.
    let is_used = |lane: u64| view.joined().any(|one| works_in(one) == Some(lane));
    let mut ended = Vec::new();
    for entry in all.into_iter().filter(|entry| entry.kind == RUN) {
        let Some(lane) = lane(&entry.name) else { continue };
        if !is_used(lane) && node.group().is_over(entry.value, &view)? {
            ended.push((lane, entry.value));
        }
    }
    Ok(ended)
}

async fn first_free(member: &Member, run: u64) -> Result<u64, PoolError> {
    let (catalogue, port) = (&member.catalogue, member.memory.port());
    for lane in 0.. {
        match catalogue.register(port, &name("run", lane), RUN, run).await {
            Ok(()) => return Ok(lane),
            Err(PoolError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the catalogue is full before")
}

/// Frees the lanes of the runs that have ended, with their names. Then frees all memory that these
/// runs have left, if no other run is in the cluster and no object in the catalogue.
fn clean(node: &Joined, run: u64) -> Result<(), JoinError> {
    let (ended, pool) = (&ended(node)?, node.node().allocator().pool());
    let freed = first_worker(node, async |member| {
        let (catalogue, port) = (&member.catalogue, member.memory.port());
        for &(lane, old) in ended {
            // The lane is this run's until its names are removed.
            let (own, rest) = (name("run", lane), name("", lane));
            let goes = |name: &str| name.ends_with(&rest) && name != own;
            if catalogue.replace(port, &own, (old, run), goes).await? {
                catalogue.remove(port, &own).await?;
            }
        }
        // Read before the view: a node that claims a chunk later is in no view before that.
        let claimed = ClaimedChunks::read(port, pool).await?;
        let is_empty = catalogue.list(port).await?.is_empty();
        if is_empty && node.group().is_alone(&node.membership().view()) {
            let freed = claimed.free(port, pool).await?;
            tracing::debug!(chunks = freed, "freed what earlier runs have left");
        }
        Ok(())
    });
    Ok(freed?.map_err(ClusterError::from)?)
}

/// Removes the names from the catalogue, then the lane's own entry. No node may use the named
/// objects afterwards.
pub(crate) fn release_name(node: &Joined, lane: u64, names: &[String]) -> Result<(), AppError> {
    let removed = first_worker(node, async |member| {
        for name in names.iter().chain([&name("run", lane)]) {
            member.catalogue.remove(member.memory.port(), name).await?;
        }
        Ok(())
    });
    let failed = |error: &dyn std::fmt::Display| {
        AppError::Failed(format!("the run's names in the pool cannot be removed: {error}"))
    };
    removed.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use latchwork_cluster::{ClusterConfig, MemoryHost, Transport, is_free};
    use latchwork_coherence::CoherentMemory as _;
    use latchwork_membership::{Joining, Membership, Role};
    use latchwork_verbs_shm::HugePages;

    use super::*;

    const LONG: Duration = Duration::from_secs(120);

    /// Runs of one process die, one after the other, with names and memory. The catalogue has 256
    /// names, and the pool 31 chunks of 126 lines. Another run lives until the last deaths.
    #[test]
    fn a_cluster_outlives_more_runs_than_it_has_names_and_chunks() {
        const DEATHS: u64 = 28;
        const ALONE: u64 = 4;
        const NAMES: u64 = 16;
        let directory = tempfile::TempDir::new().expect("a directory");
        let endpoint = format!("file:{}/test", directory.path().display());
        let shm = Some(directory.path().join("shm"));
        let transport = Transport::Shm { directory: shm, huge_pages: HugePages::Never };
        let mut config = ClusterConfig {
            compute_nodes: 1,
            memory_nodes: 1,
            workers: 1,
            memory_bytes: 2 << 20,
            cache_bytes: 64 << 10,
            chunk_size: 64 << 10,
            line_size: 512,
            ..ClusterConfig::default()
        };
        config.set("survive", "on").expect("a value");
        let join = |role| {
            let (store, cluster) = latchwork_membership::open(&endpoint).expect("a directory");
            let joining = Joining { ttl: LONG, reuse: Some(is_free), ..Joining::new(role) };
            Membership::join(store, &cluster, joining).expect("a free id")
        };
        let role = Role::Memory { bytes: config.memory_bytes, chip_bytes: 0 };
        let _memory = MemoryHost::start(&transport, join(role), false).expect("memory");
        let start = || {
            let joined = Joined::start(config.clone(), &transport, join(Role::Compute), LONG);
            joined.expect("it joins")
        };
        let mut other = Some(start());
        let other_lane = take(other.as_ref().expect("it lives")).expect("a lane");
        assert_eq!(other_lane, 0);
        let mut lanes = Vec::new();
        for death in 0..DEATHS {
            if death == DEATHS - ALONE {
                other = None;
            }
            let mortal = start();
            let lane = take(&mortal).expect("names that are free");
            lanes.push(lane);
            let allocated = first_worker(&mortal, async |member| {
                let (catalogue, port) = (&member.catalogue, member.memory.port());
                for number in 0..NAMES {
                    let name = name(&format!("table{number}"), lane);
                    // The value says which run it is of.
                    catalogue.register(port, &name, ObjectKind::TREE, 1000 + death).await?;
                }
                // While another run lives, nothing of a used chunk comes back.
                for _ in 0..if death < DEATHS - ALONE { 1 } else { 10 * 126 } {
                    member.memory.allocate().await.expect("room");
                }
                Ok(())
            });
            allocated.expect("no worker fails").expect("no name is there");
        }
        assert!(lanes.iter().all(|lane| *lane < 6), "lanes come back: {lanes:?}");
        assert!(other.is_none() && NAMES * DEATHS > 256, "more names than room");
    }
}
