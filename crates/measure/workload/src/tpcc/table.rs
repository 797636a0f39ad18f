//! The nine tables and their secondary indexes.

use super::row::CUSTOMER_DATA_MAX;

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Table {
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

impl Table {
    /// All, in the standard's order (clause 1.3.1).
    pub const ALL: [Table; 9] = [
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::History,
        Table::NewOrder,
        Table::Order,
        Table::OrderLine,
        Table::Item,
        Table::Stock,
    ];

    /// The standard's name.
    pub fn name(self) -> &'static str {
        match self {
            Table::Warehouse => "WAREHOUSE",
            Table::District => "DISTRICT",
            Table::Customer => "CUSTOMER",
            Table::History => "HISTORY",
            Table::NewOrder => "NEW-ORDER",
            Table::Order => "ORDER",
            Table::OrderLine => "ORDER-LINE",
            Table::Item => "ITEM",
            Table::Stock => "STOCK",
        }
    }

    /// Bytes of the standard's longest row, with each text as long as its field (clause 1.3.1).
    pub fn row_len_max(self) -> usize {
        // A name, two streets and a city.
        let address = 10 + 20 + 20 + 20;
        match self {
            Table::Warehouse => 25 + address,
            Table::District => 29 + address,
            Table::Customer => 77 + 16 + 16 + 20 + 20 + 20 + CUSTOMER_DATA_MAX,
            Table::History => 21 + 24,
            Table::NewOrder => 0,
            Table::Order => 15,
            Table::OrderLine => 45,
            Table::Item => 9 + 24 + 50,
            Table::Stock => 254 + 50,
        }
    }

    /// The secondary index over the table, if it has one.
    pub fn index(self) -> Option<Index> {
        match self {
            Table::Customer => Some(Index::CustomerByName),
            Table::Order => Some(Index::OrderByCustomer),
            _ => None,
        }
    }
}

/// A secondary index. Each of its keys is unique, because it ends with the row's own number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Index {
    /// CUSTOMER by district, last name and first name.
    CustomerByName,
    /// ORDER by customer, the newest first.
    OrderByCustomer,
}

impl Index {
    /// All.
    pub const ALL: [Index; 2] = [Index::CustomerByName, Index::OrderByCustomer];

    /// The table of the index.
    pub fn table(self) -> Table {
        match self {
            Index::CustomerByName => Table::Customer,
            Index::OrderByCustomer => Table::Order,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Index::CustomerByName => "CUSTOMER by name",
            Index::OrderByCustomer => "ORDER by customer",
        }
    }
}
