//! [`MemoryAgent`]: the agent of a memory node, in the process of the memory node.
//!
//! ```text
//!   a compute node joins with gam ──► arena, inbox ──► the pool is formatted ──► handler ──► contact
//! ```
//!
//! A memory node has no setting for the protocol, nor for its homes. It needs an agent when a
//! compute node joins whose protocol has homes, and has the settings of that node. It reads the
//! size of lines in the pool.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_engine::{NodeParts, NodeSettings};
use latchwork_fabric::AnyFabric;
use latchwork_membership::{Membership, MembershipError};
use latchwork_memnode::{Epochs, LineAllocator, Pool, PoolSettings};
use latchwork_runtime::sync::{AtomicBool, Ordering};
use latchwork_runtime::{Clock, Executor, RealDriver};
use latchwork_verbs::MemoryNodeId;

use crate::build::worker_config;
use crate::host::Host;
use crate::joined::{Introductions, agents};
use crate::ports::Ports;
use crate::protocol::{agent, new_agent};
use crate::transport::Link;
use crate::{ClusterConfig, JoinError};

/// The longest wait for a change of the view.
const LOOK: Duration = Duration::from_millis(100);

/// The interval between two checks whether the pool is formatted.
const FORMATTED: Duration = Duration::from_millis(5);

/// The agent of a memory node, from the time when a compute node needs it. Dropping the value ends
/// the agent.
pub(crate) struct MemoryAgent {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Option<Host>>>,
}

impl MemoryAgent {
    /// Starts a thread that waits for a compute node whose protocol has homes, and then starts the
    /// agent.
    pub(crate) fn start(
        memory: MemoryNodeId,
        membership: &Membership,
        link: &Link,
        introductions: &Arc<Introductions>,
    ) -> Result<MemoryAgent, JoinError> {
        let stop = Arc::new(AtomicBool::new(false));
        let start = Start {
            memory,
            membership: membership.clone(),
            link: link.clone(),
            introductions: introductions.clone(),
            stop: stop.clone(),
        };
        let thread = thread::Builder::new().name("agent".to_owned()).spawn(move || start.run())?;
        Ok(MemoryAgent { stop, thread: Some(thread) })
    }
}

impl Drop for MemoryAgent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The panic of the thread was already printed on standard error.
            let _ = thread.join();
        }
    }
}

/// What the thread needs to start the agent.
struct Start {
    memory: MemoryNodeId,
    membership: Membership,
    link: Link,
    introductions: Arc<Introductions>,
    stop: Arc<AtomicBool>,
}

impl Start {
    fn run(self) -> Option<Host> {
        let terms = self.terms()?;
        match self.begin(&terms) {
            Ok(host) => host,
            Err(error) => {
                tracing::warn!(protocol = terms, %error, "this memory node has no agent");
                None
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The terms that need an agent, or `None` at the end of the process.
    fn terms(&self) -> Option<String> {
        while !self.is_stopped() {
            match self.membership.wait(LOOK, |view| agents::wanted(view).is_some()) {
                Ok(view) => return agents::wanted(&view),
                Err(MembershipError::Deadline { .. }) => {}
                // Without a valid lease the call fails at once, so the thread pauses here.
                Err(_) => thread::park_timeout(LOOK),
            }
        }
        None
    }

    fn begin(&self, terms: &str) -> Result<Option<Host>, JoinError> {
        let Some(config) = agents::config_of(terms) else { return Ok(None) };
        let protocol = config.protocol;
        let Start { memory, membership, link, introductions, .. } = self;
        let no_id = JoinError::NoIdForAgent { node: membership.me().node };
        if let Some(error) = agents::without_id(&membership.view()) {
            return Err(error);
        }
        let id = agent(*memory).ok_or(no_id)?;
        link.check_protocol(protocol)?;
        link.add_agent(id)?;
        let threaded = link.threaded();
        let fabric = AnyFabric::from(threaded.clone());
        let arena = fabric.memory(*memory).expect("the memory node of this process");
        // The memory is registered before any port registers its own memory, like a cache, so that
        // its key is that of all arenas.
        let arena = fabric.register(id, arena)?;
        let ports = Ports::leased(threaded, membership.lease());
        let own = worker_config(&config, usize::MAX);
        let mut executor = Executor::new(RealDriver::new(), own);
        let handle = executor.handle();
        let port = ports.port(id, &handle)?;
        handle.add_poller(port.poller());
        let pool = loop {
            match executor.block_on(Pool::join(&port)) {
                Ok(pool) => break pool,
                Err(_) if self.is_stopped() => return Ok(None),
                Err(error) => tracing::debug!(%error, "the agent waits for the pool"),
            }
            thread::park_timeout(FORMATTED);
        };
        let epochs =
            executor.block_on(Epochs::register(&pool, &port, id, PoolSettings::default()))?;
        let geometry = pool.geometry();
        let line_size = geometry.line_size();
        let parts = NodeParts {
            id,
            // An agent uses no frame.
            cache: Cache::with_frames(config.frames_min(), line_size as usize)?,
            arena,
            geometry,
            allocator: LineAllocator::new(&epochs),
            epochs,
            settings: NodeSettings::default(),
        };
        let Some((agent, _)) = new_agent(parts, protocol, config.directory_changes(), false) else {
            return Ok(None);
        };
        drop((executor, port, handle));
        let config = ClusterConfig { line_size, ..config };
        let nodes = (Vec::new(), 0);
        let agents = vec![agent.clone()];
        let host = Host::start(config, Clock::start(), ports.clone(), pool, nodes, agents)?;
        introductions.serve(&agent, &ports);
        // A compute node that reads this contact sends requests, so the handler has begun before.
        let address = link.contact(latchwork_membership::NodeName::Compute(id))?;
        let (key, value) = agents::contact_of(terms, &address);
        membership.contact(key, &value)?;
        tracing::info!(protocol = terms, agent = id.get(), "the agent of this memory node serves");
        Ok(Some(host))
    }
}
