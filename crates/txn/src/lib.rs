//! x
#![forbid(unsafe_code)]
mod page;
