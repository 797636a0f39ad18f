//! Latchwork: cache-coherent disaggregated memory, and the database parts that stand on it.
