//! [`Committing`]: two-phase commit on the side of the coordinator.
//!
//! # Why it is serializable
//!
//! 1. Each participant [prepares](latchwork_txn::Prepared) its part: the rows that the part writes
//!    are locked, and its new rows are pending.
//! 2. Some reads of a part may still change: rows under the optimistic scheme, and leaves of scans
//!    and of lookups that found no row. A participant with such reads answers `Held`, and validates
//!    after *all* parts have prepared.
//! 3. A participant whose own locks protect all its reads validates at once, which saves a message.
//! 4. No node releases a lock of the transaction before all parts have prepared, unless the
//!    transaction aborts.
//! 5. Take the moment between the last successful prepare and the first validation of a `Held`
//!    part. At this moment all writes of the transaction are locked. All its reads are unchanged:
//!    locks protect them, or a later validation compares them.
//!
//! Under timestamp ordering each part compares its rows and leaves with the timestamp of the
//! transaction only. So the parts need no common moment.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use latchwork_coherence::{LineLocks, UserMessages};
use latchwork_record::{Record, TransactionOutcome};
use latchwork_runtime::sync::AtomicU64;
use latchwork_strict::strict_assert;
use latchwork_txn::{Scheme, Timestamp, TxnError, Validated};
use latchwork_wal::{Log, LogRecord, LogRecordKind, Position, WalError};

use crate::inner::Inner;
use crate::message::{Body, Fate, Message, Reply, Request};
use crate::record::{self, Proposal};
use crate::site::Counts;

/// The number of rounds of commit requests. Each round ends when all participants have answered, or
/// at the deadline. After the last round, a participant without the decision learns it only by its
/// own request.
const ROUNDS: u32 = 100;
const _: () = assert!(ROUNDS > 0, "a decision is sent once at least");

/// A transaction over several nodes during its commit.
pub(crate) struct Committing<M: LineLocks + UserMessages> {
    inner: Rc<Inner<M>>,
    id: Timestamp,
    /// The other nodes that take part, with the number of the last request to each.
    remotes: BTreeMap<u8, u32>,
    /// True until the decision record is appended. While true, a drop of this value aborts the
    /// transaction.
    open: bool,
}

/// The votes of the participants.
#[derive(Default)]
struct Votes {
    /// The highest timestamp of all votes.
    highest: Timestamp,
    /// The proposals of participants with a prepare record.
    proposals: Vec<Proposal>,
    /// The participants that have voted yes and wait for the decision.
    waiting: Vec<u8>,
    /// The participants that hold their locks and have to be validated.
    held: Vec<u8>,
}

impl Votes {
    fn count(&mut self, owner: u8, reply: Reply) -> Result<(), TxnError> {
        match reply {
            Reply::Yes { proposed, logged } => {
                self.highest = self.highest.max(proposed);
                self.proposals.extend(logged.then_some((owner, proposed)));
                self.waiting.push(owner);
            }
            Reply::Held => self.held.push(owner),
            Reply::Done(floor) => self.highest = self.highest.max(floor),
            Reply::No(fault) => return Err(fault.into_error(owner)),
            _ => {
                let what = "a vote makes no sense: it is of another version".to_owned();
                return Err(TxnError::Remote { node: owner, what });
            }
        }
        Ok(())
    }
}

impl<M: LineLocks + UserMessages> Drop for Committing<M> {
    fn drop(&mut self) {
        if self.open {
            self.inner.site.set_fate(self.id, Fate::Aborted);
            abort_there(&self.inner, self.id, self.remotes.keys().copied());
        }
    }
}

impl<M: LineLocks + UserMessages> Committing<M> {
    pub(crate) fn new(inner: Rc<Inner<M>>, id: Timestamp, remotes: BTreeMap<u8, u32>) -> Self {
        strict_assert!(!remotes.is_empty(), "a transaction of one node has no coordinator");
        strict_assert!(inner.site.fate(id) == Fate::Aborted, "a transaction is coordinated twice");
        // The state is set before any participant can vote and then request the decision.
        inner.site.set_fate(id, Fate::Open);
        strict_assert!(inner.site.fate(id) == Fate::Open, "a participant finds no decision");
        Committing { inner, id, remotes, open: true }
    }

    pub(crate) async fn run(
        mut self,
        local: latchwork_txn::Transaction<M>,
    ) -> Result<Timestamp, TxnError> {
        let mut votes = Votes::default();
        let owners: Vec<u8> = self.remotes.keys().copied().collect();
        let (local, replies) = both(local.prepare(), self.ask(&owners, Request::Prepare)).await;
        let local = local?;
        for (owner, reply) in replies {
            votes.count(owner, reply?)?;
        }
        // All parts have locked and staged, so validation can begin.
        let held = std::mem::take(&mut votes.held);
        let (validated, replies) = both(local.validate(), self.ask(&held, Request::Validate)).await;
        let local = validated?;
        for (owner, reply) in replies {
            votes.count(owner, reply?)?;
        }
        if let Some(&owner) = votes.held.first() {
            votes.count(owner, Reply::Checked)?;
        }
        self.decide(local, votes).await
    }

    /// Sends one request to several participants, and waits for all answers.
    fn ask(
        &mut self,
        owners: &[u8],
        request: Request,
    ) -> impl Future<Output = Vec<(u8, Result<Reply, TxnError>)>> + use<M> {
        let mut calls = Vec::new();
        for &owner in owners {
            strict_assert!(
                self.remotes.contains_key(&owner),
                "a request to a node that takes no part"
            );
            let number = self.remotes.entry(owner).or_default();
            *number += 1;
            strict_assert!(*number > 1, "a coordinator begins with a prepare request");
            let (inner, id, number) = (self.inner.clone(), self.id, *number);
            let request = request.clone();
            calls.push(async move { (owner, inner.call(owner, id, number, request).await) });
        }
        all(calls)
    }

    async fn decide(
        mut self,
        mut local: Validated<M>,
        votes: Votes,
    ) -> Result<Timestamp, TxnError> {
        strict_assert!(votes.held.is_empty(), "a part that holds its locks has not voted");
        strict_assert!(
            votes.waiting.iter().all(|owner| self.remotes.contains_key(owner)),
            "a vote of a node that takes no part"
        );
        let inner = self.inner.clone();
        let clock = inner.database.node().clock();
        let proposed = local.propose()?;
        let highest = votes.highest.max(proposed);
        strict_assert!(
            votes.proposals.iter().all(|(_, at)| *at <= votes.highest),
            "a proposal is above the highest"
        );
        let cts = match inner.database.scheme() {
            Scheme::TimestampOrdering => proposed,
            _ => clock.draw(highest)?,
        };
        strict_assert!(
            cts >= proposed || inner.database.scheme() == Scheme::TimestampOrdering,
            "the decision is below a proposal"
        );
        strict_assert!(
            inner.database.scheme() == Scheme::TimestampOrdering || cts > votes.highest,
            "the decision is below a vote"
        );
        let record = local.take_record();
        let writes = local.has_writes();
        if let Some(log) = inner.database.node().log()
            && (writes || !votes.proposals.is_empty())
        {
            // If no participant has a prepare record, no other log depends on the decision. So an
            // ordinary commit record is sufficient.
            let mut group = match votes.proposals.is_empty() {
                true => LogRecord::new(LogRecordKind::Commit, cts),
                false => record::decision(self.id, cts, &votes.proposals)
                    .map_err(TxnError::not_logged)?,
            };
            local.put_into(&mut group).map_err(TxnError::not_logged)?;
            // From here on the transaction may have committed, even if this task is dropped.
            local.seal();
            self.open = false;
            let position = match inner.append(log, &group).await {
                Ok(position) => position,
                Err(error) => return self.take_back(local, error).await,
            };
            let log = log.clone();
            let deciding = Deciding { committing: self, local, votes, cts, record };
            return deciding.wait(log, position).await;
        }
        Deciding { committing: self, local, votes, cts, record }.commit().await
    }

    /// Aborts the transaction, because the log has not taken the decision record.
    async fn take_back(
        mut self,
        local: Validated<M>,
        error: WalError,
    ) -> Result<Timestamp, TxnError> {
        strict_assert!(!self.open, "a transaction that was not appended is taken back");
        // The drop of `self` at the end of this function aborts the participants.
        self.open = true;
        local.abort().await;
        Err(TxnError::not_logged(error))
    }

    /// Sends commit requests until all participants have committed. Returns `false` if some have
    /// not answered after all rounds.
    async fn tell(&mut self, waiting: &[u8], cts: Timestamp) -> bool {
        let mut left = waiting.to_vec();
        for _ in 0..ROUNDS {
            if left.is_empty() {
                return true;
            }
            let replies = self.ask(&left, Request::Commit(cts)).await;
            strict_assert!(replies.len() == left.len(), "a request has no reply");
            left = replies
                .into_iter()
                .filter(|(_, reply)| !matches!(reply, Ok(Reply::Ended(_))))
                .map(|(owner, _)| owner)
                .collect();
        }
        left.is_empty()
    }
}

fn finish<M: LineLocks + UserMessages>(
    inner: &Inner<M>,
    id: Timestamp,
    mut record: Record,
    outcome: TransactionOutcome,
) {
    for part in inner.site.prepare_collector.iter().flat_map(|all| all.take(id)) {
        record.absorb(part);
    }
    let recorder = inner.recorder.borrow().clone();
    recorder.finish(record, outcome, inner.now().as_nanos());
}

/// A transaction with an appended decision, which commits when the log acknowledges the decision.
/// Without a log it commits at once.
struct Deciding<M: LineLocks + UserMessages> {
    committing: Committing<M>,
    local: Validated<M>,
    votes: Votes,
    cts: Timestamp,
    record: Record,
}

impl<M: LineLocks + UserMessages> Deciding<M> {
    /// Waits until the log acknowledges the decision or reports an error. After the deadline the
    /// caller gets the error `InDoubt`. A task continues to wait, for up to [`ROUNDS`] times the
    /// deadline.
    async fn wait(self, log: Log, position: Position) -> Result<Timestamp, TxnError> {
        let inner = self.committing.inner.clone();
        let handle = inner.database.memory().handle();
        match log.acknowledged(handle, &position, inner.log_deadline()).await {
            Err(error @ WalError::Timeout { .. }) => {
                let going_on = {
                    let inner = inner.clone();
                    async move {
                        let handle = inner.database.memory().handle();
                        for _ in 0..ROUNDS {
                            let lasts =
                                log.acknowledged(handle, &position, inner.log_deadline()).await;
                            if !matches!(lasts, Err(WalError::Timeout { .. })) {
                                let _ = self.end(lasts).await;
                                return;
                            }
                        }
                    }
                };
                drop(handle.spawn_service(going_on));
                Err(TxnError::in_doubt(error))
            }
            lasts => self.end(lasts).await,
        }
    }

    async fn end(self, lasts: Result<(), WalError>) -> Result<Timestamp, TxnError> {
        match lasts {
            Ok(()) => {
                let sites = &self.committing.inner.site;
                sites.count(|counts| &counts.decided, u64::from(!self.votes.proposals.is_empty()));
                self.commit().await
            }
            Err(error @ WalError::Refused { .. }) => {
                self.committing.take_back(self.local, error).await
            }
            Err(error) => {
                // Only a restart decides the outcome. The decision stays open, so the participants
                // keep their locks until the restart.
                let Committing { inner, id, .. } = &self.committing;
                finish(inner, *id, self.record, TransactionOutcome::Unknown { cts: self.cts.0 });
                Err(TxnError::in_doubt(error))
            }
        }
    }

    /// Commits on all nodes: the decision has been taken.
    async fn commit(self) -> Result<Timestamp, TxnError> {
        strict_assert!(self.cts > Timestamp::ZERO, "a decision without a timestamp");
        let Deciding { mut committing, local, votes, cts, mut record } = self;
        let inner = committing.inner.clone();
        committing.open = false;
        inner.site.set_fate(committing.id, Fate::Committed(cts));
        strict_assert!(
            inner.site.fate(committing.id) == Fate::Committed(cts),
            "a participant finds another decision"
        );
        let ended = inner.now();
        // The caller may get the outcome before the participants release their locks. A later
        // reader of such a row meets the lock, so it does not see the state before the commit.
        let id = committing.id;
        drop(inner.database.memory().handle().spawn_service({
            let inner = inner.clone();
            async move {
                if committing.tell(&votes.waiting, cts).await {
                    inner.site.set_fate(id, Fate::Aborted);
                    for part in inner.site.prepare_collector.iter().flat_map(|all| all.take(id)) {
                        record.absorb(part);
                    }
                    let outcome = TransactionOutcome::Committed { cts: cts.0 };
                    let recorder = inner.recorder.borrow().clone();
                    recorder.finish(record, outcome, ended.as_nanos());
                } else {
                    finish(&inner, id, record, TransactionOutcome::Unknown { cts: cts.0 });
                }
            }
        }));
        match local.has_writes() {
            true => local.commit(cts).await.map(drop)?,
            false => local.abort().await,
        }
        inner.site.count(|counts: &Counts| -> &AtomicU64 { &counts.distributed }, 1);
        Ok(cts)
    }
}

/// Waits for both futures.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(context)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(context)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// Waits for all futures.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|one| (Some(Box::pin(one)), None)).collect();
    poll_fn(move |context| {
        for (future, result) in &mut futures {
            if let Some(running) = future
                && let Poll::Ready(value) = Pin::new(running).as_mut().poll(context)
            {
                (*future, *result) = (None, Some(value));
            }
        }
        match futures.iter().all(|(_, result)| result.is_some()) {
            true => {
                Poll::Ready(futures.iter_mut().filter_map(|(_, result)| result.take()).collect())
            }
            false => Poll::Pending,
        }
    })
    .await
}

/// Sends an abort to participants. If the message is lost, a participant without a vote aborts
/// after [`idle`](crate::PartitionSettings::idle). A participant with a vote requests the decision,
/// and aborts when the coordinator answers.
pub(crate) fn abort_there<M: LineLocks + UserMessages>(
    inner: &Inner<M>,
    id: Timestamp,
    owners: impl Iterator<Item = u8>,
) {
    for owner in owners {
        let Ok(to) = inner.place(owner) else { continue };
        let _ =
            inner.send(to, &Message { id, number: u32::MAX, body: Body::Request(Request::Abort) });
    }
}
