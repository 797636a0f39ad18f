//! Scripts: the async code of one worker under test, and the steps that advance it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::address::{ComputeNodeId, Target};
use crate::endpoint::{Endpoint, Inbox};
use crate::error::VerbError;
use crate::request::{AtomicOutcome, Message, WorkRequest};

type Body = Pin<Box<dyn Future<Output = ()>>>;

/// The task of one worker of `node`. A script is started on the thread on which it runs.
pub struct Script {
    /// The worker's node.
    pub node: ComputeNodeId,
    body: Box<dyn FnOnce(Worker) -> Body + Send>,
}

impl Script {
    /// Makes a script of an async function of its worker.
    pub fn new<F>(node: ComputeNodeId, body: impl FnOnce(Worker) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Script { node, body: Box::new(move |worker| Box::pin(body(worker))) }
    }

    /// Starts the script on `endpoint`, with its node's `inbox` and with a function that cuts a
    /// node off. The function takes a target of the compute node or memory node.
    pub fn start(
        self,
        endpoint: Box<dyn Endpoint>,
        inbox: Box<dyn Inbox>,
        cut_off: Box<dyn Fn(Target)>,
    ) -> Running {
        let worker = Worker(Rc::new(Inner {
            node: self.node,
            endpoint: RefCell::new(Some(endpoint)),
            inbox,
            cut_off,
            results: RefCell::default(),
            next_token: Cell::new(1 << 40),
        }));
        Running { body: (self.body)(worker.clone()), worker, ended: false }
    }
}

/// A script in progress.
pub struct Running {
    worker: Worker,
    body: Body,
    ended: bool,
}

impl Running {
    /// Lets the script run until it waits, then rings and polls. Returns true when the script has
    /// ended.
    pub fn step(&mut self) -> bool {
        if !self.ended {
            let mut context = Context::from_waker(Waker::noop());
            self.ended = self.body.as_mut().poll(&mut context).is_ready();
            self.worker.0.sweep();
        }
        self.ended
    }
}

/// The interface of a script: its endpoint, with calls that can be awaited, and its node's inbox.
#[derive(Clone)]
pub struct Worker(Rc<Inner>);

struct Inner {
    node: ComputeNodeId,
    // None after `abandon`.
    endpoint: RefCell<Option<Box<dyn Endpoint>>>,
    inbox: Box<dyn Inbox>,
    cut_off: Box<dyn Fn(Target)>,
    results: RefCell<BTreeMap<u64, Result<AtomicOutcome, VerbError>>>,
    next_token: Cell<u64>,
}

impl Inner {
    fn sweep(&self) {
        let mut endpoint = self.endpoint.borrow_mut();
        let Some(endpoint) = endpoint.as_mut() else { return };
        endpoint.ring();
        endpoint.poll(&mut |completion| {
            let twice = self.results.borrow_mut().insert(completion.token, completion.result);
            assert_eq!(twice, None, "token {} completed twice", completion.token);
        });
    }
}

impl Worker {
    /// Cuts the target's node off.
    pub fn cut_off(&self, target: Target) {
        (self.0.cut_off)(target);
    }

    /// Drops the endpoint. No batch can be posted after that.
    pub fn abandon(&self) {
        self.0.endpoint.borrow_mut().take();
    }

    /// The worker's node.
    pub fn node(&self) -> ComputeNodeId {
        self.0.node
    }

    /// Posts a batch; returns its token.
    ///
    /// # Errors
    /// An error in the batch.
    ///
    /// # Panics
    /// When the endpoint was [abandoned](Worker::abandon).
    pub fn post(&self, target: Target, requests: &[WorkRequest]) -> Result<u64, VerbError> {
        let token = self.0.next_token.get();
        self.0.next_token.set(token + 1);
        let mut endpoint = self.0.endpoint.borrow_mut();
        endpoint.as_mut().expect("an endpoint").post(target, token, requests)?;
        Ok(token)
    }

    /// Waits for a batch; returns its result.
    ///
    /// # Errors
    /// A failure of the target.
    pub async fn wait(&self, token: u64) -> Result<AtomicOutcome, VerbError> {
        poll_fn(|_| match self.0.results.borrow_mut().remove(&token) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        })
        .await
    }

    /// Posts a correct batch, and waits for the results of its atomics.
    ///
    /// # Panics
    /// When the batch is refused or fails, or when the endpoint was abandoned.
    pub async fn call(&self, target: Target, requests: &[WorkRequest]) -> [u64; 2] {
        let token = self.post(target, requests).expect("a batch that is right");
        self.wait(token).await.expect("a target that is connected").old
    }

    /// Waits for one step.
    pub async fn pause(&self) {
        let mut first = true;
        poll_fn(|_| match std::mem::replace(&mut first, false) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    /// Passes waiting messages to `sink`; see [`Inbox::receive`].
    pub fn receive(&self, mut sink: impl FnMut(Message)) -> bool {
        self.0.inbox.receive(&mut sink)
    }

    /// A message from this worker's node, with `value` in its first word and `!value` in its last
    /// word.
    pub fn message(&self, value: u64) -> WorkRequest {
        let mut body = [0; Message::WORDS];
        body[0] = value;
        body[Message::WORDS - 1] = !value;
        WorkRequest::Send(Message { from: self.node(), body })
    }

    /// The number of batches in flight.
    pub fn in_flight(&self) -> usize {
        self.0.endpoint.borrow().as_ref().map_or(0, |endpoint| endpoint.in_flight())
    }

    /// The number of results that the script has not taken yet.
    pub fn results(&self) -> usize {
        self.0.results.borrow().len()
    }
}
