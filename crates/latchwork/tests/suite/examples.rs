//! The examples, as a reader of the guide runs them. Each checks its own results, and ends with an
//! error if they are wrong.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[path = "../../examples/bank.rs"]
#[allow(dead_code, unreachable_pub)]
mod bank;
#[path = "../../examples/choosing.rs"]
#[allow(dead_code, unreachable_pub)]
mod choosing;
#[path = "../../examples/places.rs"]
#[allow(dead_code, unreachable_pub)]
mod places;
#[path = "../../examples/shared_tree.rs"]
#[allow(dead_code, unreachable_pub)]
mod shared_tree;
#[path = "../../examples/transactions.rs"]
#[allow(dead_code, unreachable_pub)]
mod transactions;
#[path = "../../examples/two_nodes.rs"]
#[allow(dead_code, unreachable_pub)]
mod two_nodes;

const DIRECTORY: &str = "LATCHWORK_BANK_DIRECTORY";
/// More than a child makes before it is killed.
const MANY: u64 = 1 << 40;

#[test]
fn two_nodes_read_what_the_other_wrote() {
    two_nodes::main().expect("it checks itself");
}

#[test]
fn the_guide_shows_the_program_that_runs() {
    let page = include_str!("../../../../docs/guides/shared-tree.md");
    assert!(
        page.contains(include_str!("../../examples/two_nodes.rs")),
        "the page has another program"
    );
}

#[test]
fn places_that_two_nodes_insert_are_found_by_both() {
    places::main().expect("it checks itself");
}

#[test]
fn a_tree_that_three_nodes_fill_has_the_keys_of_all() {
    shared_tree::main().expect("it checks itself");
}

#[test]
fn seats_that_two_nodes_sell_are_sold_once() {
    transactions::main().expect("it checks itself");
}

#[test]
fn a_program_is_the_same_under_each_protocol_and_each_scheme() {
    choosing::main().expect("it checks itself");
}

/// A child of [`a_bank_that_is_killed_keeps_its_balances`].
#[test]
#[ignore = "started by the test that kills it"]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    bank::run(Path::new(&directory), MANY).expect("it is killed before anything fails");
}

fn start(directory: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "examples::child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(DIRECTORY, directory).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command.spawn().expect("a child")
}

/// Kills a child when it has printed `lines` lines about transfers. Returns the last count of each
/// worker.
fn kill_after(directory: &Path, lines: usize) -> BTreeMap<String, u64> {
    let mut child = start(directory);
    let (mut told, mut seen) = (BTreeMap::new(), 0);
    let out = child.stdout.take().expect("a pipe");
    for line in BufReader::new(out).lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["worker", worker, "has", "made", count, "transfers"] = words[..] else { continue };
        told.insert(worker.to_owned(), count.parse().expect("a number"));
        seen += 1;
        if seen == lines {
            // The pipe is read to its end, because lines that the child printed before it was
            // killed count as well.
            child.kill().expect("killed");
        }
    }
    child.wait().expect("ended");
    assert!(seen >= lines, "the child ended by itself");
    told
}

#[test]
fn a_bank_that_is_killed_keeps_its_balances() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let mut acknowledged = BTreeMap::<String, u64>::new();
    for lines in [3, 30] {
        for (worker, count) in kill_after(path, lines) {
            let before = acknowledged.insert(worker, count);
            assert!(before.is_none_or(|before| before < count), "{before:?}, then {count}");
        }
    }
    let acknowledged: u64 = acknowledged.values().sum();
    let books = bank::run(path, 10).expect("it opens");
    assert_eq!((books.accounts, books.cents), (100, 100_000));
    assert!(books.transfers >= acknowledged + 20, "{books:?}, {acknowledged} were acknowledged");
    // After a clean end as well.
    let again = bank::run(path, 0).expect("it opens");
    assert_eq!(again, books);
}
