//! Criterion benchmarks of the layers.
