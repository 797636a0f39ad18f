//! Phases. In a phase all workers open a database, work with it, and close it. [`with_open`] is the
//! part of one worker, and [`Instance::run`] runs the phase on all workers.

use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::{ClusterError, Embedded, Member, Simulated};

use crate::caught::caught;
use crate::{DatabaseOpenError, Instance, Opened};

/// Opens several instances on one worker, in their order, runs `body` with them, and closes them.
/// Every worker of the instances calls this function at the same time, after the program has called
/// [`Instance::begin`] once for each instance. [`Instance::run`] does both for one instance.
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
    // The worker also closes after an error, because the other workers close only together with it.
    // Each instance has a log. An error of one instance does not keep the log of another one open.
    let mut closed = Ok(());
    for one in opened.into_iter().rev() {
        closed = closed.and(one.close().await);
    }
    let result = end?;
    closed?;
    Ok(result)
}

/// Runs a body. If the body panics, the instances fail, so that other workers do not wait for this
/// worker.
async fn guarded<T>(
    instances: &[Instance],
    member: &Member,
    body: impl Future<Output = T>,
) -> Result<T, DatabaseOpenError> {
    let name = member.name();
    // A panic of a task that the body has spawned ends the thread. The end of the thread drops this
    // future, and its guards make the instances fail.
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

impl Instance {
    /// Opens the database on every worker of the cluster, runs `body` there, and closes it. Returns
    /// the results in the order of the workers. A program may call `run` again for another phase.
    ///
    /// # Errors
    /// Those of [`begin`](Instance::begin), [`open`](Instance::open) and [`Opened::close`]. Of
    /// several errors the result is an original one, not one that follows from it. No worker starts
    /// if the instance was begun on another cluster, or if an opening has failed. A panic is
    /// [`ClusterError::Panicked`]; then the instance stays failed, and the program must discard the
    /// cluster.
    pub fn run<T, F, Fut>(&self, cluster: &Embedded, body: F) -> Result<Vec<T>, DatabaseOpenError>
    where
        T: Send,
        F: Fn(Opened) -> Fut + Sync,
        Fut: Future<Output = T>,
    {
        self.begin(cluster.nodes())?;
        let body = &body;
        let ends = cluster.run(async |member| {
            let one = std::slice::from_ref(self);
            with_open(one, &member, async |opened| body(opened[0].clone()).await).await
        });
        first_error(ends.map_err(|error| self.0.failed(error.into()))?)
    }

    /// Like [`run`](Instance::run), in a simulated world, for at most `limit` of virtual time.
    ///
    /// # Errors
    /// As [`run`](Instance::run).
    pub fn run_simulated<T, F, Fut>(
        &self,
        cluster: &Simulated,
        limit: Duration,
        body: F,
    ) -> Result<Vec<T>, DatabaseOpenError>
    where
        T: 'static,
        F: Fn(Opened) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
    {
        self.begin(cluster.nodes())?;
        let (instance, body) = (self.clone(), Rc::new(body));
        let ends =
            cluster.run(limit, move |member| {
                let (one, body) = ([instance.clone()], body.clone());
                async move {
                    with_open(&one, &member, async |opened| body(opened[0].clone()).await).await
                }
            })?;
        first_error(ends)
    }
}

/// The results, or an original error. [`DatabaseOpenError::Elsewhere`] is returned only if there is
/// no other error.
fn first_error<T>(ends: Vec<Result<T, DatabaseOpenError>>) -> Result<Vec<T>, DatabaseOpenError> {
    let (mut results, mut first) = (Vec::new(), None);
    for end in ends {
        match end {
            Ok(result) => results.push(result),
            Err(error @ DatabaseOpenError::Elsewhere { .. }) => first = first.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    first.map_or(Ok(results), Err)
}
