//! What stays the same through all phases of one run of the program.

use crate::about::About;
use crate::log::{self, Logs};
use crate::settings::Settings;
use crate::tables::{Store, Tables};
use crate::transactions::Failure;
use latchwork_cluster::Member;
use latchwork_coherence::MemoryError;
use latchwork_harness::outcome::{many, say, say_folded};
use latchwork_harness::{AppError, ClusterFlags, Phase};
use latchwork_memnode::ObjectKind;
use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_selcc::Worker;
use latchwork_txn::{Database, DatabaseId, Health, NodeId, TxnError};
use latchwork_verbs::GlobalAddr;
use latchwork_wal::Stats;
use std::sync::Arc;
use std::time::Duration;

/// What kind of object a database is in the catalogue.
const DATABASE: ObjectKind = ObjectKind(2);

/// How the database is named there; where the cluster outlasts the run, that and the run.
pub(crate) const NAME: &str = "tpcc";

/// How long workers wait for the one that makes what they need, and how often they look.
const WAIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_micros(100);

/// The settings, and what the workers of each compute node share.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    /// The database's name in the catalogue.
    name: String,
    nodes: Vec<Place>,
}

/// Whether what is done in a phase is in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Logged {
    /// It is, if there is one.
    Yes,
    No,
}

/// A compute node's part in a phase.
#[derive(Default)]
struct Place {
    node: Mutex<Option<Arc<latchwork_txn::Node>>>,
    /// Workers that have ended.
    ended: AtomicUsize,
}

impl Session {
    pub(crate) fn new(settings: Settings, name: String) -> Session {
        let nodes = (0..settings.cluster.compute_nodes).map(|_| Place::default()).collect();
        Session { settings, name, nodes }
    }

    /// Begins a phase. Where a log is simulated, which a worker writes who ends with the phase, its nodes are made anew.
    pub(crate) fn begin_phase(&self) {
        let simulated = self.settings.logs.as_ref().is_some_and(Logs::is_simulated);
        for place in &self.nodes {
            if simulated {
                *place.node.lock() = None;
            }
            place.ended.store(0, Ordering::Relaxed);
        }
    }

    /// What a worker shares with the others of its compute node, of which the first makes it.
    async fn node(
        &self,
        phase: &Phase,
        member: &Member,
        logged: Logged,
    ) -> Result<Arc<latchwork_txn::Node>, AppError> {
        let place = &self.nodes[member.node];
        if member.worker == 0 && place.node.lock().is_none() {
            // At most 58 compute nodes, and 0 to 63 draw timestamps.
            let id = NodeId(member.node as u8);
            // A log in files is of all phases.
            let logs = self.settings.logs.as_ref();
            let logs = logs.filter(|logs| logged == Logged::Yes || !logs.is_simulated());
            let log = logs.map(|logs| logs.start(id, &member.handle)).transpose()?.flatten();
            let node = latchwork_txn::Node::new(id, log, self.settings.txn.clone());
            *place.node.lock() = Some(node);
        }
        let deadline = member.handle.now() + WAIT;
        loop {
            let node = place.node.lock().clone();
            if let Some(node) = node {
                return Ok(node);
            }
            if phase.stopped() || member.handle.now() >= deadline {
                let number = member.node + 1;
                return Err(AppError::Failed(format!(
                    "the first worker of compute node {number} did not come up within {WAIT:?}"
                )));
            }
            member.handle.sleep(LOOK).await;
        }
    }

    /// Ends a worker's part in a phase. The first of a node stays until the others have ended, since it may be the one
    /// that writes their log, and sees to it that all of it is written.
    pub(crate) async fn end_phase(&self, phase: &Phase, member: &Member) -> Result<(), AppError> {
        let place = &self.nodes[member.node];
        place.ended.fetch_add(1, Ordering::Release);
        let log = place.node.lock().as_ref().and_then(|node| node.log().cloned());
        let Some(log) = log.filter(|_| member.worker == 0) else { return Ok(()) };
        let deadline = member.handle.now() + WAIT;
        while place.ended.load(Ordering::Acquire) < self.settings.cluster.workers
            && !phase.stopped()
            && member.handle.now() < deadline
        {
            member.handle.sleep(LOOK).await;
        }
        let flushed = log.flush(&member.handle, member.handle.now() + WAIT).await;
        flushed.map_err(|error| log::failed(&error))
    }

    /// What the logs of this process have done so far; nothing without any.
    pub(crate) fn log_stats(&self) -> Option<Stats> {
        let stats = |place: &Place| Some(place.node.lock().as_ref()?.log()?.stats());
        let logs = self.settings.logs.as_ref().filter(|logs| logs.are_written());
        logs.map(|_| log::sum(self.nodes.iter().filter_map(stats)))
    }

    /// The compute nodes of this process that have come up in this phase.
    pub(crate) fn nodes(&self) -> Vec<Arc<latchwork_txn::Node>> {
        self.nodes.iter().filter_map(|place| place.node.lock().clone()).collect()
    }

    /// What went wrong on compute nodes of this process in this phase without anybody being told, by their number from 1.
    pub(crate) fn health(&self) -> Vec<(usize, Health)> {
        let health = |place: &Place| place.node.lock().as_ref().map(|node| node.health());
        let nodes = self.nodes.iter().zip(1..);
        let nodes = nodes.filter_map(|(place, number)| Some((number, health(place)?)));
        nodes.filter(|(_, health)| !health.is_good()).collect()
    }

    /// Workers of all compute nodes.
    pub(crate) fn workers(&self) -> usize {
        self.settings.cluster.compute_nodes * self.settings.cluster.workers
    }

    /// Opens the database on a worker; the first worker makes it if there is none.
    pub(crate) async fn open(
        &self,
        phase: &Phase,
        member: &Member,
        logged: Logged,
    ) -> Result<(Store, Tables), AppError> {
        let memory = &member.memory;
        let node = self.node(phase, member, logged).await?;
        let port = memory.port();
        let failed = |error: &dyn std::fmt::Display| {
            AppError::Failed(format!("the database cannot be opened: {error}"))
        };
        let known =
            member.catalogue.lookup(port, &self.name).await.map_err(|error| failed(&error))?;
        if member.index == 0 && known.is_none() {
            let made = self.make(memory.clone(), node).await;
            let (store, tables) = made.map_err(|error| self.txn_error(&error))?;
            // Whoever finds the database finds its tables.
            let root = store.root().bits();
            let named = member.catalogue.register(port, &self.name, DATABASE, root).await;
            named.map_err(|error| failed(&error))?;
            return Ok((store, tables));
        }
        let root = match known {
            Some(entry) => entry.value,
            None => self.wait_for_root(phase, member).await?,
        };
        let root = GlobalAddr::from_bits(root);
        let opened = async {
            let store = Database::open(memory.clone(), node, root).await?;
            let tables = Tables::open(&store).await?;
            Ok((store, tables))
        };
        opened.await.map_err(|error| self.txn_error(&error))
    }

    /// Makes the database: empty tables, or those that were recovered.
    async fn make(
        &self,
        memory: Worker,
        node: Arc<latchwork_txn::Node>,
    ) -> Result<(Store, Tables), TxnError> {
        let settings = &self.settings;
        let id = settings.logs.as_ref().map(|logs| logs.directory.database());
        let id = id.unwrap_or(DatabaseId(settings.cluster.seed));
        let store = Database::create(memory, node, id).await?;
        let tables = match &settings.stored {
            Some(stored) => {
                stored.recovery.tables(&store).await?;
                Tables::open(&store).await?
            }
            None => {
                About::new(&settings.population, settings.cluster.seed).create(&store).await?;
                Tables::create(&store).await?
            }
        };
        Ok((store, tables))
    }

    /// Waits until the first worker has made the database; not when it failed.
    async fn wait_for_root(&self, phase: &Phase, member: &Member) -> Result<u64, AppError> {
        let (handle, port) = (&member.handle, member.memory.port());
        let deadline = handle.now() + WAIT;
        loop {
            match member.catalogue.lookup(port, &self.name).await {
                Ok(Some(entry)) => return Ok(entry.value),
                Ok(None) if phase.stopped() || handle.now() >= deadline => {
                    return Err(AppError::Failed(format!(
                        "the first worker did not make the database within {WAIT:?}"
                    )));
                }
                Ok(None) => handle.sleep(LOOK).await,
                Err(error) => {
                    let text = format!("the database cannot be opened: {error}");
                    return Err(AppError::Failed(text));
                }
            }
        }
    }

    /// Tells people what is about to be done, and which settings change nothing.
    pub(crate) fn headline(&self) {
        let settings = &self.settings;
        for warning in &settings.warnings {
            say(&format!("tpcc: {warning}"));
        }
        say_folded(&format!(
            "tpcc{}{}: {} with about {} MiB, {}; {}",
            settings.command.map_or(String::new(), |command| format!(" {}", command.name())),
            settings.fabric.nic().map_or(String::new(), |nic| format!(" on simulated {nic}")),
            many(settings.population.warehouses() as usize, "warehouse"),
            settings.population_bytes >> 20,
            settings.txn.scheme,
            ClusterFlags::in_words(&settings.cluster),
        ));
    }

    /// The error that ends a run when the engine fails.
    pub(crate) fn txn_error(&self, error: &TxnError) -> AppError {
        match error.memory() {
            Some(MemoryError::OutOfMemory(_)) => {
                let given = self.settings.cluster.memory_bytes;
                let (small, large) = self.settings.fabric.memory_in_words(given, 2 * given);
                AppError::Failed(format!(
                    "memory exhausted: {small} is too small; {large}, fewer --warehouses or a shorter --time"
                ))
            }
            _ => AppError::Failed(format!("the database failed: {error}")),
        }
    }

    /// The error that ends a run when a transaction failed for another reason than others.
    pub(crate) fn failure(&self, failure: &Failure) -> AppError {
        match failure {
            Failure::Txn(error) => self.txn_error(error),
            failure => AppError::Failed(format!("the database is damaged: {failure}")),
        }
    }
}
