//! The fuzz target for matrices. It is in this program because the parser belongs to this program.

use std::time::Duration;

use latchwork_fuzz::{Corpus, FuzzTarget, Mutator, class_of, rounds};
use latchwork_runtime::Clock;

use super::spec;

const TARGET: FuzzTarget = FuzzTarget { name: "matrix", run, mutate: Mutator::text, tried: 200 };

/// The environment variable for more rounds of the target, in seconds: see the book, "Fuzzing".
const SECONDS: &str = "LATCHWORK_TEST_FUZZ_SECONDS";

/// Reads a matrix, and checks what a reader relies on. An error is one line. Each case has a name,
/// and a directory of its own.
fn run(data: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(data) else { return "not UTF-8".to_owned() };
    match spec::parse(text, &[]) {
        Ok(spec) => {
            let mut directories: Vec<_> = spec.cases.iter().map(spec::Case::directory).collect();
            assert!(directories.iter().all(|name| name.len() < 100 && !name.contains('/')));
            let count = directories.len();
            directories.sort();
            directories.dedup();
            assert_eq!(directories.len(), count, "two cases in one directory");
            format!("whole: {}", count.ilog2())
        }
        Err(error) => {
            assert!(!error.is_empty() && !error.contains(char::is_control), "{error:?}");
            // The rest of the text quotes words of the file.
            class_of(&error).chars().take(64).collect()
        }
    }
}

#[test]
fn no_matrix_breaks_what_reads_it() {
    let seconds = std::env::var(SECONDS).ok().map(|text| text.parse().expect("whole seconds"));
    let limit = Duration::from_secs(seconds.unwrap_or(0));
    let corpus = Corpus::load(&Corpus::home().join(TARGET.name)).expect("readable");
    let clock = Clock::start();
    let until = clock.now() + limit;
    for seed in 1.. {
        let reached = rounds(TARGET, &corpus, seed, TARGET.tried);
        let reached = reached.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(reached.iter().any(|class| class.starts_with("whole")), "{reached:?}");
        assert!(reached.iter().any(|class| class.contains("line 0: ")), "{reached:?}");
        if clock.now() >= until {
            break;
        }
    }
}
