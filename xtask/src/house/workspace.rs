//! The packages of the workspace, from their manifests.

use std::collections::BTreeSet;
use std::path::Path;

use toml::{Table, Value};

use super::error::Error;

/// The kind of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    Normal,
    Test,
}

/// A dependency on another package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dependency {
    /// The package's name without the prefix `latchwork-`.
    pub(crate) name: String,
    pub(crate) used: Use,
}

/// A package of the repository.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its name without the prefix `latchwork-`.
    pub(crate) name: String,
    /// Its folder, relative to the root, without a slash at the end.
    pub(crate) folder: String,
    /// The manifest, for line numbers.
    manifest: String,
    pub(crate) dependencies: BTreeSet<Dependency>,
}

impl Package {
    /// Reads the manifest `text` of the package in `folder`. `None` when it declares no package.
    pub(crate) fn read(folder: &str, text: String) -> Result<Option<Package>, Error> {
        let manifest: Table = text.parse().map_err(|cause| Error::Manifest {
            path: format!("{folder}/Cargo.toml"),
            cause: Box::new(cause),
        })?;
        let name = manifest.get("package").and_then(|p| p.get("name")).and_then(Value::as_str);
        let Some(name) = name else { return Ok(None) };
        let mut dependencies = BTreeSet::new();
        collect(&manifest, &mut dependencies);
        for target in manifest.get("target").and_then(Value::as_table).into_iter().flatten() {
            if let Some(table) = target.1.as_table() {
                collect(table, &mut dependencies);
            }
        }
        let (name, folder) = (short(name).to_owned(), folder.to_owned());
        Ok(Some(Package { name, folder, manifest: text, dependencies }))
    }

    /// Whether other packages can depend on it.
    pub(crate) fn is_library(&self, root: &Path) -> bool {
        root.join(&self.folder).join("src/lib.rs").is_file()
    }

    pub(crate) fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }

    /// The line of the manifest that names the dependency, from 1.
    pub(crate) fn line_of(&self, dependency: &Dependency) -> usize {
        let test = dependency.used == Use::Test;
        let wanted = format!("latchwork-{}", dependency.name);
        let mut in_tests = false;
        let mut first = None;
        for (index, line) in self.manifest.lines().enumerate() {
            if line.starts_with('[') {
                in_tests = line.contains("dev-dependencies");
            }
            let rest = line.trim_start().strip_prefix(&wanted);
            if rest.is_some_and(|r| r.starts_with(['.', ' ', '=']))
                || line.contains(&quoted(&wanted))
            {
                if in_tests == test {
                    return index + 1;
                }
                first = first.or(Some(index + 1));
            }
        }
        first.unwrap_or(1)
    }
}

fn quoted(name: &str) -> String {
    format!("package = \"{name}\"")
}

/// The name of a package without the prefix of the project.
pub(crate) fn short(name: &str) -> &str {
    name.strip_prefix("latchwork-").unwrap_or(name)
}

fn collect(table: &Table, into: &mut BTreeSet<Dependency>) {
    for (section, used) in [
        ("dependencies", Use::Normal),
        ("build-dependencies", Use::Normal),
        ("dev-dependencies", Use::Test),
    ] {
        for (key, value) in table.get(section).and_then(Value::as_table).into_iter().flatten() {
            let name = value.get("package").and_then(Value::as_str).unwrap_or(key);
            let is_ours = name == "latchwork" || name.starts_with("latchwork-");
            if is_ours {
                into.insert(Dependency { name: short(name).to_owned(), used });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_all_sections_are_found_with_their_lines() {
        let text = "[package]\nname = \"latchwork-a\"\n[dependencies]\nlatchwork-b.workspace = true\n\
            other = \"1\"\n[target.'cfg(unix)'.dependencies]\nc = { package = \"latchwork-c\" }\n\
            [dev-dependencies]\nlatchwork-b = { path = \"../b\" }\n";
        let package = Package::read("crates/a", text.to_owned()).unwrap().unwrap();
        let found: Vec<_> = package
            .dependencies
            .iter()
            .map(|d| (d.name.as_str(), d.used, package.line_of(d)))
            .collect();
        assert_eq!(found, [("b", Use::Normal, 4), ("b", Use::Test, 9), ("c", Use::Normal, 7)]);
    }
}
