//! [`Message`]: the messages between coordinators and participants.
//!
//! ```text
//!   coordinator                                    participant
//!     operations ───────────────────────────────►  runs them in a transaction of its own
//!                ◄─────────────────────── answers
//!     prepare ──────────────────────────────────►  locks, stages; validates; logs prepare record
//!                ◄─── yes, or held, or done, or no
//!     validate (to held parts) ─────────────────►  validates; logs prepare record
//!                ◄───────────── yes, or done, or no
//!     decision record, durable
//!     commit ───────────────────────────────────►  installs, unlocks
//!                ◄────────────────────────── ended
//!                ◄──────────────────── ask          from a voter that hears nothing
//!     told  ────────────────────────────────────►
//! ```
//!
//! With a synchronous log, each record is durable before the next message.

use latchwork_txn::Timestamp;

use crate::bytes::{Reader, Writer};
use crate::operation::{Fault, OperationAnswer, PartitionOperation};

/// One message about one transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    /// The transaction id. Its node is the coordinator.
    pub(crate) id: Timestamp,
    /// The number of a request. The coordinator counts its requests to each participant from 1. A
    /// reply has the number of its request. An abort has the number `u32::MAX`, and a request for
    /// the decision has 0.
    pub(crate) number: u32,
    pub(crate) body: Body,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    Request(Request),
    Reply(Reply),
    /// A participant requests the decision.
    Ask,
    /// The answer to [`Body::Ask`].
    Decided(Fate),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// `ts` is the timestamp of the transaction under timestamp ordering.
    Operations {
        ts: Timestamp,
        operations: Vec<PartitionOperation>,
    },
    /// Validates the reads of the participant up to now.
    Check,
    Prepare,
    Validate,
    Commit(Timestamp),
    /// The ordinary commit of the only participant.
    CommitAlone,
    Abort,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// The answers up to the first failure.
    Answers(Vec<OperationAnswer>, Option<Fault>),
    /// A yes vote: the participant can commit at any timestamp that is not below `proposed`.
    Yes {
        proposed: Timestamp,
        /// A prepare record is in the log.
        logged: bool,
    },
    /// The participant has locked and staged, and still has to be validated.
    Held,
    /// The participant has only read and has ended. The commit timestamp must not be below this
    /// one.
    Done(Timestamp),
    /// The participant has committed and ended.
    Ended(Timestamp),
    /// All reads of the participant are unchanged.
    Checked,
    /// The request failed. The participant has aborted, will abort or waits for an abort. With
    /// [`Fault::InDoubt`] the participant may have committed.
    No(Fault),
}

/// The decision on a transaction, as its coordinator knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// There is no decision yet.
    Open,
    Committed(Timestamp),
    /// Aborted, or unknown to the coordinator (presumed abort). Also the state after all
    /// participants have confirmed a commit, when no participant asks any more.
    Aborted,
}

/// The bytes of a reply. A reply of more than `max` bytes is replaced by an error. Without any
/// answer the coordinator would repeat its request until the deadline.
pub(crate) fn encode_reply(id: Timestamp, number: u32, reply: Reply, max: usize) -> Vec<u8> {
    let bytes = Message { id, number, body: Body::Reply(reply) }.encode();
    if bytes.len() <= max {
        return bytes;
    }
    let what = format!(
        "an answer of {} bytes is too long for a message: {max}; read fewer rows at a time",
        bytes.len()
    );
    Message { id, number, body: Body::Reply(Reply::No(Fault::Other(what))) }.encode()
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.u64(self.id.0);
        to.u32(self.number);
        match &self.body {
            Body::Request(request) => request.encode(&mut to),
            Body::Reply(reply) => reply.encode(&mut to),
            Body::Ask => to.u8(30),
            Body::Decided(Fate::Open) => to.u8(31),
            Body::Decided(Fate::Aborted) => to.u8(32),
            Body::Decided(Fate::Committed(cts)) => {
                to.u8(33);
                to.u64(cts.0);
            }
        }
        to.0
    }

    /// Decodes a message; `None` when it is damaged or of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Message> {
        let from = &mut Reader(bytes);
        let (id, number) = (Timestamp(from.u64()?), from.u32()?);
        let body = match from.u8()? {
            kind @ 0..10 => Body::Request(Request::decode(kind, from)?),
            kind @ 10..30 => Body::Reply(Reply::decode(kind, from)?),
            30 => Body::Ask,
            31 => Body::Decided(Fate::Open),
            32 => Body::Decided(Fate::Aborted),
            33 => Body::Decided(Fate::Committed(Timestamp(from.u64()?))),
            _ => return None,
        };
        Some(Message { id, number, body })
    }
}

impl Request {
    fn encode(&self, to: &mut Writer) {
        match self {
            Request::Operations { ts, operations } => {
                to.u8(0);
                to.u64(ts.0);
                to.u32(operations.len() as u32);
                operations.iter().for_each(|operation| operation.encode(to));
            }
            Request::Check => to.u8(1),
            Request::Prepare => to.u8(2),
            Request::Validate => to.u8(3),
            Request::Commit(cts) => {
                to.u8(4);
                to.u64(cts.0);
            }
            Request::CommitAlone => to.u8(5),
            Request::Abort => to.u8(6),
        }
    }

    fn decode(kind: u8, from: &mut Reader<'_>) -> Option<Request> {
        Some(match kind {
            0 => {
                let ts = Timestamp(from.u64()?);
                let count = from.count()?;
                let operations = (0..count).map(|_| PartitionOperation::decode(from));
                Request::Operations { ts, operations: operations.collect::<Option<_>>()? }
            }
            1 => Request::Check,
            2 => Request::Prepare,
            3 => Request::Validate,
            4 => Request::Commit(Timestamp(from.u64()?)),
            5 => Request::CommitAlone,
            6 => Request::Abort,
            _ => return None,
        })
    }
}

impl Reply {
    fn encode(&self, to: &mut Writer) {
        match self {
            Reply::Answers(answers, fault) => {
                to.u8(10 + u8::from(fault.is_some()));
                to.u32(answers.len() as u32);
                answers.iter().for_each(|answer| answer.encode(to));
                fault.iter().for_each(|fault| fault.encode(to));
            }
            Reply::Yes { proposed, logged } => {
                to.u8(12 + u8::from(*logged));
                to.u64(proposed.0);
            }
            Reply::Held => to.u8(14),
            Reply::Done(floor) => {
                to.u8(15);
                to.u64(floor.0);
            }
            Reply::Ended(cts) => {
                to.u8(16);
                to.u64(cts.0);
            }
            Reply::Checked => to.u8(17),
            Reply::No(fault) => {
                to.u8(18);
                fault.encode(to);
            }
        }
    }

    fn decode(kind: u8, from: &mut Reader<'_>) -> Option<Reply> {
        Some(match kind {
            10 | 11 => {
                let count = from.count()?;
                let answers =
                    (0..count).map(|_| OperationAnswer::decode(from)).collect::<Option<_>>()?;
                let fault = if kind == 11 { Some(Fault::decode(from)?) } else { None };
                Reply::Answers(answers, fault)
            }
            12 | 13 => Reply::Yes { proposed: Timestamp(from.u64()?), logged: kind == 13 },
            14 => Reply::Held,
            15 => Reply::Done(Timestamp(from.u64()?)),
            16 => Reply::Ended(Timestamp(from.u64()?)),
            17 => Reply::Checked,
            18 => Reply::No(Fault::decode(from)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use latchwork_txn::TableId;
    use proptest::prelude::*;

    use super::*;
    use crate::operation::RowOperation;

    fn some() -> Vec<Body> {
        let of = |what| PartitionOperation { table: TableId(7), what };
        let key = || vec![1, 2, 3];
        let (from, to) = (Bound::Included(key()), Bound::Excluded(vec![9]));
        let operations = vec![
            of(RowOperation::Get { key: key(), for_update: true }),
            of(RowOperation::Get { key: key(), for_update: false }),
            of(RowOperation::Scan { index: None, from, to, descending: true, limit: 3 }),
            of(RowOperation::Scan {
                index: Some(2),
                from: Bound::Unbounded,
                to: Bound::Unbounded,
                descending: false,
                limit: u32::MAX,
            }),
            of(RowOperation::Insert { key: key(), value: vec![5; 300] }),
            of(RowOperation::Update { key: key(), value: Vec::new() }),
            of(RowOperation::UpdatePart { key: key(), offset: 9, bytes: vec![4; 4] }),
            of(RowOperation::Delete { key: key() }),
        ];
        let answers = vec![
            OperationAnswer::Done,
            OperationAnswer::Row(None),
            OperationAnswer::Row(Some(vec![3; 9])),
            OperationAnswer::Rows(vec![(key(), vec![8; 8]), (Vec::new(), Vec::new())]),
        ];
        let ts = Timestamp(99);
        vec![
            Body::Request(Request::Operations { ts, operations }),
            Body::Request(Request::Check),
            Body::Request(Request::Prepare),
            Body::Request(Request::Validate),
            Body::Request(Request::Commit(ts)),
            Body::Request(Request::CommitAlone),
            Body::Request(Request::Abort),
            Body::Reply(Reply::Answers(answers.clone(), None)),
            Body::Reply(Reply::Answers(answers, Some(Fault::NotFound))),
            Body::Reply(Reply::Yes { proposed: ts, logged: true }),
            Body::Reply(Reply::Yes { proposed: ts, logged: false }),
            Body::Reply(Reply::Held),
            Body::Reply(Reply::Done(ts)),
            Body::Reply(Reply::Ended(ts)),
            Body::Reply(Reply::Checked),
            Body::Reply(Reply::No(Fault::Conflict(2))),
            Body::Reply(Reply::No(Fault::RowTooLong { len: 3, max: 2 })),
            Body::Reply(Reply::No(Fault::OutsideValue { offset: 1, len: 2, value_len: 2 })),
            Body::Reply(Reply::No(Fault::Other("there is no table".into()))),
            Body::Reply(Reply::No(Fault::NotLogged("the disk is full".into()))),
            Body::Reply(Reply::No(Fault::InDoubt)),
            Body::Reply(Reply::No(Fault::NotDurable("the log is late".into()))),
            Body::Ask,
            Body::Decided(Fate::Open),
            Body::Decided(Fate::Aborted),
            Body::Decided(Fate::Committed(ts)),
        ]
    }

    #[test]
    fn a_reply_that_no_message_can_carry_is_replaced_by_an_error() {
        let reply = || Reply::Answers(vec![OperationAnswer::Row(Some(vec![7; 500]))], None);
        let whole = encode_reply(Timestamp(9), 4, reply(), 1000);
        let decoded = Message::decode(&whole).expect("a whole message");
        assert_eq!(decoded.body, Body::Reply(reply()));

        let cut = encode_reply(Timestamp(9), 4, reply(), whole.len() - 1);
        let Some(Message { id, number, body: Body::Reply(Reply::No(Fault::Other(what))) }) =
            Message::decode(&cut)
        else {
            panic!("no error: {cut:?}");
        };
        assert_eq!((id, number), (Timestamp(9), 4));
        assert!(what.contains("too long for a message: "), "{what}");
    }

    #[test]
    fn messages_are_what_they_were_and_no_beginning_of_one_is_one() {
        for body in some() {
            let message = Message { id: Timestamp(12345), number: 3, body };
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes).as_ref(), Some(&message));
            for len in 0..bytes.len() {
                assert_ne!(Message::decode(&bytes[..len]).as_ref(), Some(&message), "{len}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Some(message));
            }
        }

        #[test]
        fn damaged_messages_are_borne(at in 0_usize..400, to in any::<u8>(), which in 0_usize..25) {
            let body = some().swap_remove(which);
            let mut bytes = Message { id: Timestamp(1), number: 3, body }.encode();
            let at = at % bytes.len();
            bytes[at] = to;
            let _ = Message::decode(&bytes);
        }
    }
}
