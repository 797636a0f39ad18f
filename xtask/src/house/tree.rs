//! The source tree: packages, Rust files, shell scripts and pages.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;

use super::error::Error;
use super::facts::{File, Role};
use super::syntax;
use super::workspace::Package;

/// The whole source tree, read once.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) packages: Vec<Package>,
    /// Whether the package of the same index is a library.
    pub(crate) libraries: Vec<bool>,
    pub(crate) files: Vec<File>,
    /// Index of each file by its path.
    pub(crate) by_path: BTreeMap<String, usize>,
    /// Shell scripts: path and text.
    pub(crate) scripts: Vec<(String, String)>,
    /// Markdown pages: path and text.
    pub(crate) pages: Vec<(String, String)>,
}

impl Tree {
    /// Reads everything below `root`, except build outputs and hidden folders other than `.ci`.
    pub(crate) fn read(root: &Path) -> Result<Tree, Error> {
        let mut paths = Vec::new();
        walk(root, "", &mut paths)?;
        paths.sort();
        let mut tree = Tree::default();
        let mut sources = Vec::new();
        for path in &paths {
            if let Some(folder) = path.strip_suffix("/Cargo.toml") {
                let text = text(root, path)?;
                tree.packages.extend(Package::read(folder, text)?);
            }
        }
        for path in paths {
            if path.ends_with(".rs") {
                if let Some(package) = owner(&tree.packages, &path) {
                    sources.push((path, package));
                }
            } else if path.ends_with(".md") {
                let text = text(root, &path)?;
                tree.pages.push((path, text));
            } else if path.ends_with(".sh") || path.starts_with(".ci/") {
                let text = text(root, &path)?;
                tree.scripts.push((path, text));
            }
        }
        tree.libraries = tree.packages.iter().map(|package| package.is_library(root)).collect();
        tree.files = parse_all(root, sources, &tree.packages)?;
        tree.by_path = tree.files.iter().enumerate().map(|(i, f)| (f.path.clone(), i)).collect();
        Ok(tree)
    }
}

/// The package of the file: the package with the longest folder that contains it.
fn owner(packages: &[Package], path: &str) -> Option<usize> {
    let holds = |package: &Package| {
        path.strip_prefix(&package.folder).is_some_and(|rest| rest.starts_with('/'))
    };
    (0..packages.len())
        .filter(|&index| holds(&packages[index]))
        .max_by_key(|&index| packages[index].folder.len())
}

fn role(package: &Package, path: &str) -> Role {
    let inside = &path[package.folder.len() + 1..];
    let support = ["tests/", "benches/", "examples/", "build.rs"];
    if support.iter().any(|folder| inside.starts_with(folder)) {
        Role::Support
    } else {
        Role::Source
    }
}

fn text(root: &Path, path: &str) -> Result<String, Error> {
    fs::read_to_string(root.join(path)).map_err(|cause| Error::read(path, cause))
}

fn walk(root: &Path, folder: &str, into: &mut Vec<String>) -> Result<(), Error> {
    let fail = |cause| Error::read(if folder.is_empty() { "." } else { folder }, cause);
    for entry in fs::read_dir(root.join(folder)).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type().map_err(fail)?;
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if kind.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci";
            if !hidden && name != "target" && path != "docs/book" {
                walk(root, &path, into)?;
            }
        } else if kind.is_file() {
            into.push(path);
        }
    }
    Ok(())
}

/// Parses the files on all cores. Each syntax tree stays on its thread, and the facts are returned.
fn parse_all(
    root: &Path,
    sources: Vec<(String, usize)>,
    packages: &[Package],
) -> Result<Vec<File>, Error> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(8);
    let parse = |(path, package): &(String, usize)| -> Result<File, Error> {
        let text = text(root, path)?;
        let facts = syntax::parse(&text).map_err(|cause| Error::syntax(path, &cause))?;
        let role = role(&packages[*package], path);
        Ok(File { path: path.clone(), package: *package, role, is_test: false, facts })
    };
    let sources = &sources;
    let mut parsed = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let share = sources.iter().skip(worker).step_by(threads);
                scope.spawn(move || share.map(parse).collect::<Result<Vec<_>, _>>())
            })
            .collect();
        let mut parsed = Vec::new();
        for worker in workers {
            let files = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            parsed.extend(files?);
        }
        Ok::<_, Error>(parsed)
    })?;
    parsed.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(parsed)
}
