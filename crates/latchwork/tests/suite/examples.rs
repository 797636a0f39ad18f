//! The examples, as a reader of the guide runs them. Each checks its own results, and ends with an
//! error if they are wrong.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::ends_with;

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
#[path = "../../examples/two_processes.rs"]
#[allow(dead_code, unreachable_pub)]
pub(crate) mod two_processes;

const DIRECTORY: &str = "LATCHWORK_BANK_DIRECTORY";
const ENDPOINT: &str = "LATCHWORK_TWO_PROCESSES";
/// Longer than any machine stalls.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// More than a child makes before it is killed.
const MANY: u64 = 1 << 40;

#[test]
fn two_nodes_read_what_the_other_wrote() {
    two_nodes::main().expect("it checks itself");
}

/// The second process of [`two_processes_share_a_tree`].
#[test]
#[ignore = "started by that test"]
fn second() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else { return };
    two_processes::compute(&endpoint, LONG).expect("it checks itself");
}

#[test]
fn two_processes_share_a_tree() {
    let directory = tempfile::tempdir().expect("a directory");
    let endpoint = format!("file:{}/two", directory.path().display());
    // A directory may be used again when all have left.
    for _ in 0..2 {
        let mut second = this_test("examples::second");
        second.env(ENDPOINT, &endpoint).stdout(Stdio::null());
        two_processes::both(&endpoint, &mut second, LONG).expect("it checks itself");
    }
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

/// A command that runs one ignored test of this program.
pub(crate) fn this_test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

fn start(directory: &Path) -> Child {
    let mut command = this_test("examples::child");
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
            // Another process at the same time is refused, and changes nothing.
            let id = child.id().to_string();
            ends_with(bank::run(directory, 1), &["is in use by process", &id]);
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
