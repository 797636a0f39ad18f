//! The tests of `latchwork-workload`, as one program.

mod tpcc_inputs;
mod tpcc_model;
mod tpcc_population;
mod tpcc_rows;
mod ycsb_files;
mod zipfian;
