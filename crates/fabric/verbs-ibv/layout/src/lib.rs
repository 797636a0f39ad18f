//! This crate has only a test, `tests/layout.rs`, which compares `../src/sys/ffi.rs` with the
//! headers of libibverbs.
