//! The threads of a process's agents. These threads also make the connections of the process's
//! endpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use latchwork_strict::{strict_assert, strict_assert_eq};
use tokio::runtime::{Builder as RuntimeBuilder, Handle};
use tokio::sync::Notify;

use crate::error::TcpError;

/// The threads, each with a single-threaded `tokio` runtime. A connection stays on its thread. A
/// thread without work sleeps.
pub(crate) struct Threads {
    handles: Vec<Handle>,
    threads: Vec<(Arc<Notify>, JoinHandle<()>)>,
}

/// Returns the threads in turn. Tasks on the threads may have a clone.
#[derive(Clone)]
pub(crate) struct Turns {
    handles: Arc<[Handle]>,
    next: Arc<AtomicUsize>,
}

impl Turns {
    pub(crate) fn next(&self) -> &Handle {
        &self.handles[self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len()]
    }
}

impl Threads {
    pub(crate) fn start(count: usize) -> Result<Self, TcpError> {
        let mut started = Threads { handles: Vec::new(), threads: Vec::new() };
        for number in 0..count.max(1) {
            let failed = |error: std::io::Error| TcpError::Thread { why: error.to_string() };
            let runtime = RuntimeBuilder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(failed)?;
            started.handles.push(runtime.handle().clone());
            let stop = Arc::new(Notify::new());
            let stopped = Arc::clone(&stop);
            // When the notification comes, the thread drops the runtime and, with it, all
            // connections of the thread.
            let body = move || runtime.block_on(stopped.notified());
            let thread = Builder::new().name(format!("tcp-agent-{number}")).spawn(body);
            started.threads.push((stop, thread.map_err(failed)?));
        }
        strict_assert!(!started.handles.is_empty(), "an agent without a thread");
        strict_assert_eq!(started.handles.len(), started.threads.len());
        Ok(started)
    }

    pub(crate) fn turns(&self) -> Turns {
        Turns { handles: self.handles.as_slice().into(), next: Arc::default() }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // If a thread does not wait yet, the notification is stored for it.
        self.threads.iter().for_each(|(stop, _)| stop.notify_one());
        for (_, thread) in self.threads.drain(..) {
            // The result is not needed: a panic of a task has already been reported.
            let _ = thread.join();
        }
    }
}
