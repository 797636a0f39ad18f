//! [`Inner`]: the state of a worker as coordinator and as participant, and the exchange of messages
//! with other nodes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use latchwork_coherence::{LineLocks, UserMessages};
use latchwork_record::Recorder;
use latchwork_runtime::Time;
use latchwork_txn::{Conflict, Database, Table, TableId, Timestamp, TxnError};

use crate::Site;
use crate::fragments::{MESSAGE_MAX, Place, Queue, messages};
use crate::message::{self, Body, Fate, Message, Reply, Request};
use crate::operation::Fault;
use crate::participant::Participant;

/// Names the row owner of a key: the number of a node, from 0. `None` for a row of which each node
/// has its own copy, or which no node writes: the operation runs on the own node.
pub type Owner<M> = Rc<dyn Fn(&Table<M>, &[u8]) -> Option<u8>>;

/// The number of ended transactions whose last answers are kept, to answer repeated requests.
const ENDED_MAX: usize = 1024;

/// Closes the worker's queue when it is dropped, with the last reference to the worker's state. So
/// the task that reads the queue ends.
pub(crate) struct Open(pub(crate) Arc<Queue>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

pub(crate) struct Inner<M: LineLocks + UserMessages> {
    pub(crate) database: Database<M>,
    pub(crate) site: Arc<Site>,
    /// The number of this worker on its node.
    pub(crate) worker: u8,
    pub(crate) owner: Owner<M>,
    pub(crate) tables: BTreeMap<TableId, Table<M>>,
    /// The parts of other nodes' transactions that run here.
    pub(crate) participants: RefCell<BTreeMap<Timestamp, Participant<M>>>,
    /// Transactions that have ended here, with their last answers.
    pub(crate) ended: RefCell<Ended>,
    pub(crate) calls: RefCell<BTreeMap<(Timestamp, u8), Call>>,
    pub(crate) letters_sent: Cell<u64>,
    pub(crate) recorder: RefCell<Recorder>,
    /// Whether a task runs that checks the participants for silent coordinators.
    pub(crate) tended: Cell<bool>,
    pub(crate) _open: Open,
}

/// Transactions that have ended, with their last answers, in the order of their ends.
#[derive(Default)]
pub(crate) struct Ended {
    last: BTreeMap<Timestamp, Option<Reply>>,
    order: VecDeque<Timestamp>,
}

/// A request that has no answer yet.
pub(crate) struct Call {
    number: u32,
    reply: Option<Reply>,
    waker: Option<Waker>,
}

impl<M: LineLocks + UserMessages> Inner<M> {
    pub(crate) fn now(&self) -> Time {
        self.database.memory().handle().now()
    }

    /// The number of this node, from 0.
    pub(crate) fn node(&self) -> u8 {
        self.database.node().clock().node().0
    }

    // ---- sending --------------------------------------------------------------------------------

    pub(crate) fn send(&self, to: Place, message: &Message) -> Result<(), TxnError> {
        let bytes = message.encode();
        if bytes.len() > MESSAGE_MAX {
            let what = format!("a message of {} bytes is too long: {MESSAGE_MAX}", bytes.len());
            let node = self.site.node_of(to.node).unwrap_or(u8::MAX);
            return Err(TxnError::Remote { node, what });
        }
        self.send_bytes(to, &bytes)
    }

    fn send_bytes(&self, to: Place, bytes: &[u8]) -> Result<(), TxnError> {
        self.letters_sent.set(self.letters_sent.get() + 1);
        let letters = messages(self.worker, to.worker, self.letters_sent.get(), bytes);
        self.site.count(|counts| &counts.messages, 1);
        self.site.count(|counts| &counts.letters, letters.len() as u64);
        Ok(self.database.memory().post_messages(to.node, &letters)?)
    }

    pub(crate) fn reply(&self, to: Place, id: Timestamp, number: u32, reply: Reply) {
        let bytes = message::encode_reply(id, number, reply, MESSAGE_MAX);
        // A failed send is ignored: the coordinator sends the request again, or gives up.
        let _ = self.send_bytes(to, &bytes);
    }

    /// The worker of node `owner` that runs this worker's operations: the worker with the same
    /// number.
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
                    return Poll::Ready(Reply::No(Fault::gone()));
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

    // ---- what arrives ---------------------------------------------------------------------------

    pub(crate) fn received(self: &Rc<Self>, from: Place, message: Message) {
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

    /// Starts a task that checks all participants for silent coordinators, until no participant is
    /// left.
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
