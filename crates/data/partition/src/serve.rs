//! Serves the requests of other nodes. Each request belongs to a transaction, whose part here is a
//! [`Participant`].

use std::ops::{Bound, ControlFlow};
use std::rc::Rc;

use latchwork_coherence::{LineLocks, UserMessages};
use latchwork_record::Record;
use latchwork_runtime::Time;
use latchwork_strict::strict_assert;
use latchwork_txn::{Prepared, Range, Scheme, Timestamp, Transaction, TxnError, Validated};
use latchwork_wal::{Log, LogRecord, Position, WalError};

use crate::fragments::Place;
use crate::inner::Inner;
use crate::message::{Body, Fate, Message, Reply, Request};
use crate::operation::{Fault, OperationAnswer, PartitionOperation, RowOperation};
use crate::participant::{Participant, Stage};
use crate::record;

/// The result of a step of a participant.
enum Left<M: LineLocks> {
    Goes(Stage<M>, Reply),
    Ended(Option<Reply>),
}

impl<M: LineLocks + UserMessages> Inner<M> {
    pub(crate) fn requested(
        self: &Rc<Self>,
        from: Place,
        id: Timestamp,
        number: u32,
        request: Request,
    ) {
        let mut participants = self.participants.borrow_mut();
        let Some(participant) = participants.get_mut(&id) else {
            drop(participants);
            return match (self.ended(id), request) {
                (Some(_), Request::Abort) => {}
                (Some(Some(last)), _) => self.reply(from, id, number, last),
                (Some(None), _) => self.reply(from, id, number, Reply::No(Fault::gone())),
                (None, request) => self.unknown(from, id, number, request),
            };
        };
        participant.heard = self.now();
        if request == Request::Abort {
            return match participant.stage {
                Stage::Busy => participant.aborts = true,
                _ => {
                    drop(participants);
                    self.abort(id);
                }
            };
        }
        if number <= participant.number {
            // A repeated request: the answer is sent again, if there is one.
            let answer = participant.answer.clone().filter(|_| number == participant.number);
            drop(participants);
            return answer.into_iter().for_each(|reply| self.reply(from, id, number, reply));
        }
        if matches!(participant.stage, Stage::Busy) {
            return;
        }
        (participant.number, participant.answer) = (number, None);
        let stage = std::mem::replace(&mut participant.stage, Stage::Busy);
        drop(participants);
        self.work(id, stage, request);
    }

    /// Handles a request of a transaction for which this worker has neither a participant nor a
    /// last answer.
    fn unknown(self: &Rc<Self>, from: Place, id: Timestamp, number: u32, request: Request) {
        let ts = match &request {
            Request::Operations { ts, .. } => *ts,
            Request::Abort => return,
            // Only a participant that has voted yes gets a commit request. So there was a
            // participant here, which has ended. After a commit decision it can have ended only by
            // its commit.
            Request::Commit(cts) => return self.reply(from, id, number, Reply::Ended(*cts)),
            // The part may have committed or aborted, and this node no longer knows which.
            Request::CommitAlone => {
                return self.reply(from, id, number, Reply::No(Fault::InDoubt));
            }
            Request::Check | Request::Prepare | Request::Validate => {
                return self.reply(from, id, number, Reply::No(Fault::gone()));
            }
        };
        if number != 1 {
            // The participant has ended here, and its earlier work is lost.
            return self.reply(from, id, number, Reply::No(Fault::gone()));
        }
        let Some(operation) = self.database.memory().try_enter() else {
            // Rare: before an operation the worker must publish that it reads memory again, so that
            // freed lines are not reused too early.
            let (inner, memory) = (self.clone(), self.database.memory().clone());
            let entered = async move {
                if memory.enter().await.is_ok() {
                    inner.requested(from, id, number, request);
                }
            };
            drop(self.database.memory().handle().spawn_service(entered));
            return;
        };
        let transaction = match self.database.begin_at(ts) {
            Ok(transaction) => transaction,
            Err(error) => return self.reply(from, id, number, Reply::No(Fault::from(&error))),
        };
        let participant = Participant {
            coordinator: from,
            number,
            answer: None,
            stage: Stage::Busy,
            aborts: false,
            heard: self.now(),
            record: Record::off(),
            _operation: operation,
        };
        let stage = Stage::Active(transaction);
        strict_assert!(!self.participants.borrow().contains_key(&id), "a participant begins twice");
        self.participants.borrow_mut().insert(id, participant);
        self.tend();
        self.work(id, stage, request);
        strict_assert!(
            self.participants.borrow().contains_key(&id),
            "a participant works before it is known"
        );
    }

    /// Handles a request in a task of its own.
    fn work(self: &Rc<Self>, id: Timestamp, stage: Stage<M>, request: Request) {
        let inner = self.clone();
        let task = async move {
            let left = inner.step(id, stage, request).await;
            inner.stepped(id, left);
        };
        drop(self.database.memory().handle().spawn_service(task));
    }

    fn stepped(self: &Rc<Self>, id: Timestamp, left: Left<M>) {
        let mut participants = self.participants.borrow_mut();
        let Some(participant) = participants.get_mut(&id) else { return };
        participant.heard = self.now();
        let (to, number) = (participant.coordinator, participant.number);
        match left {
            Left::Goes(stage, reply) => {
                participant.stage = stage;
                participant.answer = Some(reply.clone());
                let aborts = participant.aborts;
                drop(participants);
                match aborts {
                    true => self.abort(id),
                    false => self.reply(to, id, number, reply),
                }
            }
            Left::Ended(reply) => {
                drop(participants);
                self.end(id, reply.clone());
                reply.into_iter().for_each(|reply| self.reply(to, id, number, reply));
            }
        }
    }

    async fn step(&self, id: Timestamp, stage: Stage<M>, request: Request) -> Left<M> {
        match (stage, request) {
            (Stage::Active(mut transaction), Request::Operations { operations, .. }) => {
                let mut answers = Vec::new();
                let mut fault = None;
                for operation in &operations {
                    match self.operate(&mut transaction, operation).await {
                        Ok(answer) => answers.push(answer),
                        Err(error) => {
                            fault = Some(Fault::from(&error));
                            break;
                        }
                    }
                }
                Left::Goes(Stage::Active(transaction), Reply::Answers(answers, fault))
            }
            (Stage::Active(mut transaction), Request::Check) => {
                let reply = match transaction.validate().await {
                    Ok(()) => Reply::Checked,
                    Err(error) => Reply::No(Fault::from(&error)),
                };
                Left::Goes(Stage::Active(transaction), reply)
            }
            (Stage::Active(transaction), Request::CommitAlone) => {
                let reply = match transaction.commit().await {
                    Ok(cts) => Reply::Ended(cts),
                    Err(error) => Reply::No(Fault::from(&error)),
                };
                Left::Ended(Some(reply))
            }
            (Stage::Active(transaction), Request::Prepare) => match transaction.prepare().await {
                Err(error) => no(&error),
                Ok(prepared) if prepared.needs_validation() => {
                    Left::Goes(Stage::Held(prepared), Reply::Held)
                }
                Ok(prepared) => self.vote(id, prepared, false).await,
            },
            (Stage::Held(prepared), Request::Validate) => self.vote(id, prepared, true).await,
            (Stage::Voted(part), Request::Commit(cts)) => self.install(id, part, cts).await,
            (stage, _) => {
                // A coordinator sends its requests in order, so the sender is of another version or
                // faulty.
                let fault = Fault::Other("this is not the turn of that message".into());
                Left::Goes(stage, Reply::No(fault))
            }
        }
    }

    /// Validates the part, and promises to follow the decision.
    async fn vote(&self, id: Timestamp, prepared: Prepared<M>, all_hold: bool) -> Left<M> {
        // `validate` is called even if `needs_validation` is false: under timestamp ordering it
        // raises the read timestamps that were left for the end.
        let mut part = match prepared.validate().await {
            Ok(part) => part,
            Err(error) => return no(&error),
        };
        // Each record of the transaction must have a timestamp that is not below the transaction
        // id. So the clock moves above the id before it proposes.
        self.database.node().clock().raise(id);
        let proposed = match part.propose() {
            Ok(proposed) => proposed,
            Err(error) => {
                part.abort().await;
                return no(&error);
            }
        };
        strict_assert!(
            proposed >= id || self.database.scheme() == Scheme::TimestampOrdering,
            "a proposal is below the transaction's id"
        );
        let record = part.take_record();
        if !part.has_writes() {
            let through = all_hold || self.database.scheme() == Scheme::TimestampOrdering;
            if through {
                // All parts have prepared, so this validation comes after the common moment of all
                // parts. After it, this part is no longer needed. Under timestamp ordering the
                // parts need no common moment.
                self.bring(id, record);
                part.abort().await;
                return Left::Ended(Some(Reply::Done(proposed)));
            }
            self.keep_record(id, record);
            let reply = Reply::Yes { proposed, logged: false };
            return Left::Goes(Stage::Voted(part), reply);
        }
        if let Err(error) = self.log_prepare(id, proposed, &mut part).await {
            // The prepare record may be durable or not: a prepare record without a decision record
            // has no effect.
            part.abort().await;
            return no(&TxnError::not_logged(error));
        }
        self.keep_record(id, record);
        let logged = self.database.node().log().is_some();
        Left::Goes(Stage::Voted(part), Reply::Yes { proposed, logged })
    }

    async fn log_prepare(
        &self,
        id: Timestamp,
        proposed: Timestamp,
        part: &mut Validated<M>,
    ) -> Result<(), WalError> {
        if let Some(log) = self.database.node().log() {
            let mut group = record::prepare(id, proposed)?;
            part.put_into(&mut group)?;
            let position = self.append(log, &group).await?;
            let handle = self.database.memory().handle();
            log.acknowledged(handle, &position, self.log_deadline()).await?;
            self.site.count(|counts| &counts.prepared, 1);
        }
        part.seal();
        Ok(())
    }

    /// Appends a log record. After an error the record is not in the log and never will be.
    pub(crate) async fn append(&self, log: &Log, group: &LogRecord) -> Result<Position, WalError> {
        let handle = self.database.memory().handle();
        let deadline = self.log_deadline();
        loop {
            match log.append(group) {
                Err(WalError::Backlog { .. }) => log.room(handle, deadline).await?,
                other => return other,
            }
        }
    }

    /// The deadline for the log, counted from now.
    pub(crate) fn log_deadline(&self) -> Time {
        self.now() + self.database.node().settings().log_deadline
    }

    async fn install(&self, id: Timestamp, part: Validated<M>, cts: Timestamp) -> Left<M> {
        if part.has_writes() {
            // If memory fails, a task continues the commit.
            let _ = part.commit(cts).await;
        } else {
            part.abort().await;
        }
        let kept =
            self.participants.borrow_mut().get_mut(&id).map(|one| std::mem::take(&mut one.record));
        kept.into_iter().for_each(|record| self.bring(id, record));
        Left::Ended(Some(Reply::Ended(cts)))
    }

    fn keep_record(&self, id: Timestamp, record: Record) {
        if let Some(participant) = self.participants.borrow_mut().get_mut(&id) {
            participant.record = record;
        }
    }

    fn bring(&self, id: Timestamp, record: Record) {
        if let (Some(gathering), true) = (&self.site.prepare_collector, record.is_on()) {
            gathering.bring(id, record);
        }
    }

    /// Handles the coordinator's report of the decision.
    pub(crate) fn told(self: &Rc<Self>, id: Timestamp, fate: Fate) {
        let mut participants = self.participants.borrow_mut();
        let Some(participant) = participants.get_mut(&id) else { return };
        participant.heard = self.now();
        let Stage::Voted(_) = participant.stage else { return };
        match fate {
            Fate::Open => {}
            Fate::Aborted => {
                drop(participants);
                self.abort(id);
            }
            Fate::Committed(cts) => {
                let stage = std::mem::replace(&mut participant.stage, Stage::Busy);
                drop(participants);
                self.work(id, stage, Request::Commit(cts));
            }
        }
    }

    /// Aborts a participant for which no task is running.
    fn abort(self: &Rc<Self>, id: Timestamp) {
        let participant = self.participants.borrow_mut().remove(&id);
        self.end(id, None);
        let Some(Participant { stage, _operation: operation, .. }) = participant else { return };
        let task = async move {
            match stage {
                Stage::Active(transaction) => transaction.abort(),
                Stage::Held(prepared) => prepared.abort().await,
                Stage::Voted(part) => part.abort().await,
                Stage::Busy => {}
            }
            drop(operation);
        };
        drop(self.database.memory().handle().spawn_service(task));
    }

    /// Aborts participants without a vote that have not heard from their coordinator for too long,
    /// and requests missing decisions for the participants with a vote.
    pub(crate) fn look_after(self: &Rc<Self>) {
        let now = self.now();
        let (mut silent, mut asking) = (Vec::new(), Vec::new());
        for (&id, participant) in self.participants.borrow_mut().iter_mut() {
            let settings = &self.site.settings;
            match participant.stage {
                Stage::Busy => {}
                Stage::Voted(_) if now >= participant.heard + settings.ask => {
                    participant.heard = now;
                    asking.push((id, participant.coordinator));
                }
                Stage::Voted(_) => {}
                _ if now >= participant.heard + settings.idle => silent.push(id),
                _ => {}
            }
        }
        self.site.count(|counts| &counts.abandoned, silent.len() as u64);
        strict_assert!(
            silent.iter().all(|id| !asking.iter().any(|(other, _)| other == id)),
            "a participant is given up while it asks"
        );
        self.site.count(|counts| &counts.asked, asking.len() as u64);
        silent.into_iter().for_each(|id| self.abort(id));
        for (id, coordinator) in asking {
            // A failed send is ignored: the request is sent again later.
            let _ = self.send(coordinator, &Message { id, number: 0, body: Body::Ask });
        }
    }

    pub(crate) async fn operate(
        &self,
        transaction: &mut Transaction<M>,
        operation: &PartitionOperation,
    ) -> Result<OperationAnswer, TxnError> {
        let Some(table) = self.tables.get(&operation.table) else {
            return Err(TxnError::NoTable { name: format!("number {}", operation.table.0) });
        };
        match &operation.what {
            RowOperation::Get { key, for_update } => {
                let mut row = Vec::new();
                let found = match for_update {
                    false => transaction.get(table, key, &mut row).await?,
                    true => transaction.get_for_update(table, key, &mut row).await?,
                };
                return Ok(OperationAnswer::Row(found.then_some(row)));
            }
            RowOperation::Scan { index, from, to, descending, limit } => {
                let mut rows = Vec::new();
                let (from, to) = (borrowed(from), borrowed(to));
                let range = Range { from, to, descending: *descending, limit: *limit as usize };
                let visit = |key: &[u8], row: &[u8]| {
                    rows.push((key.to_vec(), row.to_vec()));
                    ControlFlow::Continue(())
                };
                match index {
                    None => transaction.scan(table, range, visit).await?,
                    Some(index) => {
                        transaction.scan_index(table, usize::from(*index), range, visit).await?
                    }
                };
                return Ok(OperationAnswer::Rows(rows));
            }
            RowOperation::Insert { key, value } => transaction.insert(table, key, value).await?,
            RowOperation::Update { key, value } => transaction.update(table, key, value).await?,
            RowOperation::UpdatePart { key, offset, bytes } => {
                transaction.update_part(table, key, *offset as usize, bytes).await?;
            }
            RowOperation::Delete { key } => transaction.delete(table, key).await?,
        }
        Ok(OperationAnswer::Done)
    }
}

fn no<M: LineLocks>(error: &TxnError) -> Left<M> {
    Left::Ended(Some(Reply::No(Fault::from(error))))
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
