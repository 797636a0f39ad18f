//! [`Mark`]: the log record that states how far the other logs were durable.

use std::collections::BTreeMap;

use latchwork_strict::strict_assert;

use super::{LogRecord, LogRecordRef, Reader};
use crate::{LogEnd, NodeId, TableId, WalError};

/// The table number that makes a mark an end record. No node has this number.
const CLOSES: TableId = TableId(u32::MAX);
const _: () = assert!(CLOSES.0 > u8::MAX as u32, "the mark of an end is no node");

/// The knowledge of one log about another log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    /// The other log is durable up to here.
    pub(crate) end: LogEnd,
    /// No commit between this mark and the next mark has seen more than the first `seen` records of
    /// the other log.
    pub(crate) seen: u64,
}

/// A log record of the log itself. It states how far the other logs were durable, as the log knew
/// it when it took the next flush batch. The last record of a closed log is also a mark, the end
/// record.
///
/// A mark states all that is known at that time. So the last mark of a log is sufficient to check
/// the other logs.
///
/// ```text
///  entry of another log   | table: its node | key: none | value: segment u64 | bytes u64 | groups u64 | seen u64 |
///  end record             | table: 2^32 - 1 | key: none | value: none |
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) known: BTreeMap<NodeId, Known>,
    /// The log was closed here.
    pub(crate) closes: bool,
}

impl Mark {
    /// The mark as a log record, without the parts that depend on its position.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, WalError> {
        let mut group = LogRecord::mark();
        strict_assert!(
            self.known.keys().all(|node| node.0 < crate::Timestamp::NODES_MAX),
            "a mark knows of no node's log"
        );
        for (node, Known { end, seen }) in &self.known {
            let mut value = [0; 32];
            strict_assert!(*seen >= end.groups, "a mark has seen less than is durable");
            for (to, number) in
                value.chunks_exact_mut(8).zip([end.segment, end.bytes, end.groups, *seen])
            {
                to.copy_from_slice(&number.to_le_bytes());
            }
            group.put(TableId(u32::from(node.0)), &[], &value)?;
        }
        if self.closes {
            group.put(CLOSES, &[], &[])?;
        }
        let mut bytes = Vec::with_capacity(group.bytes());
        group.encode(group.body_crc(), &mut bytes);
        Ok(bytes)
    }

    /// Decodes a log record that [is a mark](LogRecordRef::is_mark); `None` when no program of this
    /// version wrote it.
    pub(crate) fn decode(group: &LogRecordRef<'_>) -> Option<Mark> {
        let mut mark = Mark::default();
        for entry in group.entries() {
            if entry.table == CLOSES {
                mark.closes = true;
                continue;
            }
            let node = NodeId(u8::try_from(entry.table.0).ok()?);
            let mut value = Reader(entry.value?);
            let end = value.log_end()?;
            mark.known.insert(node, Known { end, seen: value.u64()? });
        }
        Some(mark)
    }
}
