//! The memory that a database needs. A database that does not fit is refused before its load.

use latchwork_cluster::ClusterConfig;
use latchwork_harness::driver::bytes_of_memory_node;
use latchwork_harness::{AppError, FabricChoice, MIB};
use latchwork_workload::tpcc::{Population, TpccIndex, TpccTable};

/// Bytes of a tuple and its slot in addition to key and value, after rounding. See the figures
/// of the tables.
const TUPLE: u64 = 26;
/// Bytes of an index entry beyond its key: its target, slot and header.
const ENTRY: u64 = 24;
/// The fill of heap lines that are filled one after the other, and the fill of index pages that
/// ascending keys split; in percent.
const HEAP_FILL: u64 = 90;
const INDEX_FILL: u64 = 50;
/// Bytes that a new order adds: an order, a row of NEW-ORDER, ten order lines, and their index
/// entries. A payment adds less.
const NEW_ORDER: u64 = 1_600;

/// Bytes of the population in lines.
pub(crate) fn population(population: &Population, line_size: u32) -> u64 {
    let census = population.estimate();
    let line = u64::from(line_size);
    let mut bytes = 0;
    for table in TpccTable::ALL {
        let size = census.table(table);
        bytes += match table {
            // Each of these rows has a line of its own.
            TpccTable::Warehouse | TpccTable::District => size.rows * line,
            _ => (size.key_bytes + size.row_bytes + size.rows * TUPLE) * 100 / HEAP_FILL,
        };
        bytes += (size.key_bytes + size.rows * ENTRY) * 100 / INDEX_FILL;
    }
    for index in TpccIndex::ALL {
        let size = census.index(index);
        bytes += (size.key_bytes + size.rows * ENTRY) * 100 / INDEX_FILL;
    }
    bytes
}

/// The estimated bytes in lines of a stored database, from the number of its rows and the bytes of
/// its keys and rows.
pub(crate) fn stored(rows: u64, bytes: u64) -> u64 {
    // About a quarter of the bytes are assumed to be keys, which indexes repeat.
    (bytes + rows * TUPLE) * 100 / HEAP_FILL + (bytes / 4 + rows * ENTRY) * 100 / INDEX_FILL
}

/// The bytes that this number of transactions adds at most, of any kind.
pub(crate) fn growth(transactions: u64) -> u64 {
    transactions.saturating_mul(NEW_ORDER)
}

/// The smallest possible size of each memory node, for this number of bytes in lines.
fn least(bytes: u64, config: &ClusterConfig) -> u64 {
    // The pool uses one chunk itself. Each compute node has one unfinished chunk on some memory
    // node.
    let nodes = config.compute_nodes.div_ceil(config.memory_nodes) as u64;
    bytes / config.memory_nodes as u64 + config.chunk_size * (1 + nodes)
}

/// Refuses a database that cannot fit into the memory nodes.
pub(crate) fn check_nodes(
    fabric: &FabricChoice,
    warehouses: u32,
    population: u64,
    config: &ClusterConfig,
) -> Result<(), AppError> {
    let needed = least(population, config);
    if config.memory_bytes >= needed {
        return Ok(());
    }
    let enough = bytes_of_memory_node(population + population / 2, config);
    let (small, large) = fabric.memory_in_words(config.memory_bytes, enough);
    Err(AppError::Usage(format!(
        "{small}: {warehouses} warehouses need about {} MiB on each memory node; {large} or fewer --warehouses",
        needed.div_ceil(MIB),
    )))
}

#[cfg(test)]
mod tests {
    use latchwork_workload::tpcc::Scale;

    use super::*;

    fn bytes(warehouses: u32) -> u64 {
        let population =
            Population::new(Scale::default(), warehouses, 42, 1).expect("a population");
        super::population(&population, 8192)
    }

    #[test]
    fn a_warehouse_takes_more_than_its_rows_and_less_than_twice_that() {
        let each = bytes(11) - bytes(1);
        assert!((800_000_000..1_500_000_000).contains(&each), "{each}");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would_do() {
        let config = ClusterConfig { memory_bytes: 64 << 20, ..ClusterConfig::default() };
        let check = |config: &_| check_nodes(&FabricChoice::Shm, 3, 400 << 20, config);
        let line = check(&config).expect_err("too little").to_string();
        assert!(line.contains("--memory-mb 64: 3 warehouses need about "), "{line}");
        assert!(line.contains("fewer --warehouses") && !line.contains('\n'), "{line}");
        assert!(check(&ClusterConfig { memory_bytes: 1 << 40, ..config }).is_ok());
    }
}
