//! Which compute node owns the rows of a warehouse.

use latchwork_workload::tpcc::TpccTable;
use latchwork_workload::tpcc::key::ItemKey;

/// The highest number of workers per node, because a worker's number is one byte.
pub(crate) const WORKERS_MAX: usize = u8::MAX as usize;

/// The assignment of rows to compute nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    /// The number of consecutive warehouses of each node. The last node may have fewer.
    pub(crate) warehouses: u32,
    pub(crate) nodes: u32,
}

impl Shares {
    /// The node of a warehouse, from 0.
    pub(crate) fn node_of(self, warehouse: u32) -> u32 {
        // A warehouse beyond the last one is assigned to the last node. The tables there report
        // that the warehouse does not exist.
        (warehouse.saturating_sub(1) / self.warehouses).min(self.nodes - 1)
    }

    /// The warehouse, which is at the start of every key except keys of items.
    fn warehouse_of(key: &[u8]) -> Option<u32> {
        key.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// The row owner, or `None` for items, which have no owner.
    pub(crate) fn owner(self, table: TpccTable, key: &[u8]) -> Option<u8> {
        let warehouse = Shares::warehouse_of(key).filter(|_| table != TpccTable::Item)?;
        Some(self.node_of(warehouse) as u8)
    }

    /// The node that loads a row. Items have no owner, so they are spread over all nodes.
    pub(crate) fn placer(self, table: TpccTable, key: &[u8]) -> u8 {
        let item = || ItemKey::from_bytes(key).map_or(0, |key| key.item % self.nodes);
        self.owner(table, key).unwrap_or_else(|| item() as u8)
    }
}

#[cfg(test)]
mod tests {
    use latchwork_workload::tpcc::key::{CustomerKey, StockKey};

    use super::*;

    #[test]
    fn each_row_has_one_owner_and_items_have_none() {
        let shares = Shares { warehouses: 3, nodes: 2 };
        for (warehouse, node) in [(1, 0), (3, 0), (4, 1), (5, 1)] {
            let stock = StockKey { warehouse, item: 7 }.to_bytes();
            let customer = CustomerKey { warehouse, district: 9, customer: 1 }.to_bytes();
            assert_eq!(shares.owner(TpccTable::Stock, &stock), Some(node));
            assert_eq!(shares.owner(TpccTable::Customer, &customer), Some(node));
            assert_eq!(shares.placer(TpccTable::Stock, &stock), node);
        }
        let item = |item| ItemKey { item }.to_bytes();
        assert_eq!(shares.owner(TpccTable::Item, &item(4)), None);
        let placers: Vec<_> = (1..5).map(|at| shares.placer(TpccTable::Item, &item(at))).collect();
        assert_eq!(placers, [1, 0, 1, 0]);
    }
}
