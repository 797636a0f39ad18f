//! What docs/guides/shared-tree.md shows is what programs have.

use std::time::Duration;

use latchwork::cluster::{ClusterError, MemoryHost, Protocol, Transport, Worker};
use latchwork::database::{DatabaseOptions, Instance, Opened, replay};
use latchwork::membership::{self, Joining, Membership};
use latchwork::memnode::Catalogue;
use latchwork::rtree::RTreeConfig;
use latchwork::txn::{Recovery, Scheme, TransactionNode};
use latchwork::wal::{CommitMode, Log, LogDirectory};
use latchwork::{Cluster, ClusterConfig, SimConfig};

const PAGE: &str = include_str!("../../../../docs/guides/shared-tree.md");
const EXAMPLES: [&str; 4] = [
    include_str!("../../examples/bank.rs"),
    include_str!("../../examples/choosing.rs"),
    include_str!("../../examples/two_nodes.rs"),
    include_str!("../../examples/two_processes.rs"),
];

macro_rules! fields {
    ($($of:ident::$field:ident),* $(,)?) => { $(let _ = |it: &$of| { let _ = &it.$field; };)* };
}

#[test]
fn each_line_of_the_pages_programs_is_of_an_example() {
    assert!(PAGE.contains(EXAMPLES[2]), "the page has another program");
    let mut blocks = 0;
    for block in PAGE.split("```rust").skip(1) {
        let (_, code) = block.split_once('\n').expect("a block has lines");
        let code = code.split("```").next().expect("the code");
        for line in code.lines() {
            let line = line.split("   //").next().map_or("", str::trim);
            assert!(EXAMPLES.iter().any(|text| text.contains(line)), "no example has {line:?}");
        }
        blocks += 1;
    }
    assert!(blocks > 8, "{blocks} blocks");
}

/// Each name of the page, so that a name that is gone does not compile.
#[allow(dead_code, reason = "the compiler checks it")]
fn names() {
    type Database = latchwork::txn::Database<Worker>;
    fields!(
        ClusterConfig::cache_bytes,
        ClusterConfig::inflight,
        ClusterConfig::memory_bytes,
        DatabaseOptions::accept_loss,
        DatabaseOptions::log,
    );
    let _ = (Cluster::start, Cluster::simulated, Cluster::with_patience, Cluster::instance);
    let _ = (Cluster::database, SimConfig::default, RTreeConfig::default, ClusterConfig::default);
    let _ = (Instance::losses, Instance::health, CommitMode::Sync, CommitMode::Async);
    let _ = (Protocol::Selcc, Protocol::Sel, Scheme::TwoPhaseLocking, Scheme::TimestampOrdering);
    let _ = (Catalogue::lookup, Catalogue::register, LogDirectory::open, Log::threaded, Log::flush);
    let _ = (Log::close, TransactionNode::new, Database::create, Database::open);
    let _ = (Recovery::tables::<Worker>, Recovery::rows::<Worker>, Recovery::indexes::<Worker>);
    let _ = |error: &ClusterError| matches!(error, ClusterError::Panicked { .. });
    let _ = async |opened: Opened| Database::run(&opened, async |_| Ok(())).await;
    let _ = (Opened::checkpoint, Database::checkpoint, replay, Scheme::Optimistic);
    let _ = (Transport::default, MemoryHost::start, MemoryHost::leave, Joining::new);
    let _ = |config, member, patience: Duration| {
        Cluster::join(config, &Transport::default(), member, patience)
    };
    let _ = (Membership::join, membership::open, Cluster::exchange, Cluster::close);
}

#[test]
fn each_path_of_the_page_is_one_that_compiles() {
    let here = include_str!("guide.rs");
    let mut paths = 0;
    for span in PAGE.split('`').skip(1).step_by(2) {
        let is_in_path = |c: char| c.is_alphanumeric() || matches!(c, ':' | '_');
        let path = span.split(|c| !is_in_path(c)).next().unwrap_or("");
        let path = path.strip_prefix("latchwork::").unwrap_or(path);
        if !path.contains("::") {
            continue;
        }
        assert!(here.contains(path), "the page has {path}, and `names` has not");
        paths += 1;
    }
    assert!(paths > 30, "{paths} paths");
}
