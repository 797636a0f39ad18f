//! Prints the number of rows and bytes of a TPC-C warehouse of the standard's size, without a
//! store's overhead per row. Also checks that the warehouse is consistent.
//!
//! ```text
//! cargo run --release -p latchwork-workload --example tpcc_sizes
//! ```

use latchwork_workload::tpcc::check::ConsistencyCheck;
use latchwork_workload::tpcc::{Census, Population, Scale, TableSize, TpccIndex, TpccTable};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let population = Population::new(Scale::default(), 1, 42, 1)?;
    let mut census = Census::default();
    let mut check = ConsistencyCheck::new(population.scale(), 1, 1..=1);
    for part in (0..population.part_count()).map_while(|number| population.part(number)) {
        let mut rows = population.rows(part);
        while let Some(loaded) = rows.next() {
            census.add(&loaded);
            check.add(loaded.table, loaded.key, loaded.row)?;
        }
    }
    println!("| | rows | key, bytes | row, bytes, mean | together, bytes |");
    println!("| --- | --- | --- | --- | --- |");
    for table in TpccTable::ALL {
        line(table.name(), census.table(table));
    }
    for index in TpccIndex::ALL {
        line(index.name(), census.index(index));
    }
    println!("| together | | | | {} |", census.bytes());
    println!(
        "| of these ITEM, once for all warehouses | | | | {} |",
        bytes(census.table(TpccTable::Item))
    );
    println!("| estimate before the load | | | | {} |", population.estimate().bytes());
    println!();
    let report = check.finish();
    print!("{report}");
    if report.is_ok() { Ok(()) } else { Err("the population is not consistent".into()) }
}

fn bytes(size: TableSize) -> u64 {
    size.key_bytes + size.row_bytes
}

fn line(name: &str, size: TableSize) {
    let mean = |bytes: u64| bytes as f64 / size.rows as f64;
    println!(
        "| {name} | {} | {:.1} | {:.1} | {} |",
        size.rows,
        mean(size.key_bytes),
        mean(size.row_bytes),
        bytes(size)
    );
}
