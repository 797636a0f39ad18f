//! The packages of the repository, as `cargo metadata` tells them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::texts::Texts;

/// A package. Names are without the prefix `latchwork-`, paths are from the root.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest: String,
    /// The first file of each library, program, test, benchmark and example.
    pub(crate) roots: Vec<String>,
    /// The packages of the repository that it uses.
    pub(crate) uses: Vec<String>,
    /// Those that only its tests use.
    pub(crate) tests_use: Vec<String>,
}

/// Asks cargo about each workspace among the texts.
pub(crate) fn read(root: &Path, texts: &Texts) -> Result<Vec<Package>, String> {
    let mut packages = Vec::new();
    let is_workspace = |path: &str, text: &str| {
        path.ends_with("Cargo.toml") && text.lines().any(|line| line == "[workspace]")
    };
    for (manifest, _) in texts.iter().filter(|(path, text)| is_workspace(path, text)) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"])
            .arg(root.join(manifest))
            .output()
            .map_err(|cause| format!("cannot run cargo metadata: {cause}"))?;
        if !output.status.success() {
            return Err(format!("{manifest}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|cause| format!("{manifest}: cargo metadata: {cause}"))?;
        packages.extend(list(&metadata["packages"]).map(|value| package(root, value)));
    }
    Ok(packages)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn package(root: &Path, value: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let short = |name: &Value| text(name).trim_start_matches("latchwork-").to_owned();
    let path = |value: &Value| {
        let path = text(value);
        Path::new(&path).strip_prefix(root).map_or(path.clone(), |path| path.display().to_string())
    };
    let mut package = Package {
        name: short(&value["name"]),
        manifest: path(&value["manifest_path"]),
        roots: list(&value["targets"]).map(|target| path(&target["src_path"])).collect(),
        ..Package::default()
    };
    for dependency in list(&value["dependencies"]).filter(|value| !value["path"].is_null()) {
        let tests = dependency["kind"] == "dev";
        let uses = if tests { &mut package.tests_use } else { &mut package.uses };
        uses.push(short(&dependency["name"]));
    }
    package
}
