//! [`rounds`]: runs a target inside this process, for ordinary tests.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Corpus, FuzzTarget, Session, save_failure};

/// Runs the whole corpus, and then `mutations` mutations of it. Returns the reached classes, in the
/// order of their names.
///
/// # Errors
/// The first input that panicked, with the command that replays it.
pub fn rounds(
    target: FuzzTarget,
    corpus: &Corpus,
    seed: u64,
    mutations: usize,
) -> Result<Vec<String>, String> {
    let mut session = Session::new(target, corpus, seed);
    for (name, input) in &corpus.inputs {
        let class = quietly(target, input).ok_or_else(|| {
            format!(
                "{}: the kept input {name} fails: {}",
                target.name,
                replay(target, &format!("fuzz/corpus/{}/{name}", target.name))
            )
        })?;
        session.took(input, class);
    }
    for _ in 0..mutations {
        let input = session.next_input();
        let Some(class) = quietly(target, &input) else {
            // If the source tree is read-only, failures go to another folder.
            let saved = save_failure(&Corpus::failures(), target.name, &input)
                .or_else(|_| save_failure(&std::env::temp_dir(), target.name, &input));
            let at = saved.map_or_else(|e| e.to_string(), |path| path.display().to_string());
            return Err(format!("{}: an input fails: {}", target.name, replay(target, &at)));
        };
        session.took(&input, class);
    }
    Ok(session.classes().iter().cloned().collect())
}

/// The class that the target returns, or `None` when it panics.
fn quietly(target: FuzzTarget, input: &[u8]) -> Option<String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).ok()
}

/// The command that runs an input again. A target that lives beside its parser runs only in the
/// tests of that parser.
fn replay(target: FuzzTarget, file: &str) -> String {
    let name = target.name;
    match FuzzTarget::find(name) {
        Some(_) => {
            format!("cargo run --profile test -p latchwork-fuzz -- --replay {file} {name}")
        }
        None => format!("put {file} into fuzz/corpus/{name}, and run this test again"),
    }
}
