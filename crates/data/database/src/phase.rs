//! [`with_open`]: one worker's part of a phase.

use latchwork_cluster::{ClusterError, Member};

use crate::caught::caught;
use crate::{DatabaseOpenError, Instance, Opened};

/// Opens several instances on one worker, in their order, runs `body` with them, and closes them.
/// Every worker of the instances does this at the same time, after one of the program's threads has
/// called [`Instance::begin`]. [`Instance::run`] does both for one instance.
///
/// # Errors
/// Those of [`Instance::open`] and [`Opened::close`]. A panic of `body` is
/// [`ClusterError::Panicked`], and then the instances stay failed.
pub async fn with_open<T>(
    instances: &[Instance],
    member: &Member,
    body: impl AsyncFnOnce(&[Opened]) -> T,
) -> Result<T, DatabaseOpenError> {
    let mut opened = Vec::new();
    let mut end = Ok(());
    for instance in instances {
        match instance.open(member).await {
            Ok(one) => opened.push(one),
            Err(error) => {
                end = Err(error);
                break;
            }
        }
    }
    let end = match end {
        Ok(()) => guarded(instances, member, body(&opened)).await,
        Err(error) => Err(error),
    };
    // The worker also closes after an error or a panic, because other workers wait for it. An error
    // of one log does not keep another log open.
    let mut closed = Ok(());
    for one in opened.into_iter().rev() {
        closed = closed.and(one.close().await);
    }
    let result = end?;
    closed?;
    Ok(result)
}

/// Runs a body. If it panics, the instances fail, so that other workers do not wait for its part.
async fn guarded<T>(
    instances: &[Instance],
    member: &Member,
    body: impl Future<Output = T>,
) -> Result<T, DatabaseOpenError> {
    let name = member.name();
    // A panic of a task that the body has spawned ends the thread, and drops this future with the
    // guards.
    let what = || format!("{name} panicked");
    let guards: Vec<_> = instances.iter().map(|one| one.0.steps.guard(what)).collect();
    let end = caught(body).await;
    guards.into_iter().for_each(|guard| guard.lift());
    end.map_err(|payload| {
        let error = DatabaseOpenError::from(ClusterError::panicked(name.clone(), &*payload));
        instances.iter().for_each(|instance| instance.0.steps.fail(&error));
        error
    })
}
