//! [`Retry`]: the repetition of a transaction after conflicts.

use std::time::Duration;

use latchwork_coherence::LineLocks;
use latchwork_runtime::Time;
use latchwork_strict::strict_assert;

use crate::aged::Place;
use crate::{Conflict, Database, Timestamp, Transaction, TxnError};

/// The maximum number of doublings of the pause. The setting `pause_max` bounds the pause as well.
const DOUBLINGS_MAX: u32 = 16;
/// The same for an aged transaction. An aged transaction pauses for less, because the transactions
/// in its way end soon.
const DOUBLINGS_OF_ELDERS: u32 = 3;

/// One in this many transactions of a worker reads the queue of aged transactions before its first
/// attempt.
const LOOKS: u32 = 8;
const _: () = assert!(
    DOUBLINGS_OF_ELDERS < DOUBLINGS_MAX && DOUBLINGS_MAX < 32,
    "a pause is shifted by less than its bits"
);
const _: () = assert!(LOOKS.is_power_of_two(), "looks are even when the count wraps");

/// The attempts of one transaction, and the waits between them.
///
/// [`Database::run`] has one. A caller that begins transactions itself uses it so:
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
    /// The time of the first conflict.
    since: Option<Time>,
    /// The place in the queue, for an aged transaction.
    place: Option<Place<M>>,
    /// The number of attempts after which the transaction becomes aged, or becomes aged again.
    elder_after: u32,
    was_too_late: bool,
}

impl<M: LineLocks> std::fmt::Debug for Retry<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Retry");
        out.field("attempts", &self.attempts).field("is_elder", &self.is_aged()).finish()
    }
}

impl<M: LineLocks> Retry<M> {
    /// The number of conflicts so far.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether the transaction is aged, so that other transactions wait for it.
    pub fn is_aged(&self) -> bool {
        self.place.is_some()
    }

    /// Waits until the next attempt may begin, which is nearly always at once.
    ///
    /// An aged transaction waits for those before it in the queue of aged transactions. Any other
    /// transaction that sees a non-empty queue waits until the queue is empty. Every repeated
    /// attempt reads the queue, and one in eight first attempts. Each wait has a bound, after which
    /// the attempt may begin in any case.
    pub async fn turn(&mut self) {
        let database = &self.database;
        if database.node().settings().elder_after == 0 {
            return;
        }
        if let Some(place) = &self.place {
            let until = self.deadline();
            if !place.turn(until).await {
                // The turn did not come, or has passed. This transaction gives its place up, so
                // that the other transactions need not wait for it all the time.
                self.place = None;
                self.elder_after = self.attempts.saturating_mul(2);
            }
            database.drop_block();
            return;
        }
        let looks = self.attempts > 0 || database.count_begin().is_multiple_of(LOOKS);
        if looks && !database.sees_no_aged_transaction() {
            database.make_way(self.deadline()).await;
        }
    }

    /// Notes a conflict that aborted the transaction, and waits before the next attempt.
    ///
    /// # Errors
    /// [`TxnError::Contended`] after
    /// [`TransactionSettings::retry_for`](crate::TransactionSettings::retry_for).
    pub async fn met(&mut self, conflict: Conflict) -> Result<(), TxnError> {
        self.attempts = self.attempts.saturating_add(1);
        self.was_too_late |= conflict == Conflict::TooLate;
        let database = self.database.clone();
        let (handle, settings) = (database.memory().handle(), database.node().settings());
        let now = handle.now();
        let since = *self.since.get_or_insert(now);
        strict_assert!(now >= since, "the first attempt was in the future");
        if now >= since + settings.retry_for {
            let (attempts, waited) = (self.attempts, now - since);
            return Err(TxnError::Contended { attempts, waited, last: conflict });
        }
        if settings.elder_after > 0 && self.attempts >= self.elder_after && self.place.is_none() {
            strict_assert!(self.attempts > 0, "a conflict without an attempt");
            self.place = database.become_aged().await;
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
    /// Under timestamp ordering the attempt may take a [later
    /// timestamp](crate::TransactionSettings::extend_timestamps) than it began with, and [read
    /// leases](crate::TransactionSettings::read_lease). [`Database::begin`] permits neither,
    /// because a part of a larger transaction must not have them. After an attempt that came too
    /// late, the next attempts take no read leases. The reason: that attempt may have met a read
    /// lease of its own.
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

    /// Ends the transaction. An aged transaction leaves the queue before this call returns. If this
    /// value is dropped instead, a task leaves the queue soon after.
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
    /// The attempts of a new transaction.
    pub fn retry(&self) -> Retry<M> {
        let elder_after = self.node().settings().elder_after;
        let (database, place, was_too_late) = (self.clone(), None, false);
        Retry { database, attempts: 0, since: None, place, elder_after, was_too_late }
    }

    /// Runs a transaction and commits it. After a conflict the transaction runs again, after a
    /// random pause with a bound that grows. `body` may run often, so its only effects must be the
    /// transaction and its result.
    ///
    /// A transaction that was aborted [often](crate::TransactionSettings::elder_after) becomes
    /// aged: other transactions wait before they begin, so it usually gets through. If an aged
    /// `body` runs another transaction inside, the inner one may wait for the outer one, until
    /// [`elder_for`](crate::TransactionSettings::elder_for) has passed.
    ///
    /// If `body` returns an error that is not a conflict, the transaction
    /// [validates](Transaction::validate) its reads and aborts. After a conflict of this validation
    /// the transaction runs again. [`TxnError::NotDurable`] of this validation is returned in place
    /// of the error of `body`. Otherwise the error of `body` is returned.
    ///
    /// # Errors
    /// Those of `body` and of the commit; [`TxnError::Contended`] after
    /// [`TransactionSettings::retry_for`](crate::TransactionSettings::retry_for).
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

    /// Runs a transaction and commits it, once. Returns the result of `body` and the commit
    /// timestamp.
    ///
    /// # Errors
    /// Conflicts, after which the caller may run the transaction again; otherwise as
    /// [`run`](Database::run), without [`TxnError::Contended`].
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
        // The error of `body` may come from reads that are inconsistent together. The validation
        // detects such reads.
        match (error.conflict(), transaction.validate().await) {
            (None, Err(other @ (TxnError::Conflict(_) | TxnError::NotDurable(_)))) => Err(other),
            _ => Err(error),
        }
    }

    /// A random pause before the next attempt of a transaction that has made `attempts` attempts.
    pub fn pause(&self, attempts: u32) -> Duration {
        let settings = self.node().settings();
        let doubled = settings.pause.saturating_mul(1 << attempts.min(DOUBLINGS_MAX));
        let most = doubled.min(settings.pause_max).as_nanos() as u64;
        strict_assert!(most <= settings.pause_max.as_nanos() as u64, "a pause of {most} ns");
        Duration::from_nanos(self.memory().handle().random_below(most.max(1)))
    }
}
