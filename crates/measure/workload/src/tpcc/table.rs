//! The nine tables and their secondary indexes.

use super::row::CUSTOMER_DATA_MAX;

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TpccTable {
    /// WAREHOUSE.
    Warehouse,
    /// DISTRICT.
    District,
    /// CUSTOMER.
    Customer,
    /// HISTORY.
    History,
    /// NEW-ORDER.
    NewOrder,
    /// ORDER.
    Order,
    /// ORDER-LINE.
    OrderLine,
    /// ITEM.
    Item,
    /// STOCK.
    Stock,
}

impl TpccTable {
    /// All, in the standard's order (clause 1.3.1).
    pub const ALL: [TpccTable; 9] = [
        TpccTable::Warehouse,
        TpccTable::District,
        TpccTable::Customer,
        TpccTable::History,
        TpccTable::NewOrder,
        TpccTable::Order,
        TpccTable::OrderLine,
        TpccTable::Item,
        TpccTable::Stock,
    ];

    /// The standard's name.
    pub fn name(self) -> &'static str {
        match self {
            TpccTable::Warehouse => "WAREHOUSE",
            TpccTable::District => "DISTRICT",
            TpccTable::Customer => "CUSTOMER",
            TpccTable::History => "HISTORY",
            TpccTable::NewOrder => "NEW-ORDER",
            TpccTable::Order => "ORDER",
            TpccTable::OrderLine => "ORDER-LINE",
            TpccTable::Item => "ITEM",
            TpccTable::Stock => "STOCK",
        }
    }

    /// Bytes of the standard's longest row, with each text as long as its field (clause 1.3.1).
    pub fn row_len_max(self) -> usize {
        // A name, two streets and a city.
        let address = 10 + 20 + 20 + 20;
        match self {
            TpccTable::Warehouse => 25 + address,
            TpccTable::District => 29 + address,
            TpccTable::Customer => 77 + 16 + 16 + 20 + 20 + 20 + CUSTOMER_DATA_MAX,
            TpccTable::History => 21 + 24,
            TpccTable::NewOrder => 0,
            TpccTable::Order => 15,
            TpccTable::OrderLine => 45,
            TpccTable::Item => 9 + 24 + 50,
            TpccTable::Stock => 254 + 50,
        }
    }

    /// The secondary index over the table, if it has one.
    pub fn index(self) -> Option<TpccIndex> {
        match self {
            TpccTable::Customer => Some(TpccIndex::CustomerByName),
            TpccTable::Order => Some(TpccIndex::OrderByCustomer),
            _ => None,
        }
    }
}

/// A secondary index. Each of its keys is unique, because it ends with the row's own number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TpccIndex {
    /// CUSTOMER by district, last name and first name.
    CustomerByName,
    /// ORDER by customer, the newest first.
    OrderByCustomer,
}

impl TpccIndex {
    /// All.
    pub const ALL: [TpccIndex; 2] = [TpccIndex::CustomerByName, TpccIndex::OrderByCustomer];

    /// The table of the index.
    pub fn table(self) -> TpccTable {
        match self {
            TpccIndex::CustomerByName => TpccTable::Customer,
            TpccIndex::OrderByCustomer => TpccTable::Order,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TpccIndex::CustomerByName => "CUSTOMER by name",
            TpccIndex::OrderByCustomer => "ORDER by customer",
        }
    }
}
