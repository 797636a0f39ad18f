//! [`Partitioned`]: a worker's handle on a database with rows partitioned among compute nodes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use latchwork_coherence::{LineLocks, MessageHandler, UserMessages};
use latchwork_history::Recorder;
use latchwork_runtime::Time;
use latchwork_txn::{Conflict, Database, Table, TableId, Timestamp, TxnError};

use crate::TransactionRows;
use crate::fragments::{Assembly, MESSAGE_MAX, Place, messages, worker_of};
use crate::message::{Body, Fate, Message, Reply, Request};
use crate::participant::Participant;
use crate::{PartitionedTransaction, Site};

/// Names the row owner of a key: the number of a node, from 0. `None` where each node has its own
/// copy, or no node writes.
pub type Owner<M> = Rc<dyn Fn(&Table<M>, &[u8]) -> Option<u8>>;

/// The count of ended transactions that are kept, for late messages.
const ENDED_MAX: usize = 1024;

/// One worker's handle on a database. Each node runs its own part of the database. Clones share one
/// handle.
///
/// While a handle exists, the worker answers other nodes. So a worker without further work must
/// keep its handle until the other workers have finished as well.
pub struct Partitioned<M: LineLocks + UserMessages>(pub(crate) Rc<Inner<M>>);

/// Closes the worker's queue when the last handle is dropped, and so ends the task that reads the
/// queue.
struct Open(Arc<crate::fragments::Queue>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

pub(crate) struct Inner<M: LineLocks + UserMessages> {
    pub(crate) database: Database<M>,
    pub(crate) site: Arc<Site>,
    /// The number of this worker on its node.
    worker: u8,
    pub(crate) owner: Owner<M>,
    pub(crate) tables: BTreeMap<TableId, Table<M>>,
    /// The parts of other nodes' transactions that run here.
    pub(crate) participants: RefCell<BTreeMap<Timestamp, Participant<M>>>,
    /// Transactions that have ended here, with their last answers.
    ended: RefCell<Ended>,
    calls: RefCell<BTreeMap<(Timestamp, u8), Call>>,
    letters_sent: Cell<u64>,
    pub(crate) recorder: RefCell<Recorder>,
    /// Whether a task checks the participants for silence.
    pub(crate) tended: Cell<bool>,
    _open: Open,
}

/// Transactions that have ended, with their last answers, in the order of their ends.
#[derive(Default)]
struct Ended {
    last: BTreeMap<Timestamp, Option<Reply>>,
    order: VecDeque<Timestamp>,
}

/// A request that has no answer yet.
struct Call {
    number: u32,
    reply: Option<Reply>,
    waker: Option<Waker>,
}

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
    /// Starts worker number `worker` of a node. All workers of a node share `site`. All nodes have
    /// the same count of workers.
    ///
    /// Node n of the database is the compute node with id n + 1, unless the site states
    /// [otherwise](Site::among).
    ///
    /// # Errors
    /// [`TxnError::NodeId`] when the node has another id; [`TxnError::Remote`] when the node has no
    /// worker of this number, or when its user messages go to another site.
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
        // Any worker of the node may receive a user message; this function passes it to the worker
        // that it is for.
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

    /// What this worker shares with the other workers of its node.
    pub fn site(&self) -> &Arc<Site> {
        &self.0.site
    }

    /// Records transactions as those of `worker` of this node, with one recorder for this handle
    /// and its database. A transaction over several nodes is recorded as one where the sites share
    /// a [`Gathering`](crate::PrepareCollector).
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
                    // The error may rest on reads that never held together, so the reads are
                    // validated first.
                    let validated = match error.conflict() {
                        Some(_) => Ok(()),
                        None => transaction.validate().await,
                    };
                    transaction.abort();
                    match validated {
                        Err(TxnError::Conflict(conflict)) => Err(conflict.into()),
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

impl<M: LineLocks + UserMessages> Inner<M> {
    pub(crate) fn now(&self) -> Time {
        self.database.memory().handle().now()
    }

    /// The number of this node, from 0.
    pub(crate) fn node(&self) -> u8 {
        self.database.node().clock().node().0
    }

    // ---- sending ---------------------------------------------------------------------------------

    pub(crate) fn send(&self, to: Place, message: &Message) -> Result<(), TxnError> {
        let bytes = message.encode();
        if bytes.len() > MESSAGE_MAX {
            let what = format!("a message of {} bytes is too long: {MESSAGE_MAX}", bytes.len());
            let node = self.site.node_of(to.node).unwrap_or(u8::MAX);
            return Err(TxnError::Remote { node, what });
        }
        self.letters_sent.set(self.letters_sent.get() + 1);
        let letters = messages(self.worker, to.worker, self.letters_sent.get(), &bytes);
        self.site.count(|counts| &counts.messages, 1);
        self.site.count(|counts| &counts.letters, letters.len() as u64);
        Ok(self.database.memory().post_messages(to.node, &letters)?)
    }

    pub(crate) fn reply(&self, to: Place, id: Timestamp, number: u32, reply: Reply) {
        // A coordinator that cannot be reached sends the request again, or gives up.
        let _ = self.send(to, &Message { id, number, body: Body::Reply(reply) });
    }

    /// The worker of another node that runs this worker's operations there.
    pub(crate) fn place(&self, owner: u8) -> Result<Place, TxnError> {
        Ok(Place { node: self.site.compute_node(owner)?, worker: self.worker })
    }

    /// Sends a request to a participant again and again, until it answers or the deadline passes.
    pub(crate) async fn call(
        &self,
        owner: u8,
        id: Timestamp,
        number: u32,
        request: Request,
    ) -> Result<Reply, TxnError> {
        let to = self.place(owner)?;
        let message = Message { id, number, body: Body::Request(request) };
        let call = Call { number, reply: None, waker: None };
        self.calls.borrow_mut().insert((id, owner), call);
        let _end = OnDrop(|| {
            let mut calls = self.calls.borrow_mut();
            if calls.get(&(id, owner)).is_some_and(|call| call.number == number) {
                calls.remove(&(id, owner));
            }
        });
        let handle = self.database.memory().handle();
        let deadline = handle.now() + self.site.settings.deadline;
        loop {
            self.send(to, &message)?;
            let until = (handle.now() + self.site.settings.again).min(deadline);
            let answer = poll_fn(|context| {
                let mut calls = self.calls.borrow_mut();
                let Some(call) = calls.get_mut(&(id, owner)) else {
                    return Poll::Ready(Reply::No(crate::operation::Fault::gone()));
                };
                if let Some(reply) = call.reply.take() {
                    return Poll::Ready(reply);
                }
                call.waker = Some(context.waker().clone());
                Poll::Pending
            });
            if let Ok(reply) = handle.timeout(until, answer).await {
                return Ok(reply);
            }
            if handle.now() >= deadline {
                return Err(Conflict::Unreachable.into());
            }
            self.site.count(|counts| &counts.repeated, 1);
        }
    }

    // ---- what arrives ----------------------------------------------------------------------------

    fn received(self: &Rc<Self>, from: Place, message: Message) {
        let Message { id, number, body } = message;
        match body {
            Body::Request(request) => self.requested(from, id, number, request),
            Body::Reply(reply) => {
                let Some(node) = self.site.node_of(from.node) else { return };
                let mut calls = self.calls.borrow_mut();
                let call = calls.get_mut(&(id, node));
                if let Some(call) = call.filter(|call| call.number == number) {
                    call.reply = Some(reply);
                    call.waker.take().into_iter().for_each(Waker::wake);
                }
            }
            Body::Ask => {
                let fate = self.site.fate(id);
                let _ = self.send(from, &Message { id, number, body: Body::Decided(fate) });
            }
            Body::Decided(Fate::Open) => {}
            Body::Decided(fate) => self.told(id, fate),
        }
    }

    /// Notes that a transaction has ended here, with its last answer.
    pub(crate) fn end(&self, id: Timestamp, last: Option<Reply>) {
        self.participants.borrow_mut().remove(&id);
        let mut ended = self.ended.borrow_mut();
        if ended.last.insert(id, last).is_none() {
            ended.order.push_back(id);
        }
        if ended.order.len() > ENDED_MAX
            && let Some(oldest) = ended.order.pop_front()
        {
            ended.last.remove(&oldest);
        }
    }

    /// The last answer of a transaction that has ended here; `None` if it is not known.
    pub(crate) fn ended(&self, id: Timestamp) -> Option<Option<Reply>> {
        self.ended.borrow().last.get(&id).cloned()
    }

    /// Starts a task that checks participants for silence, for as long as there are any.
    pub(crate) fn tend(self: &Rc<Self>) {
        if self.tended.replace(true) {
            return;
        }
        let weak = Rc::downgrade(self);
        let (handle, tick) =
            (self.database.memory().handle().clone(), self.site.settings.tick.max(MIN_TICK));
        drop(handle.clone().spawn_service(async move {
            loop {
                handle.sleep(tick).await;
                let Some(inner) = Weak::upgrade(&weak) else { return };
                inner.look_after();
                if inner.participants.borrow().is_empty() {
                    inner.tended.set(false);
                    return;
                }
            }
        }));
    }
}

const MIN_TICK: Duration = Duration::from_micros(10);

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
