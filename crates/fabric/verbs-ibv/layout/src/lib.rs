//! Nothing but a test: `tests/layout.rs`.
