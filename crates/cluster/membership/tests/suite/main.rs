//! The tests of `latchwork-membership`, as one program.

mod common;
mod deaths;
mod endpoints;
mod etcd;
mod exchange;
mod file;
mod mail;
mod nodes;
mod processes;
mod store;
mod tls;
