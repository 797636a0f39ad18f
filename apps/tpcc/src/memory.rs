//! How much memory a database will take, so that one that does not fit is refused before it is
//! loaded.

use latchwork_cluster::ClusterConfig;
use latchwork_harness::{AppError, FabricChoice, MIB};
use latchwork_workload::tpcc::{Index, Population, Table};

/// Bytes of a tuple and its slot beside key and value, rounding included: see the figures of the
/// tables.
const TUPLE: u64 = 26;
/// Bytes of an entry of an index beside its key: what it leads to, slot and header.
const ENTRY: u64 = 24;
/// Of heap lines that are filled one after the other, and of index pages that are split by
/// ascending keys, so many percent hold something.
const HEAP_FILL: u64 = 90;
const INDEX_FILL: u64 = 50;
/// Bytes of a new order: an order, its line in NEW-ORDER, ten order lines and their entries; and of
/// a payment.
const NEW_ORDER: u64 = 1_600;

/// Bytes of memory lines that the population takes.
pub(crate) fn population(population: &Population, line_size: u32) -> u64 {
    let census = population.estimate();
    let line = u64::from(line_size);
    let mut bytes = 0;
    for table in Table::ALL {
        let size = census.table(table);
        bytes += match table {
            // A line each.
            Table::Warehouse | Table::District => size.rows * line,
            _ => (size.key_bytes + size.row_bytes + size.rows * TUPLE) * 100 / HEAP_FILL,
        };
        bytes += (size.key_bytes + size.rows * ENTRY) * 100 / INDEX_FILL;
    }
    for index in Index::ALL {
        let size = census.index(index);
        bytes += (size.key_bytes + size.rows * ENTRY) * 100 / INDEX_FILL;
    }
    bytes
}

/// The same of a database that is in a log, with so many rows and so many bytes of keys and rows.
pub(crate) fn stored(rows: u64, bytes: u64) -> u64 {
    // Of the bytes keys are a part, which indexes repeat.
    (bytes + rows * TUPLE) * 100 / HEAP_FILL + (bytes / 4 + rows * ENTRY) * 100 / INDEX_FILL
}

/// Bytes that so many transactions add, of whatever kind.
pub(crate) fn growth(transactions: u64) -> u64 {
    transactions.saturating_mul(NEW_ORDER)
}

/// Bytes that each memory node needs so that so many bytes of lines fit.
pub(crate) fn each_node(bytes: u64, config: &ClusterConfig) -> u64 {
    let lines = bytes / u64::from(config.line_size) + 64;
    // With latch words.
    let pool = lines * (u64::from(config.line_size) + 16);
    // Chunks that the compute nodes have begun, one of each memory node.
    let begun = config.chunk_size * (config.compute_nodes as u64 + 2);
    let each = pool.div_ceil(config.memory_nodes as u64) + begun + 2 * config.chunk_size;
    each.next_multiple_of(config.chunk_size)
}

/// The least that each memory node must have for so many bytes of lines.
fn least(bytes: u64, config: &ClusterConfig) -> u64 {
    // One chunk is the pool's own, and each compute node has begun one somewhere.
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
    let enough = each_node(population + population / 2, config);
    let (small, large) = fabric.memory_in_words(config.memory_bytes, enough);
    Err(AppError::Usage(format!(
        "{small}: {warehouses} warehouses need about {} MiB on each memory node; {large} or fewer --warehouses",
        needed.div_ceil(MIB),
    )))
}

/// Refuses a database that cannot fit: into the memory nodes, or with them and the caches into this
/// machine.
pub(crate) fn check(
    warehouses: u32,
    population: u64,
    config: &ClusterConfig,
    available: Option<u64>,
) -> Result<(), AppError> {
    let mib = |bytes: u64| bytes.div_ceil(MIB);
    check_nodes(&FabricChoice::Shm, warehouses, population, config)?;
    let caches = config.cache_bytes as u64 * config.compute_nodes as u64;
    let total = population + caches;
    match available {
        Some(available) if total > available => Err(AppError::Usage(format!(
            "--warehouses {warehouses} need about {} MiB, caches included, and this machine has {} MiB to give; use \
             fewer --warehouses or a smaller --cache-mb",
            mib(total),
            available / MIB,
        ))),
        _ => Ok(()),
    }
}

/// Bytes of memory that this machine can give to a program; nothing where it does not say.
pub(crate) fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchwork_workload::tpcc::Scale;

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
        let line = check(3, 400 << 20, &config, None).expect_err("too little").to_string();
        assert!(line.contains("--memory-mb 64: 3 warehouses need about "), "{line}");
        assert!(line.contains("fewer --warehouses") && !line.contains('\n'), "{line}");
        let config = ClusterConfig { memory_bytes: 1 << 40, ..config };
        let line = check(3, 400 << 20, &config, Some(1 << 20)).expect_err("too little").to_string();
        assert!(line.contains("this machine has 1 MiB"), "{line}");
        assert!(check(3, 400 << 20, &config, Some(8 << 30)).is_ok());
    }
}
