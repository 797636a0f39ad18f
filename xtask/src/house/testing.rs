//! Small workspaces in temporary folders, for the tests of the checks.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::modules;
use super::rules::Rules;
use super::tree::Tree;

/// A workspace of a few files.
pub(crate) struct Fixture {
    folder: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A workspace with the library `crates/NAME`.
    pub(crate) fn library(name: &str, text: &str) -> Fixture {
        Fixture::new().and_library(name, "", text)
    }

    /// Adds the library `crates/NAME`; `manifest` follows its `[package]`.
    pub(crate) fn and_library(self, name: &str, manifest: &str, text: &str) -> Fixture {
        let package = format!("[package]\nname = \"latchwork-{name}\"\n{manifest}");
        self.with(&format!("crates/{name}/Cargo.toml"), &package)
            .with(&format!("crates/{name}/src/lib.rs"), text)
    }

    /// A workspace with the program `apps/NAME`.
    pub(crate) fn program(name: &str, text: &str) -> Fixture {
        let package = format!("[package]\nname = \"latchwork-{name}\"\n");
        Fixture::new()
            .with(&format!("apps/{name}/Cargo.toml"), &package)
            .with(&format!("apps/{name}/src/main.rs"), text)
    }

    /// Writes a file, and replaces an existing one.
    pub(crate) fn with(self, path: &str, text: &str) -> Fixture {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::read(self.root()).expect("a tree");
        modules::build(&mut tree, &self.rules());
        tree
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules::read(self.root()).expect("rules")
    }
}
