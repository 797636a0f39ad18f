//! [`Partitioned`]: a worker's handle on a database with rows partitioned among compute nodes.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_coherence::{LineLocks, MessageHandler, UserMessages};
use latchwork_record::Recorder;
use latchwork_txn::{Database, Table, TxnError};

use crate::fragments::{Assembly, worker_of};
use crate::inner::{Inner, Open, Owner};
use crate::message::Message;
use crate::{PartitionedTransaction, Site, TransactionRows};

/// One worker's handle on a database. Each node runs its own part of the database. Clones share one
/// handle.
///
/// While a handle exists, the worker answers other nodes. So a worker without further work must
/// keep its handle until the other workers have finished as well.
pub struct Partitioned<M: LineLocks + UserMessages>(pub(crate) Rc<Inner<M>>);

impl<M: LineLocks + UserMessages> Clone for Partitioned<M> {
    fn clone(&self) -> Self {
        Partitioned(self.0.clone())
    }
}

impl<M: LineLocks + UserMessages> fmt::Debug for Partitioned<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Partitioned");
        out.field("site", &self.0.site).field("worker", &self.0.worker);
        out.field("participants", &self.0.participants.borrow().len()).finish_non_exhaustive()
    }
}

impl<M: LineLocks + UserMessages> Partitioned<M> {
    /// Starts worker number `worker` of a node. All workers of a node share `site`. The caller
    /// starts the same number of workers on each node.
    ///
    /// Node n of the database is the compute node with id n + 1, unless the site states
    /// [otherwise](Site::among).
    ///
    /// # Errors
    /// [`TxnError::NodeId`] when the node has another id; [`TxnError::Remote`] when the node has no
    /// worker of this number, or when another `Site` of this process receives the user messages of
    /// the node.
    pub fn start(
        database: Database<M>,
        site: Arc<Site>,
        worker: u8,
        tables: impl IntoIterator<Item = Table<M>>,
        owner: Owner<M>,
    ) -> Result<Partitioned<M>, TxnError> {
        let node = database.node().clock().node().0;
        if database.memory().node() != site.compute_node(node)? {
            return Err(TxnError::NodeId { node });
        }
        let Some(queue) = site.queues.get(usize::from(worker)).cloned() else {
            let (has, what) = (site.queues.len(), "workers are numbered from 0");
            let what = format!("there is no worker {worker}: the site was made for {has}; {what}");
            return Err(TxnError::Remote { node, what });
        };
        // Any worker of the node may receive a user message. The handler passes the message to the
        // queue of the addressed worker.
        let to = site.clone();
        let mail_box: MessageHandler = Arc::new(move |from, letter| {
            if let Some(queue) = to.queues.get(usize::from(worker_of(letter))) {
                queue.push(from, letter);
            }
        });
        // The workers of a node share the mailbox. The first worker sets it up, for the life of the
        // node.
        {
            let mut has_box = site.has_box.lock();
            if !*has_box && !database.memory().set_message_handler(mail_box) {
                let what = "its letters go to another site: make one site for a node, and keep it"
                    .to_owned();
                return Err(TxnError::Remote { node, what });
            }
            *has_box = true;
        }
        let tables = tables.into_iter().map(|table| (table.id(), table)).collect();
        let handle = database.memory().handle().clone();
        let open = Open(queue.clone());
        let inner = Rc::new(Inner {
            database,
            site,
            worker,
            owner,
            tables,
            participants: RefCell::default(),
            ended: RefCell::default(),
            calls: RefCell::default(),
            letters_sent: Cell::new(0),
            recorder: RefCell::new(Recorder::off()),
            tended: Cell::new(false),
            _open: open,
        });
        let serving = Rc::downgrade(&inner);
        drop(handle.spawn_service(async move {
            let mut assembly = Assembly::default();
            while let Some((from, letter)) = poll_fn(|context| queue.poll(context)).await {
                let Some(inner) = serving.upgrade() else { return };
                if let Some((from, bytes)) = assembly.take(from, &letter)
                    && let Some(message) = Message::decode(&bytes)
                {
                    inner.received(from, message);
                }
            }
        }));
        Ok(Partitioned(inner))
    }

    /// The database.
    pub fn database(&self) -> &Database<M> {
        &self.0.database
    }

    /// The state that this worker shares with the other workers of its node.
    pub fn site(&self) -> &Arc<Site> {
        &self.0.site
    }

    /// Records transactions as those of `worker` of this node, with one recorder for this handle
    /// and its database. If the sites share a
    /// [`PrepareCollector`](crate::PrepareCollector), a transaction over several nodes is recorded
    /// as one transaction.
    pub fn record(&self, recorder: Recorder, worker: u16) {
        self.0.database.record(recorder.clone(), worker);
        *self.0.recorder.borrow_mut() = recorder;
    }

    /// The count of other nodes' transactions that run here.
    pub fn participants(&self) -> usize {
        self.0.participants.borrow().len()
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// As [`Database::begin`].
    pub async fn begin(&self) -> Result<PartitionedTransaction<M>, TxnError> {
        let local = self.0.database.begin().await?;
        Ok(PartitionedTransaction::begin(self.0.clone(), local))
    }

    /// Runs a transaction and commits it; after a conflict the transaction runs again, as in
    /// [`Database::run`].
    ///
    /// If `body` returns an error that is not a conflict, the transaction validates its reads on
    /// all nodes and aborts. [`TxnError::NotDurable`] or [`TxnError::NotDurableAt`] of this
    /// validation is returned in place of the error of `body`.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub async fn run<R>(
        &self,
        mut body: impl AsyncFnMut(&mut PartitionedTransaction<M>) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        let mut retry = self.0.database.retry();
        loop {
            retry.turn().await;
            let mut transaction = self.begin().await?;
            let result = match body(&mut transaction).await {
                Ok(result) => transaction.commit().await.map(|_| result),
                Err(error) => {
                    // The error may come from reads that are inconsistent together, or that a crash
                    // takes back. So the reads are validated first.
                    let validated = match error.conflict() {
                        Some(_) => Ok(()),
                        None => transaction.validate().await,
                    };
                    transaction.abort();
                    match validated {
                        Err(
                            other @ (TxnError::Conflict(_)
                            | TxnError::NotDurable(_)
                            | TxnError::NotDurableAt { .. }),
                        ) => Err(other),
                        _ => Err(error),
                    }
                }
            };
            match result {
                Err(TxnError::Conflict(conflict)) => retry.met(conflict).await?,
                other => {
                    retry.end().await;
                    return other;
                }
            }
        }
    }
}
