//! What workers of all programs do: they open an object by its name, and run several tasks.

use std::fmt::Display;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_memnode::{ObjectKind, PoolError};
use latchwork_runtime::Handle;
use latchwork_verbs::GlobalAddr;

use crate::{AppError, stop};

/// The longest time that workers wait for the worker that makes an object.
const WAIT: Duration = Duration::from_secs(30);
/// The time of one attempt to find an object.
const LOOK: Duration = Duration::from_millis(100);

/// Opens the object of this name and kind on a worker. The first worker makes the object if there
/// is none, with its address. `what` is the object's noun, for errors.
///
/// # Errors
/// Those of `make` and `open`; when the catalogue fails, or the first worker makes no object.
pub async fn named<T>(
    member: &Member,
    (what, name): (&str, &str),
    kind: ObjectKind,
    make: impl AsyncFnOnce() -> Result<(T, GlobalAddr), AppError>,
    open: impl AsyncFnOnce(GlobalAddr) -> Result<T, AppError>,
) -> Result<T, AppError> {
    let (port, handle) = (member.memory.port(), &member.handle);
    let failed =
        |error: &dyn Display| AppError::Failed(format!("{what} {name} cannot be opened: {error}"));
    let known = member.catalogue.lookup(port, name).await.map_err(|error| failed(&error))?;
    if member.index == 0 && known.is_none() {
        let (made, address) = make().await?;
        let named = member.catalogue.register(port, name, kind, address.bits()).await;
        named.map_err(|error| failed(&error))?;
        return Ok(made);
    }
    let deadline = handle.now() + WAIT;
    let entry = loop {
        let look = deadline.min(handle.now() + LOOK);
        match member.catalogue.wait_for(port, handle, name, look).await {
            // The first worker may have failed, so the wait also ends with the run.
            Err(PoolError::NotFound { .. }) if look < deadline && !stop::is_aborted() => {}
            entry => break entry,
        }
    };
    open(GlobalAddr::from_bits(entry.map_err(|error| failed(&error))?.value)).await
}

/// Runs a task of a worker for each item, all at the same time. Returns what they share when all
/// have ended. A task that fails ends the phase itself.
///
/// # Errors
/// When a task was lost.
pub async fn tasks<S, I, Fut>(
    handle: &Handle,
    shared: Rc<S>,
    items: impl IntoIterator<Item = I>,
    task: impl Fn(Rc<S>, I) -> Fut,
) -> Result<S, AppError>
where
    Fut: Future<Output = ()> + 'static,
{
    let spawn = |item| handle.spawn(task(shared.clone(), item));
    let tasks: Vec<_> = items.into_iter().map(spawn).collect();
    for task in tasks {
        task.await.map_err(|_| AppError::lost())?;
    }
    Rc::into_inner(shared).ok_or_else(AppError::lost)
}
