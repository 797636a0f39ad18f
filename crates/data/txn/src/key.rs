//! [`Key`]: columns encoded as bytes in the order of the columns' values.

/// Builds a key from columns. Keys with the same column types compare byte by byte as their columns
/// compare one by one. No such key is a prefix of another one.
///
/// ```
/// use latchwork_txn::Key;
/// let key = |name: &str, id| Key::new().text(name).u32(id).done();
/// assert!(key("BAR", 9) < key("BAR", 256) && key("BAR", 256) < key("BARBAR", 1));
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Key(Vec<u8>);

impl Key {
    /// A key without columns.
    pub fn new() -> Key {
        Key::default()
    }

    /// Adds a number, big-endian.
    pub fn u64(self, column: u64) -> Key {
        self.raw(&column.to_be_bytes())
    }

    /// Adds a number, big-endian.
    pub fn u32(self, column: u32) -> Key {
        self.raw(&column.to_be_bytes())
    }

    /// Adds a number of one byte.
    pub fn u8(self, column: u8) -> Key {
        self.raw(&[column])
    }

    /// Adds a signed number, big-endian with the sign bit inverted.
    pub fn i64(self, column: i64) -> Key {
        self.u64(column as u64 ^ 1 << 63)
    }

    /// Adds bytes of any length: a zero byte is followed by 255, and two zero bytes end the column.
    pub fn bytes(mut self, column: &[u8]) -> Key {
        for &byte in column {
            self.0.push(byte);
            if byte == 0 {
                self.0.push(0xff);
            }
        }
        self.raw(&[0, 0])
    }

    /// Adds a text, like [`bytes`](Key::bytes).
    pub fn text(self, column: &str) -> Key {
        self.bytes(column.as_bytes())
    }

    /// Adds bytes unchanged. The column must have one length in all keys of an index. Or it must be
    /// the last column, and no value of it a prefix of another value.
    pub fn raw(mut self, column: &[u8]) -> Key {
        self.0.extend_from_slice(column);
        self
    }

    /// The bytes of the key.
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Columns = (i64, Vec<u8>, u32, Vec<u8>, u8);

    fn columns() -> impl Strategy<Value = Columns> {
        // Each column has few values, so that keys often share their first columns.
        let bytes = || vec(prop_oneof![Just(0_u8), Just(1), Just(254), Just(255)], 0..4);
        let number = prop_oneof![Just(-1_i64), Just(0), any::<i64>()];
        (number, bytes(), 0..300_u32, bytes(), any::<u8>())
    }

    fn key((number, bytes, id, more, last): &Columns) -> Vec<u8> {
        Key::new().i64(*number).bytes(bytes).u32(*id).bytes(more).u8(*last).done()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn keys_order_like_their_columns(one in columns(), mut two in columns(), same in 0..4_usize) {
            if same > 0 {
                two.0 = one.0;
            }
            if same > 1 {
                two.1.clone_from(&one.1);
            }
            if same > 2 {
                two.2 = one.2;
            }
            prop_assert_eq!(key(&one).cmp(&key(&two)), one.cmp(&two));
        }
    }
}
