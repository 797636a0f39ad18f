//! The nine tables and their secondary indexes.

use super::column::{Columns, Declaration, TpccColumn};
use super::row::{Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse};

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
    /// All tables, in the standard's order (clause 1.3.1).
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

    fn declaration(self) -> Declaration {
        match self {
            TpccTable::Warehouse => Warehouse::TABLE,
            TpccTable::District => District::TABLE,
            TpccTable::Customer => Customer::TABLE,
            TpccTable::History => History::TABLE,
            TpccTable::NewOrder => NewOrder::TABLE,
            TpccTable::Order => Order::TABLE,
            TpccTable::OrderLine => OrderLine::TABLE,
            TpccTable::Item => Item::TABLE,
            TpccTable::Stock => Stock::TABLE,
        }
    }

    /// The standard's name.
    pub fn name(self) -> &'static str {
        self.declaration().name
    }

    /// The columns of the primary key, in its order.
    pub fn key_columns(self) -> impl Iterator<Item = TpccColumn> {
        self.declaration().key.iter().flat_map(Columns::each)
    }

    /// The columns of a row, in their order. A row does not repeat its key.
    pub fn row_columns(self) -> impl Iterator<Item = TpccColumn> {
        self.declaration().row.iter().flat_map(Columns::each)
    }

    /// Length in bytes of the longest row that the standard permits (clause 1.3.1).
    pub fn row_len_max(self) -> usize {
        self.row_columns().map(|column| column.kind.len_max()).sum()
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

/// A secondary index. Each key is unique, because the key ends with the number of the row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TpccIndex {
    /// CUSTOMER by district, last name and first name.
    CustomerByName,
    /// ORDER by customer, the newest first.
    OrderByCustomer,
}

impl TpccIndex {
    /// All indexes.
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
