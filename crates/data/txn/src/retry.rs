//! [`Retry`]: trying a transaction again that has met others.

use std::time::Duration;

use latchwork_coherence::LineLocks;
use latchwork_runtime::Time;

use crate::elder::Place;
use crate::{Conflict, Database, Timestamp, Transaction, TxnError};

/// How often the pause doubles.
const DOUBLINGS_MAX: u32 = 16;
/// How often that of an elder does: those who are in its way now will be through soon.
const DOUBLINGS_OF_ELDERS: u32 = 3;

/// Of so many transactions of a worker, one looks whether there is an elder before its first
/// attempt.
const LOOKS: u32 = 8;

/// The attempts of one transaction, and what goes on between them.
///
/// [`Database::run`] has one. For whoever begins transactions by itself:
///
/// ```
/// # use latchwork_coherence::LineLocks;
/// # use latchwork_txn::{Conflict, Database, Transaction, TxnError};
/// # async fn attempt<M: LineLocks>(tx: Transaction<M>) -> Result<(), Conflict> { Ok(()) }
/// async fn run<M: LineLocks>(database: &Database<M>) -> Result<(), TxnError> {
///     let mut retry = database.retry();
///     loop {
///         retry.turn().await;
///         match attempt(retry.begin().await?).await {
///             Err(conflict) => retry.met(conflict).await?,
///             Ok(()) => break retry.end().await,
///         }
///     }
///     Ok(())
/// }
/// ```
pub struct Retry<M: LineLocks> {
    database: Database<M>,
    attempts: u32,
    /// When it met others for the first time.
    since: Option<Time>,
    /// Of an elder.
    place: Option<Place<M>>,
    /// After so many attempts it is an elder, or again one.
    elder_after: u32,
    was_too_late: bool,
}

impl<M: LineLocks> std::fmt::Debug for Retry<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Retry");
        out.field("attempts", &self.attempts).field("is_elder", &self.is_elder()).finish()
    }
}

impl<M: LineLocks> Retry<M> {
    /// How often it has met others.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether others make way for it, or will.
    pub fn is_elder(&self) -> bool {
        self.place.is_some()
    }

    /// Waits until it is its turn to begin, which nearly always is at once: unless an elder is at
    /// work, or it is one itself and others are before it. Not for ever: then it may begin all the
    /// same.
    pub async fn turn(&mut self) {
        let database = &self.database;
        if database.node().settings().elder_after == 0 {
            return;
        }
        if let Some(place) = &self.place {
            let until = self.deadline();
            if !place.turn(until).await {
                // It was slow, or what is in its way will not go: then all others are not to wait
                // for it all the time.
                self.place = None;
                self.elder_after = self.attempts.saturating_mul(2);
            }
            database.drop_block();
            return;
        }
        let looks = self.attempts > 0 || database.count_begin().is_multiple_of(LOOKS);
        if looks && !database.sees_no_elder() {
            database.make_way(self.deadline()).await;
        }
    }

    /// The transaction has met others, and was aborted. Waits before the next attempt.
    ///
    /// # Errors
    /// [`TxnError::Contended`] after [`Settings::retry_for`](crate::Settings::retry_for).
    pub async fn met(&mut self, conflict: Conflict) -> Result<(), TxnError> {
        self.attempts = self.attempts.saturating_add(1);
        self.was_too_late |= conflict == Conflict::TooLate;
        let database = self.database.clone();
        let (handle, settings) = (database.memory().handle(), database.node().settings());
        let now = handle.now();
        let since = *self.since.get_or_insert(now);
        if now >= since + settings.retry_for {
            let (attempts, waited) = (self.attempts, now - since);
            return Err(TxnError::Contended { attempts, waited, last: conflict });
        }
        if settings.elder_after > 0 && self.attempts >= self.elder_after && self.place.is_none() {
            self.place = database.become_elder().await;
        }
        let pause = match &self.place {
            Some(_) => database.pause(self.attempts.min(DOUBLINGS_OF_ELDERS)),
            None => database.pause(self.attempts),
        };
        handle.sleep(pause).await;
        Ok(())
    }

    /// Begins the next attempt.
    ///
    /// Under timestamp ordering it may have what [`Database::begin`] does not give, since a part of
    /// a transaction must not: a [later timestamp](crate::Settings::extend_timestamps) than it has
    /// begun with, and [leases](crate::Settings::read_lease). Who was too late all the same goes
    /// without leases, which may have been its own.
    ///
    /// # Errors
    /// As [`Database::begin`].
    pub async fn begin(&self) -> Result<Transaction<M>, TxnError> {
        let mut transaction = self.database.begin().await?;
        let settings = self.database.node().settings();
        let lease = if self.was_too_late { 0 } else { settings.read_lease };
        transaction.allow(lease, settings.extend_timestamps);
        Ok(transaction)
    }

    /// The transaction has ended, and others can go on at once; where this is dropped instead, they
    /// can soon.
    pub async fn end(self) {
        if let Some(place) = self.place {
            place.leave().await;
        }
    }

    fn deadline(&self) -> Time {
        let database = &self.database;
        let since = self.since.unwrap_or_else(|| database.memory().handle().now());
        since + database.node().settings().retry_for
    }
}

impl<M: LineLocks> Database<M> {
    /// The attempts of a transaction to come.
    pub fn retry(&self) -> Retry<M> {
        let elder_after = self.node().settings().elder_after;
        let (database, place, was_too_late) = (self.clone(), None, false);
        Retry { database, attempts: 0, since: None, place, elder_after, was_too_late }
    }

    /// Runs a transaction and commits it; again, if it meets others, with growing random pauses.
    /// `body` may run often, so it must have no effect but by the transaction, and its result.
    ///
    /// What was aborted [often](crate::Settings::elder_after) becomes an elder: others wait before
    /// they begin, so it gets through. A `body` that runs another transaction inside may so wait
    /// for itself, and is slow then.
    ///
    /// An error of `body` that is no conflict aborts the transaction and is returned, if what was
    /// read by then is [true](Transaction::validate); otherwise the transaction is tried again.
    ///
    /// # Errors
    /// Those of `body` and of the commit; [`TxnError::Contended`] after
    /// [`Settings::retry_for`](crate::Settings::retry_for).
    pub async fn run<R>(
        &self,
        mut body: impl AsyncFnMut(&mut Transaction<M>) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        let mut retry = self.retry();
        loop {
            retry.turn().await;
            match self.attempt_in(retry.begin().await?, &mut body).await {
                Err(TxnError::Conflict(conflict)) => retry.met(conflict).await?,
                other => {
                    retry.end().await;
                    return other.map(|(result, _)| result);
                }
            }
        }
    }

    /// Runs a transaction and commits it, once. Returns what `body` does, and the commit's
    /// timestamp.
    ///
    /// # Errors
    /// Conflicts: it may be tried again. Else as [`run`](Database::run).
    pub async fn attempt<R>(
        &self,
        body: impl AsyncFnMut(&mut Transaction<M>) -> Result<R, TxnError>,
    ) -> Result<(R, Timestamp), TxnError> {
        self.attempt_in(self.begin().await?, body).await
    }

    async fn attempt_in<R>(
        &self,
        mut transaction: Transaction<M>,
        mut body: impl AsyncFnMut(&mut Transaction<M>) -> Result<R, TxnError>,
    ) -> Result<(R, Timestamp), TxnError> {
        let error = match body(&mut transaction).await {
            Ok(result) => return transaction.commit().await.map(|cts| (result, cts)),
            Err(error) => error,
        };
        // What another error is about may never have been so.
        match (error.conflict(), transaction.validate().await) {
            (None, Err(other @ (TxnError::Conflict(_) | TxnError::NotLasting(_)))) => Err(other),
            _ => Err(error),
        }
    }

    /// How long to wait before a transaction is tried again that has been tried so often.
    pub fn pause(&self, attempts: u32) -> Duration {
        let settings = self.node().settings();
        let doubled = settings.pause.saturating_mul(1 << attempts.min(DOUBLINGS_MAX));
        let most = doubled.min(settings.pause_max).as_nanos() as u64;
        Duration::from_nanos(self.memory().handle().random_below(most.max(1)))
    }
}
