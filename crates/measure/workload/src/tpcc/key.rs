//! The keys of tables and indexes, as bytes. The order of the bytes is the order of the keys.
//!
//! ```text
//! WAREHOUSE    W_ID                             CUSTOMER by name  W_ID | D_ID | C_LAST 0 | C_FIRST 0 | C_ID
//! DISTRICT     W_ID | D_ID                      ORDER by customer W_ID | D_ID | C_ID | not O_ID
//! CUSTOMER     W_ID | D_ID | C_ID
//! HISTORY      W_ID | D_ID | number             W_ID 4, D_ID 1, C_ID 4, O_ID 4, OL_NUMBER 1,
//! NEW-ORDER    W_ID | D_ID | O_ID               I_ID 4, number 8 bytes, big-endian
//! ORDER        W_ID | D_ID | O_ID
//! ORDER-LINE   W_ID | D_ID | O_ID | OL_NUMBER
//! ITEM         I_ID
//! STOCK        W_ID | I_ID
//! ```
//!
//! Every key in a district begins with the district's [`DistrictKey`]. So a scan from one
//! district's key to the next district's key covers exactly one district.

use latchwork_strict::strict_assert;

/// Defines keys of big-endian integers.
macro_rules! keys {
    ($(
        $(#[$meta:meta])*
        $Key:ident { $($(#[$field_meta:meta])* $field:ident: $Int:ty,)* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $Key {
            $($(#[$field_meta])* pub $field: $Int,)*
        }

        impl $Key {
            /// Length of the key in bytes.
            pub const LEN: usize = 0 $(+ size_of::<$Int>())*;

            /// The key as bytes. Bytes compare like keys.
            #[inline]
            pub fn to_bytes(self) -> [u8; Self::LEN] {
                let mut bytes = [0; Self::LEN];
                let mut rest = &mut bytes[..];
                $(
                    let (field, behind) = rest.split_at_mut(size_of::<$Int>());
                    field.copy_from_slice(&self.$field.to_be_bytes());
                    rest = behind;
                )*
                debug_assert!(rest.is_empty());
                bytes
            }

            /// Decodes a key; `None` for another length.
            #[inline]
            pub fn from_bytes(bytes: &[u8]) -> Option<$Key> {
                let rest = bytes;
                $(
                    let ($field, rest) = rest.split_first_chunk()?;
                    let $field = <$Int>::from_be_bytes(*$field);
                )*
                rest.is_empty().then_some($Key { $($field,)* })
            }
        }
    )*};
}

keys! {
    /// Key of WAREHOUSE.
    WarehouseKey {
        /// W_ID, from 1.
        warehouse: u32,
    }

    /// Key of DISTRICT, and the prefix of every key in the district.
    DistrictKey {
        /// D_W_ID.
        warehouse: u32,
        /// D_ID, 1 to 10.
        district: u8,
    }

    /// Key of CUSTOMER.
    CustomerKey {
        /// C_W_ID.
        warehouse: u32,
        /// C_D_ID.
        district: u8,
        /// C_ID, from 1.
        customer: u32,
    }

    /// Key of HISTORY. The standard defines no key for HISTORY (clause 1.3.1).
    HistoryKey {
        /// H_W_ID.
        warehouse: u32,
        /// H_D_ID.
        district: u8,
        /// The unique number from [`history_number`].
        number: u64,
    }

    /// Key of ORDER and of NEW-ORDER. The oldest order of a district comes first.
    OrderKey {
        /// O_W_ID.
        warehouse: u32,
        /// O_D_ID.
        district: u8,
        /// O_ID, from 1.
        order: u32,
    }

    /// Key of ORDER-LINE.
    OrderLineKey {
        /// OL_W_ID.
        warehouse: u32,
        /// OL_D_ID.
        district: u8,
        /// OL_O_ID.
        order: u32,
        /// OL_NUMBER, from 1.
        line: u8,
    }

    /// Key of ITEM.
    ItemKey {
        /// I_ID, from 1.
        item: u32,
    }

    /// Key of STOCK.
    StockKey {
        /// S_W_ID.
        warehouse: u32,
        /// S_I_ID.
        item: u32,
    }
}

impl CustomerKey {
    /// The district that the customer belongs to.
    pub fn district_key(self) -> DistrictKey {
        DistrictKey { warehouse: self.warehouse, district: self.district }
    }
}

impl OrderKey {
    /// The district that the order belongs to.
    pub fn district_key(self) -> DistrictKey {
        DistrictKey { warehouse: self.warehouse, district: self.district }
    }
}

/// The highest number of a run on one database.
pub const RUN_MAX: u16 = u16::MAX - 1;

/// The number of row `sequence` of HISTORY that worker `worker` of run `run` writes. `run` is at
/// most [`RUN_MAX`]. The number differs from all numbers of the initial population, which are
/// customer numbers.
pub fn history_number(run: u16, worker: u16, sequence: u32) -> u64 {
    strict_assert!(run <= RUN_MAX, "run {run} has the numbers of the population");
    (u64::from(run) + 1) << 48 | u64::from(worker) << 32 | u64::from(sequence)
}

/// Replaces the contents of `out` by a prefix of keys in the index by name. All customers of the
/// district with the last name `last` have this prefix.
pub fn customer_name_prefix(district: DistrictKey, last: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&district.to_bytes());
    out.extend_from_slice(last);
    // Zero is below every letter, so a name sorts before each longer name that begins with it.
    out.push(0);
}

/// Replaces the contents of `out` by the key of a customer in the index by name: district, last
/// name, first name (clause 2.5.2.2), number.
pub fn customer_name_key(customer: CustomerKey, last: &[u8], first: &[u8], out: &mut Vec<u8>) {
    customer_name_prefix(customer.district_key(), last, out);
    out.extend_from_slice(first);
    out.push(0);
    out.extend_from_slice(&customer.customer.to_be_bytes());
}

/// The customer of a key in the index by name. `None` if the key is too short.
pub fn customer_of_name_key(key: &[u8]) -> Option<CustomerKey> {
    let (head, _) = key.split_first_chunk::<{ DistrictKey::LEN }>()?;
    let (_, tail) = key.get(DistrictKey::LEN..)?.split_last_chunk::<4>()?;
    let DistrictKey { warehouse, district } = DistrictKey::from_bytes(head)?;
    Some(CustomerKey { warehouse, district, customer: u32::from_be_bytes(*tail) })
}

/// Bytes of a key in the index of orders by customer.
pub const ORDER_BY_CUSTOMER_LEN: usize = CustomerKey::LEN + 4;

/// The key of an order in the index by customer. The newest order of a customer comes first. So a
/// scan from the bytes of the [`CustomerKey`] finds the newest order first.
pub fn order_by_customer_key(customer: CustomerKey, order: u32) -> [u8; ORDER_BY_CUSTOMER_LEN] {
    let mut key = [0; ORDER_BY_CUSTOMER_LEN];
    key[..CustomerKey::LEN].copy_from_slice(&customer.to_bytes());
    key[CustomerKey::LEN..].copy_from_slice(&(!order).to_be_bytes());
    key
}

/// The customer and the order of a key in the index by customer. `None` for another length.
pub fn order_of_customer_key(key: &[u8]) -> Option<(CustomerKey, OrderKey)> {
    let (head, tail) = key.split_first_chunk::<{ CustomerKey::LEN }>()?;
    let customer = CustomerKey::from_bytes(head)?;
    let order = !u32::from_be_bytes(tail.try_into().ok()?);
    let CustomerKey { warehouse, district, .. } = customer;
    Some((customer, OrderKey { warehouse, district, order }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_order_as_their_fields_do() {
        let numbers = [0, 1, 255, 256, 65_535, 65_536, u32::MAX];
        let mut keys = Vec::new();
        for warehouse in numbers {
            for district in [1, 10, 255] {
                for order in numbers {
                    for line in [1, 15] {
                        keys.push(OrderLineKey { warehouse, district, order, line });
                    }
                }
            }
        }
        assert!(keys.is_sorted());
        assert!(keys.windows(2).all(|pair| pair[0].to_bytes() < pair[1].to_bytes()));
        for key in keys {
            assert_eq!(OrderLineKey::from_bytes(&key.to_bytes()), Some(key));
        }
        assert_eq!(OrderLineKey::from_bytes(&[0; OrderLineKey::LEN + 1]), None);
        assert_eq!(OrderLineKey::from_bytes(&[0; OrderLineKey::LEN - 1]), None);
    }

    #[test]
    fn customers_are_found_by_last_name_in_the_order_of_first_names() {
        let key = |customer, last: &str, first: &str| {
            let key = CustomerKey { warehouse: 3, district: 7, customer };
            let mut out = Vec::new();
            customer_name_key(key, last.as_bytes(), first.as_bytes(), &mut out);
            assert_eq!(customer_of_name_key(&out), Some(key));
            out
        };
        let sorted = [
            key(9, "BAR", "Z"),
            key(2, "BARBAR", "A"),
            key(3, "BARBAR", "AB"),
            key(1, "BARBAR", "B"),
            key(4, "BARBAR", "B"),
            key(5, "BARBARBAR", "A"),
        ];
        assert!(sorted.is_sorted());
        let mut prefix = Vec::new();
        customer_name_prefix(DistrictKey { warehouse: 3, district: 7 }, b"BARBAR", &mut prefix);
        let found = sorted.iter().filter(|key| key.starts_with(&prefix));
        assert_eq!(found.count(), 4);
    }

    #[test]
    fn the_newest_order_of_a_customer_comes_first() {
        let customer = CustomerKey { warehouse: 1, district: 2, customer: 3 };
        let older = order_by_customer_key(customer, 255);
        let newer = order_by_customer_key(customer, 256);
        let next = CustomerKey { customer: 4, ..customer };
        assert!(customer.to_bytes()[..] < newer[..] && newer < older);
        assert!(older[..] < next.to_bytes()[..]);
        let order = OrderKey { warehouse: 1, district: 2, order: 256 };
        assert_eq!(order_of_customer_key(&newer), Some((customer, order)));
        assert_eq!(order_of_customer_key(&newer[1..]), None);
    }

    /// Bug: runs `r` and `r + 32768` wrote the same keys. Mechanism: the mark of a run took the top
    /// bit of the run's number. Fix: a number above zero marks a run.
    #[test]
    fn history_numbers_of_two_runs_are_never_the_same() {
        let numbers: BTreeSet<u64> = (0..=RUN_MAX).map(|run| history_number(run, 7, 9)).collect();
        assert_eq!(numbers.len(), usize::from(RUN_MAX) + 1);
        assert!(numbers.iter().all(|number| *number > u64::from(u32::MAX)));
    }

    #[test]
    fn history_numbers_of_runs_are_not_those_of_the_population() {
        assert!(history_number(0, 0, 0) > u64::from(u32::MAX));
        assert_ne!(history_number(0, 1, 0), history_number(1, 0, 0));
        assert_ne!(history_number(0, 0, 1), history_number(0, 1, 0));
    }
}
