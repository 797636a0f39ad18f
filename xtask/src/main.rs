//! `cargo xtask house`: what the rules of the house find in the source tree, one line per finding.
//! The exit status is 1 when there is any.
//!
//! - [`circles`]: modules of one crate that import each other. `xtask/kept/circles.txt` names those
//!   that stand, each with its reason.
//! - [`layers`]: a crate that uses a crate of its own layer or of a higher one.
//! - [`words`]: a term that the project replaced by another one, in comments, pages, messages and
//!   names of functions.
//! - [`columns`]: a comment line beyond 100 columns.

#![forbid(unsafe_code)]

mod circles;
mod columns;
mod layers;
mod packages;
mod texts;
mod words;

use std::path::Path;
use std::process::ExitCode;

use texts::Finding;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["house"] {
        eprintln!("xtask: the only task is `cargo xtask house`, without flags");
        return ExitCode::from(2);
    }
    // Cargo sets this for the package that it runs; the workspace is one level up.
    let package = std::env::var("CARGO_MANIFEST_DIR");
    let package = package.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"));
    let root = Path::new(package).parent().unwrap_or(Path::new("."));
    let (findings, files) = match house(root) {
        Ok(found) => found,
        Err(what) => {
            eprintln!("house: {what}");
            return ExitCode::FAILURE;
        }
    };
    for Finding { path, line, what } in &findings {
        println!("{path}:{line}: {what}");
    }
    if findings.is_empty() {
        println!("house: {files} files in order");
        return ExitCode::SUCCESS;
    }
    println!("house: {} findings", findings.len());
    ExitCode::FAILURE
}

/// The findings in the tree below `root`, and how many files were read.
fn house(root: &Path) -> Result<(Vec<Finding>, usize), String> {
    let texts = texts::read(root)?;
    let packages = packages::read(root, &texts)?;
    let words = words::Words::read(&texts)?;
    let mut findings = layers::check(&packages, &texts)?;
    std::thread::scope(|scope| {
        let circles = scope.spawn(|| circles::check(&packages, &texts));
        for (path, text) in &texts {
            let prose = texts::prose(path, text)?;
            words.check(path, &prose, &mut findings);
            columns::check(path, text, &prose, &mut findings);
        }
        findings.extend(circles.join().expect("no panic")?);
        Ok::<(), String>(())
    })?;
    Ok((findings, texts.len()))
}
