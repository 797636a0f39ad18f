//! The table and its rows. Each content is unique, and a torn row can be recognised.

use latchwork_txn::schema::{ColumnType, Order};
use latchwork_txn::{Schema, TxnError};

/// The name of the table.
pub(super) const TABLE: &str = "rows";

/// The number of buckets, the keys of the secondary index.
pub(super) const BUCKETS: u64 = 3;

/// The lengths of the filler in words. With the longest one, a row outgrows its line and moves.
const FILLERS: [usize; 6] = [0, 1, 2, 3, 5, 20];

/// The place of the head in a row.
pub(super) const HEAD: usize = 0;

/// A table with an index of buckets. `rows_per_line` 0: as many as fit.
pub(super) fn schema(rows_per_line: u64) -> Result<Schema, TxnError> {
    let mut builder = Schema::builder(TABLE)
        .column("id", ColumnType::U32)
        .column("head", ColumnType::U64)
        .column("tail", ColumnType::U64)
        .column("bucket", ColumnType::U8)
        .column("filler", ColumnType::Blob)
        .primary_key(["id"])
        .index("by_bucket", [("bucket", Order::Ascending)]);
    if rows_per_line > 0 {
        builder = builder.rows_per_line(rows_per_line as u16);
    }
    Ok(builder.build()?)
}

/// The bytes of key number `n`. Keys sort like their numbers.
pub(super) fn key(n: u64) -> [u8; 4] {
    (n as u32).to_be_bytes()
}

/// The number of a key.
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    let bytes: [u8; 4] = bytes.try_into().ok()?;
    Some(u64::from(u32::from_be_bytes(bytes)))
}

/// The content of a row.
///
/// ```text
///   head 8 | tail 8 | bucket 1 | filler that the tail determines
/// ```
///
/// A write of the whole row sets head and tail. A change of a part sets only the head. Each head is
/// written only once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Content {
    pub(super) head: u64,
    pub(super) tail: u64,
}

impl Content {
    /// A content that no other step writes.
    pub(super) fn unique(id: u64) -> Content {
        Content { head: id, tail: id }
    }

    pub(super) fn bucket(self) -> u8 {
        // Other digits than those that the length of the filler depends on.
        (self.tail / FILLERS.len() as u64 % BUCKETS) as u8
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let mut bytes = self.head.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.tail.to_le_bytes());
        bytes.push(self.bucket());
        let words = FILLERS[(self.tail % FILLERS.len() as u64) as usize];
        bytes.extend(std::iter::repeat_n(self.tail as u8, 8 * words));
        bytes
    }

    /// The content of `bytes`. Fails if the bytes are not one whole row.
    pub(super) fn decode(bytes: &[u8]) -> Result<Content, String> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
            word.map(u64::from_le_bytes).ok_or_else(|| format!("a short row {bytes:02x?}"))
        };
        let content = Content { head: word(HEAD)?, tail: word(HEAD + 8)? };
        if content.encode() == bytes { Ok(content) } else { Err(format!("torn: {bytes:02x?}")) }
    }
}
