//! Kept lists: findings that are tolerated for now. The lists only shrink.
//!
//! A line is the key of a finding. For kinds that count, the line also has the tolerated number.
//! Lines are sorted. Comments at the head of a file, and text behind ` # ` in a line, are
//! preserved.
//!
//! A circle needs a reason behind ` # `, unless it is below the heading `# not yet cut`. When files
//! leave a kept circle, the smaller circle is tolerated as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::error::Error;
use super::finding::{Finding, Kind};

const NOT_YET: &str = "# not yet cut";

/// A line of a kept list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    count: usize,
    reason: Option<String>,
    /// Whether the line is below the heading that replaces reasons.
    is_excused: bool,
    /// The line number in the file; 0 for an entry that was just added.
    line: usize,
}

/// The kept list of a kind.
#[derive(Debug)]
pub(crate) struct Kept {
    kind: Kind,
    head: Vec<String>,
    entries: BTreeMap<String, Entry>,
    /// Findings by key, after circles were matched.
    faults: Vec<String>,
}

fn path(kind: Kind) -> String {
    format!("xtask/kept/{}.txt", kind.name())
}

impl Kept {
    pub(crate) fn read(root: &Path, kind: Kind) -> Result<Kept, Error> {
        match fs::read_to_string(root.join(path(kind))) {
            Ok(text) => Ok(Kept::parse(kind, &text)),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Kept::parse(kind, "")),
            Err(cause) => Err(Error::read(&path(kind), cause)),
        }
    }

    fn parse(kind: Kind, text: &str) -> Kept {
        let mut kept =
            Kept { kind, head: Vec::new(), entries: BTreeMap::new(), faults: Vec::new() };
        let mut is_excused = false;
        for (index, line) in text.lines().enumerate() {
            let place = format!("{}:{}", path(kind), index + 1);
            if line.starts_with('#') {
                is_excused |= line == NOT_YET;
                if kept.entries.is_empty() && line != NOT_YET {
                    kept.head.push(line.to_owned());
                }
                continue;
            }
            let (entry, reason) = match line.split_once(" # ") {
                Some((entry, reason)) => (entry.trim(), Some(reason.trim().to_owned())),
                None => (line.trim(), None),
            };
            if entry.is_empty() {
                continue;
            }
            let mut key = entry;
            let mut count = 1;
            if kind.is_counted() {
                let parsed = entry.rsplit_once(' ').and_then(|(k, n)| Some((k, n.parse().ok()?)));
                let Some((name, number)) = parsed else {
                    kept.faults
                        .push(format!("{place}: {}: no count: write `KEY COUNT`", kind.name()));
                    continue;
                };
                (key, count) = (name, number);
            }
            let entry = Entry { count, reason, is_excused, line: index + 1 };
            if kept.entries.insert(key.to_owned(), entry).is_some() {
                let name = kind.name();
                kept.faults.push(format!("{place}: {name}: {key} stands twice: remove this line"));
            }
        }
        kept
    }

    /// The failures: new findings, lines that no finding needs, and circles without a reason.
    pub(crate) fn compare(&self, findings: &[Finding]) -> Vec<String> {
        let name = self.kind.name();
        let mut faults = self.faults.clone();
        let found = group(findings);
        let (matched, used) = self.allowed(&found);
        for (key, findings) in &found {
            let count: usize = findings.iter().map(|finding| finding.count).sum();
            let allowed = matched.get(key).copied().unwrap_or(0);
            let is_new = if self.kind.is_counted() { count > allowed } else { allowed == 0 };
            if !is_new {
                continue;
            }
            let over = if allowed > 0 {
                format!(" (the kept list allows {allowed}, there are {count})")
            } else {
                String::new()
            };
            for finding in findings {
                let Finding { path, line, what, .. } = finding;
                faults.push(format!("{path}:{line}: {name}: {what}{over}"));
            }
        }
        for (key, entry) in &self.entries {
            let place = format!("{}:{}: {name}", path(self.kind), entry.line);
            let is_whole = used.get(key).is_some_and(|&count| count >= entry.count);
            match used.get(key) {
                // A circle that has grown is reported as a new finding, and not here.
                None if self.kind == Kind::Circles && is_part(key, found.keys()) => {}
                None => faults.push(format!(
                    "{place}: {key} is no longer found: remove this line (cargo xtask house --bless)"
                )),
                Some(count) if self.kind.is_counted() && !is_whole => faults.push(format!(
                    "{place}: {key} is down to {count} of {}: lower it (cargo xtask house --bless)",
                    entry.count
                )),
                Some(files) if self.kind == Kind::Circles && *files < key.split(' ').count() => {
                    faults.push(format!(
                        "{place}: {files} files are left of this circle of {}: rewrite this line \
                         (cargo xtask house --bless)",
                        key.split(' ').count()
                    ));
                }
                Some(_) => {}
            }
            if self.kind == Kind::Circles && entry.reason.is_none() && !entry.is_excused {
                faults.push(format!(
                    "{place}: this circle has no reason: say behind ` # ` why it has to stand"
                ));
            }
        }
        faults
    }

    /// The number of tolerated findings.
    pub(crate) fn total(&self) -> usize {
        self.entries.values().map(|entry| entry.count).sum()
    }

    /// Rewrites the entries to the findings. Without `more` no entry is added and no number grows.
    pub(crate) fn bless(&mut self, findings: &[Finding], more: bool) {
        let found = group(findings);
        let mut entries = BTreeMap::new();
        for (key, findings) in &found {
            let count: usize = findings.iter().map(|finding| finding.count).sum();
            let origin = self.origin(key).map(|(_, entry)| entry.clone());
            let mut entry = match origin {
                Some(entry) => entry,
                None if more => Entry { count, reason: None, is_excused: false, line: 0 },
                None => continue,
            };
            entry.count = if more { count } else { count.min(entry.count) };
            entries.insert(key.clone(), entry);
        }
        self.entries = entries;
        self.faults.clear();
    }

    pub(crate) fn write(&mut self, root: &Path) -> Result<(), Error> {
        let path = path(self.kind);
        let text = self.text();
        let fail = |cause| Error::Write { path: path.clone(), cause };
        if let Some(folder) = root.join(&path).parent() {
            fs::create_dir_all(folder).map_err(fail)?;
        }
        fs::write(root.join(&path), &text).map_err(fail)?;
        // Later messages name lines of the new file.
        *self = Kept::parse(self.kind, &text);
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.head {
            text.push_str(line);
            text.push('\n');
        }
        for excused in [false, true] {
            let entries = self.entries.iter().filter(|(_, entry)| entry.is_excused == excused);
            for (index, (key, entry)) in entries.enumerate() {
                if excused && index == 0 {
                    text.push_str(NOT_YET);
                    text.push('\n');
                }
                text.push_str(key);
                if self.kind.is_counted() {
                    text.push_str(&format!(" {}", entry.count));
                }
                if let Some(reason) = &entry.reason {
                    text.push_str(&format!(" # {reason}"));
                }
                text.push('\n');
            }
        }
        text
    }

    /// The entry of a found key: the entry with that key, or for a circle an entry with all its
    /// files.
    fn origin(&self, key: &str) -> Option<(&String, &Entry)> {
        if let Some(own) = self.entries.get_key_value(key) {
            return Some(own);
        }
        if self.kind != Kind::Circles {
            return None;
        }
        let files: BTreeSet<&str> = key.split(' ').collect();
        self.entries.iter().find(|(kept, _)| files.is_subset(&kept.split(' ').collect()))
    }

    /// The tolerated number for each found key, and the used number of each entry. For a circle the
    /// number counts files.
    fn allowed(
        &self,
        found: &BTreeMap<String, Vec<&Finding>>,
    ) -> (BTreeMap<String, usize>, BTreeMap<String, usize>) {
        let (mut allowed, mut used) = (BTreeMap::new(), BTreeMap::new());
        for (key, findings) in found {
            let Some((kept, entry)) = self.origin(key) else { continue };
            allowed.insert(key.clone(), entry.count);
            *used.entry(kept.clone()).or_default() += match self.kind {
                Kind::Circles => key.split(' ').count(),
                _ => findings.iter().map(|finding| finding.count).sum(),
            };
        }
        (allowed, used)
    }
}

/// Whether one of the circles holds all files of this one.
fn is_part<'a>(key: &str, mut circles: impl Iterator<Item = &'a String>) -> bool {
    let files: BTreeSet<&str> = key.split(' ').collect();
    circles.any(|circle| files.is_subset(&circle.split(' ').collect()))
}

fn group(findings: &[Finding]) -> BTreeMap<String, Vec<&Finding>> {
    let mut found: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        found.entry(finding.key.clone()).or_default().push(finding);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(keys: &[&str]) -> Vec<Finding> {
        keys.iter().map(|key| Finding::new("a.rs", 7, *key, "wrong: mend it".to_owned())).collect()
    }

    #[test]
    fn what_is_kept_stands_and_what_is_new_fails() {
        let kept = Kept::parse(Kind::Imports, "# Head.\na.rs\n");
        assert!(kept.compare(&findings(&["a.rs"])).is_empty());
        assert_eq!(kept.compare(&findings(&["a.rs", "b.rs"])), ["a.rs:7: imports: wrong: mend it"]);
    }

    #[test]
    fn a_line_that_is_no_longer_needed_fails_until_it_is_blessed_away() {
        let mut kept = Kept::parse(Kind::Imports, "# Head.\na.rs\nb.rs\n");
        let faults = kept.compare(&findings(&["a.rs"]));
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("xtask/kept/imports.txt:3: imports: b.rs is no longer"));
        kept.bless(&findings(&["a.rs"]), false);
        assert_eq!(kept.text(), "# Head.\na.rs\n");
    }

    #[test]
    fn counts_may_fall_and_not_rise() {
        let mut kept = Kept::parse(Kind::Words, "a.rs 2\n");
        assert!(kept.compare(&findings(&["a.rs", "a.rs"])).is_empty());
        assert_eq!(kept.compare(&findings(&["a.rs", "a.rs", "a.rs"])).len(), 3);
        assert_eq!(kept.compare(&findings(&["a.rs"])).len(), 1);
        kept.bless(&findings(&["a.rs", "a.rs", "a.rs", "b.rs"]), false);
        assert_eq!(kept.text(), "a.rs 2\n");
        kept.bless(&findings(&["a.rs"]), false);
        assert_eq!(kept.text(), "a.rs 1\n");
        kept.bless(&findings(&["a.rs", "a.rs", "b.rs"]), true);
        assert_eq!(kept.text(), "a.rs 2\nb.rs 1\n");
    }

    #[test]
    fn a_circle_that_shrinks_or_breaks_up_stands_and_its_line_is_rewritten() {
        let mut kept = Kept::parse(Kind::Circles, "# not yet cut\na b c d e\n");
        assert!(kept.compare(&findings(&["a b c d e"])).is_empty());
        let faults = kept.compare(&findings(&["a b", "c d"]));
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("4 files are left"), "{faults:?}");
        kept.bless(&findings(&["a b", "c d"]), false);
        assert_eq!(kept.text(), "# not yet cut\na b\nc d\n");
    }

    #[test]
    fn a_circle_that_grows_or_joins_another_one_fails() {
        let kept = Kept::parse(Kind::Circles, "# not yet cut\na b\nc d\n");
        assert_eq!(kept.compare(&findings(&["a b e", "c d"])).len(), 1);
        assert_eq!(kept.compare(&findings(&["a b c d"])).len(), 1);
    }

    #[test]
    fn a_circle_above_the_heading_needs_a_reason() {
        let kept =
            Kept::parse(Kind::Circles, "a b # One machine of two files.\n# not yet cut\nc d\n");
        assert!(kept.compare(&findings(&["a b", "c d"])).is_empty());
        let kept = Kept::parse(Kind::Circles, "a b\n");
        let faults = kept.compare(&findings(&["a b"]));
        assert!(faults[0].contains("no reason"), "{faults:?}");
    }
}
