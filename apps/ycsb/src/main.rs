//! The YCSB driver.
fn main() {}
