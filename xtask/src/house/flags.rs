//! Flags: one thing has one name in all programs, and no `--help` shows more than 30 flags.
//!
//! The findings are names that `xtask/rules/flags.txt` calls synonyms, two names with the same help
//! text, visible aliases, and commands with too many flags. Hidden flags and hidden aliases do not
//! count.

use std::collections::BTreeMap;

use super::commands::{CommandType, Field, Flag};
use super::facts::File;
use super::finding::Finding;
use super::programs::{programs, types};
use super::rules::Rules;
use super::tree::Tree;

const FLAGS_MAX: usize = 30;
pub(crate) fn check(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for program in programs(tree, rules) {
        let count = program.longest();
        if count > FLAGS_MAX {
            let what = format!(
                "one --help of {} shows {count} flags: hide or merge all but {FLAGS_MAX}",
                program.name
            );
            let key = format!("program {}", program.name);
            findings
                .push(Finding { count, ..Finding::new(&program.path, program.line, key, what) });
        }
    }
    let mut by_doc: BTreeMap<String, (&str, &File)> = BTreeMap::new();
    for (file, command) in types(tree) {
        for flag in flags(command).filter(|flag| !flag.is_hidden) {
            let long = flag.long.as_str();
            let package = &tree.packages[file.package].name;
            let scoped = rules.synonyms.get(&format!("{package}:{long}"));
            if let Some(right) = scoped.or_else(|| rules.synonyms.get(long)) {
                let what = format!("--{long} is --{right} elsewhere: call it --{right}");
                let key = format!("synonym --{long} in {package}");
                findings.push(Finding::new(&file.path, flag.line, key, what));
            }
            for alias in &flag.aliases {
                let what = format!("--{alias} is a second name of --{long}: hide the alias");
                let key = format!("alias --{alias} of --{long}");
                findings.push(Finding::new(&file.path, flag.line, key, what));
            }
            let doc = clause(&flag.doc);
            if doc.is_empty() {
                continue;
            }
            match by_doc.get(&doc) {
                Some((other, at)) if *other != long => {
                    let what = format!(
                        "--{long} has the help text of --{other} in {}: give both one name, or say \
                         what differs",
                        at.path
                    );
                    let key = format!("help --{other} --{long}");
                    findings.push(Finding::new(&file.path, flag.line, key, what));
                }
                Some(_) => {}
                None => {
                    by_doc.insert(doc, (long, file));
                }
            }
        }
    }
    findings
}

fn flags(command: &CommandType) -> impl Iterator<Item = &Flag> {
    let variants = command.variants.iter().flat_map(|(_, fields)| fields);
    command.fields.iter().chain(variants).filter_map(|field| match field {
        Field::Flag(flag) => Some(flag),
        _ => None,
    })
}

/// The first clause of a help text, in lower case. Text after a comma or a bracket only names
/// values and cases.
fn clause(doc: &str) -> String {
    let first = doc.split(". ").next().unwrap_or_default();
    let first = first.split([',', ';', '(', '[']).next().unwrap_or_default();
    first.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches('.').to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;
    use super::*;

    fn program(fields: &str) -> String {
        format!("#[derive(Debug, Parser)]\n#[command(name = \"p\")]\nstruct Cli {{\n{fields}\n}}\n")
    }

    fn keys(fixture: &Fixture) -> Vec<String> {
        check(&fixture.tree(), &fixture.rules()).into_iter().map(|found| found.key).collect()
    }

    #[test]
    fn two_names_for_one_thing_are_found() {
        let one = program("/// Compute nodes. Up to 58.\n#[arg(long)]\nnodes: u32,");
        let two =
            program("/// Compute nodes, one at least.\n#[arg(long = \"hosts\")]\nnodes: u32,");
        let same = Fixture::library("a", &one).and_library("b", "", &one);
        assert!(keys(&same).is_empty());
        assert_eq!(keys(&same.and_library("b", "", &two)), ["help --nodes --hosts"]);
    }

    #[test]
    fn listed_synonyms_and_visible_aliases_are_found_unless_hidden() {
        let fields = "/// A.\n#[arg(long, visible_alias = \"b\")]\na: u32,\n/// C.\n#[arg(long)]\nold_name: u32,\n\
            /// D.\n#[arg(long, hide = true)]\nolder_name: u32,";
        let fixture = Fixture::library("a", &program(fields))
            .with("xtask/rules/flags.txt", "old-name, older-name -> new-name\n");
        assert_eq!(keys(&fixture), ["alias --b of --a", "synonym --old-name in a"]);
        let scoped = fixture.with("xtask/rules/flags.txt", "b:a -> x\na:old-name -> y\n");
        assert_eq!(keys(&scoped), ["alias --b of --a", "synonym --old-name in a"]);
    }

    #[test]
    fn flags_are_counted_per_help_with_flattened_and_global_ones() {
        let many: String = (0..29).map(|n| format!("#[arg(long)]\nf{n}: u32,\n")).collect();
        let shared = format!(
            "#[derive(clap::Args)]\nstruct Shared {{\n{many}#[arg(long, hide = true)]\nhidden: u32,\n}}\n"
        );
        let cli = program(
            "#[arg(long, global = true)]\neverywhere: u32,\n#[command(subcommand)]\ncommand: Option<Command>,",
        );
        let command = "#[derive(Subcommand)]\nenum Command { Run(Shared), Stop { #[arg(long)] now: bool } }\n";
        let fixture = Fixture::program("a", &format!("{shared}{cli}{command}"));
        let found = programs(&fixture.tree(), &fixture.rules());
        assert_eq!((found[0].longest(), found[0].all()), (30, 31));
        assert!(keys(&fixture).is_empty());
        let more = shared.replace("hide = true", "hide = false");
        let fixture = Fixture::program("a", &format!("{more}{cli}{command}"));
        let found = check(&fixture.tree(), &fixture.rules());
        assert_eq!((found[0].key.as_str(), found[0].count), ("program p", 31));
    }

    #[test]
    fn flags_that_a_table_or_the_start_of_a_program_adds_are_counted() {
        let cli = program("#[command(flatten)]\nsettings: SettingFlags,");
        let main = format!("{cli}fn main() {{ shared::start(\"p\"); }}\n");
        let table =
            "const T: &[S] = &[entry!(\"one\": one), entry!(\"two\": two), other!(\"no\": no)];";
        let fixture = Fixture::program("a", &main).and_library("b", "", table).with(
            "xtask/rules/flags.txt",
            "table SettingFlags = entry crates/b/src/lib.rs\nstart shared::start = log config\n",
        );
        let found = programs(&fixture.tree(), &fixture.rules());
        let flags: Vec<_> = found[0].commands[""].iter().map(String::as_str).collect();
        assert_eq!(flags, ["config", "log", "one", "two"]);
    }
}
