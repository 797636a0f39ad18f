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
//! The resources of a crashed run (lane, names and memory) are not reclaimed.

use latchwork_cluster::{Joined, Member};
use latchwork_memnode::{ObjectKind, PoolError};

use crate::AppError;

/// The object kind of a lane's entry in the catalogue: the letters "run".
const RUN: ObjectKind = ObjectKind(0x6e_7572);

/// The catalogue name of the object `base` of the run that has this lane.
pub(crate) fn name(base: &str, lane: u64) -> String {
    format!("{base}.{lane}")
}

/// Takes the lowest free lane for the run of this node. Fails if the catalogue is full.
pub(crate) fn take(node: &Joined) -> Result<u64, AppError> {
    let run = node.group().run();
    let taken = node.run(move |member| async move {
        if member.worker > 0 { Ok(None) } else { first_free(&member, run).await.map(Some) }
    });
    let failed = |error: &dyn std::fmt::Display| {
        AppError::Failed(format!("this run cannot have names in the pool: {error}"))
    };
    let taken: Result<Vec<_>, PoolError> =
        taken.map_err(|error| failed(&error))?.into_iter().collect();
    match taken {
        Ok(taken) => taken.into_iter().flatten().next().ok_or_else(|| failed(&"it has no worker")),
        Err(error @ PoolError::CatalogueFull { .. }) => Err(failed(&format!(
            "{error}; runs that died keep theirs: begin a new cluster, under another name"
        ))),
        Err(error) => Err(failed(&error)),
    }
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

/// Removes the names from the catalogue, then the lane's own entry. No node may use the named
/// objects afterwards.
pub(crate) fn release_name(node: &Joined, lane: u64, names: &[String]) -> Result<(), AppError> {
    let removed = node.run(|member| async move {
        let port = member.memory.port();
        for name in names.iter().chain([&name("run", lane)]).filter(|_| member.worker == 0) {
            member.catalogue.remove(port, name).await?;
        }
        Ok::<(), PoolError>(())
    });
    let failed = |error: &dyn std::fmt::Display| {
        AppError::Failed(format!("the run's names in the pool cannot be removed: {error}"))
    };
    let removed = removed.map_err(|error| failed(&error))?;
    removed.into_iter().try_for_each(|end| end.map_err(|error| failed(&error)))
}
