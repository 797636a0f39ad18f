//! The file of a matrix, and the cases that its lists produce.
//!
//! ```toml
//! title = "Three fabrics"
//! repeat = 2                                    # of each case
//! memory-mb = "128M"                            # any flag of `cluster run`, for all cases
//! program = "ycsb"
//! flags.threads = 1                             # the program's own, settings too
//! flags.ycsb = { command = "check" }            # of this program only
//!
//! [[cases]]                                     # lists multiply: four cases
//! fabric = ["shm", "tcp"]
//! flags = { workload = ["a", "c"] }
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use clap::Parser;
use latchwork_files::InputKind;
use latchwork_harness::AppError;
use latchwork_harness::config::is_setting;
use latchwork_harness::parse::one_line;
use toml::{Table, Value};

use crate::args::Run;
use crate::shell;

/// A matrix.
pub(crate) struct Spec {
    pub(crate) title: String,
    pub(crate) cases: Vec<Case>,
}

/// One cell of the matrix: one set of values.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The name, made from the values in which the case differs from others.
    pub(crate) name: String,
    /// All values of the case, key by key.
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) run: Run,
    pub(crate) repeat: u32,
    /// A hash of all values of the case.
    pub(crate) hash: u64,
}

const FILE: InputKind = InputKind { name: "a matrix", bytes_max: 16 << 20 };

/// Keys of the file that are not flags of `cluster run`.
const TITLE: &str = "title";
const REPEAT: &str = "repeat";
const CASES: &str = "cases";
const PROGRAM: &str = "program";
const ARGUMENTS: &str = "arguments";
const FLAGS: &str = "flags";
/// The key of the program's subcommand, among the program's flags.
const COMMAND: &str = "command";

/// The keys that come first in a name and in the table.
const FIRST: [&str; 5] = [PROGRAM, "on", "fabric", "memory-nodes", "compute-nodes"];
/// Flags that belong to the matrix and not to a case.
const MATRIX: [&str; 3] = ["results", "dry-run", "archive"];
/// The maximum number of cases.
const MOST: usize = 10_000;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    run: Run,
}

/// Reads a matrix.
pub(crate) fn load(path: &Path, defaults: &[(&str, String)]) -> Result<Spec, AppError> {
    let wrong = |problem: String| AppError::Usage(format!("{}: {problem}", path.display()));
    let text = latchwork_files::read_text(path, FILE).map_err(|error| wrong(error.to_string()))?;
    parse(&text, defaults).map_err(wrong)
}

pub(crate) fn parse(text: &str, defaults: &[(&str, String)]) -> Result<Spec, String> {
    let mut common: Table = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    for (key, value) in defaults {
        common.entry(*key).or_insert_with(|| Value::String(value.clone()));
    }
    let title = match common.remove(TITLE) {
        None => "Experiments".to_owned(),
        Some(Value::String(title)) => title,
        Some(_) => return Err("title: use text".to_owned()),
    };
    let tables = match common.remove(CASES) {
        Some(Value::Array(tables)) => tables,
        _ => {
            return Err(
                "there are no cases: write [[cases]], and what each of them is below".to_owned()
            );
        }
    };
    let mut cases: Vec<Case> = Vec::new();
    let (mut run, mut meant) = (BTreeSet::new(), programs_with_flags(&common));
    for (number, table) in tables.into_iter().enumerate() {
        let place = |problem: String| format!("cases, number {}: {problem}", number + 1);
        let Value::Table(own) = table else { return Err(place("use a table".to_owned())) };
        meant.extend(programs_with_flags(&own));
        for program in programs(own.get(PROGRAM).or(common.get(PROGRAM))) {
            let of = |table: &Table| of_program(table, program.as_ref());
            let merged = merge(&of(&common), of(&own)).map_err(place)?;
            for cell in multiply(&merged).map_err(place)? {
                cases.push(case(&cell).map_err(place)?);
                if cases.len() > MOST {
                    return Err(format!("these are more than {MOST} cases"));
                }
            }
            run.extend(program.as_ref().and_then(Value::as_str).map(str::to_owned));
        }
    }
    if let Some(program) = meant.difference(&run).next() {
        return Err(format!("flags.{program}: no case runs the program {program}"));
    }
    if cases.is_empty() {
        return Err("there are no cases".to_owned());
    }
    name(&mut cases);
    let mut hashes = BTreeSet::new();
    if let Some(again) = cases.iter().find(|case| !hashes.insert(case.hash)) {
        return Err(format!("{} is there twice", again.name));
    }
    Ok(Spec { title, cases })
}

/// The programs of a case. `None` stands for a case that names none.
fn programs(named: Option<&Value>) -> Vec<Option<Value>> {
    match named {
        Some(Value::Array(programs)) if !programs.is_empty() => {
            programs.iter().cloned().map(Some).collect()
        }
        one => vec![one.cloned()],
    }
}

/// The programs that have flags of their own in this table.
fn programs_with_flags(table: &Table) -> BTreeSet<String> {
    let flags = table.get(FLAGS).and_then(Value::as_table).into_iter().flatten();
    flags.filter(|(_, value)| value.is_table()).map(|(name, _)| name.clone()).collect()
}

/// The table for one program: with the flags of this program, and without those of the others.
fn of_program(table: &Table, program: Option<&Value>) -> Table {
    let mut table = table.clone();
    if let (true, Some(program)) = (table.contains_key(PROGRAM), program) {
        table.insert(PROGRAM.to_owned(), program.clone());
    }
    if let Some(Value::Table(flags)) = table.get_mut(FLAGS) {
        let (of_programs, mut all): (Table, Table) =
            std::mem::take(flags).into_iter().partition(|(_, value)| value.is_table());
        let own = program.and_then(Value::as_str).and_then(|program| of_programs.get(program));
        all.extend(own.and_then(Value::as_table).cloned().unwrap_or_default());
        *flags = all;
    }
    table
}

/// The values that all cases share, overridden by the own values of this case.
fn merge(common: &Table, own: Table) -> Result<Table, String> {
    let mut merged = common.clone();
    for (key, value) in own {
        match (merged.get_mut(&key), value) {
            (Some(Value::Table(common)), Value::Table(own)) => common.extend(own),
            (_, value) => _ = merged.insert(key, value),
        }
    }
    Ok(merged)
}

/// One value for each key. A key is a flag of `cluster run` or a flag of the program.
type Cell = Vec<(Key, Value)>;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Key {
    Run(String),
    Flag(String),
}

impl Key {
    fn name(&self) -> &str {
        match self {
            Key::Run(name) | Key::Flag(name) => name,
        }
    }

    /// The key's position in names and tables.
    fn order(&self) -> (usize, bool, &str) {
        let first = FIRST.iter().position(|name| *self == Key::Run((*name).to_owned()));
        let is_last = matches!(self, Key::Flag(_)) || self.name() == ARGUMENTS;
        (first.unwrap_or(FIRST.len()), is_last, self.name())
    }
}

/// The cross product of all lists: one cell for each combination of values.
fn multiply(table: &Table) -> Result<Vec<Cell>, String> {
    let mut axes: Vec<(Key, Vec<Value>)> = Vec::new();
    let mut add = |key: Key, value: &Value| {
        let values = match value {
            Value::Array(values) if values.is_empty() => {
                return Err(format!("{}: the list is empty", key.name()));
            }
            Value::Array(values) => values.clone(),
            value => vec![value.clone()],
        };
        axes.push((key, values));
        Ok(())
    };
    for (key, value) in table {
        match (key.as_str(), value) {
            (FLAGS, Value::Table(flags)) => {
                for (flag, value) in flags {
                    add(Key::Flag(flag.clone()), value)?;
                }
            }
            (FLAGS, _) => return Err("flags: use a table, as { threads = 1 }".to_owned()),
            _ => add(Key::Run(key.clone()), value)?,
        }
    }
    axes.sort_by(|(one, _), (other, _)| one.order().cmp(&other.order()));
    let mut cells: Vec<Cell> = vec![Vec::new()];
    for (key, values) in axes {
        // The check precedes the construction, because two long lists make more cases than fit in
        // memory.
        if cells.len().saturating_mul(values.len()) > MOST {
            return Err(format!("these are more than {MOST} cases"));
        }
        let with = |cell: &Cell| {
            let one = |value: &Value| {
                let mut cell = cell.clone();
                cell.push((key.clone(), value.clone()));
                cell
            };
            values.iter().map(one).collect::<Vec<_>>()
        };
        cells = cells.iter().flat_map(with).collect();
    }
    Ok(cells)
}

/// A value as text.
fn text(key: &Key, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(is_on) => Ok(is_on.to_string()),
        _ => Err(format!("{}: use text, a number, true or false, or a list of them", key.name())),
    }
}

fn case(cell: &Cell) -> Result<Case, String> {
    let (mut flags, mut command, mut own, mut arguments) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // The arguments in the form that they had before settings existed. Their hash names the
    // directories of results, so the form must not change.
    let mut hashed = Vec::new();
    let (mut program, mut repeat, mut labels) = (None, 1, Vec::new());
    for (key, value) in cell {
        // A list inside a list is a flag with several occurrences.
        let values: Vec<String> = match (key, value) {
            (Key::Flag(_), Value::Array(values)) => {
                values.iter().map(|value| text(key, value)).collect::<Result<_, _>>()?
            }
            _ => vec![text(key, value)?],
        };
        let word = values.join(" ");
        let given = |name: &str| {
            values
                .iter()
                .map(|value| match value.as_str() {
                    "true" => format!("--{name}"),
                    value => format!("--{name}={value}"),
                })
                .collect::<Vec<_>>()
        };
        match key {
            Key::Flag(name) if name == COMMAND => command = vec![word.clone()],
            Key::Flag(name) if is_setting(program.as_deref().unwrap_or_default(), name) => {
                own.extend(values.iter().map(|value| match value.as_str() {
                    "true" => format!("--set={name}=on"),
                    value => format!("--set={name}={value}"),
                }));
                hashed.extend(given(name));
            }
            Key::Flag(name) => {
                own.extend(given(name));
                hashed.extend(given(name));
            }
            Key::Run(name) => match name.as_str() {
                PROGRAM => program = Some(word.clone()),
                ARGUMENTS => arguments = shell::split(&word)?,
                REPEAT => {
                    let number = word.parse().ok().filter(|number| (1..=1000).contains(number));
                    repeat =
                        number.ok_or_else(|| "repeat: use a number from 1 to 1000".to_owned())?;
                    continue;
                }
                name if MATRIX.contains(&name) => {
                    return Err(format!("{name} is a flag of the matrix as a whole"));
                }
                name if word != "false" => flags.extend(given(name)),
                _ => {}
            },
        }
        labels.push((key.name().to_owned(), word));
    }
    let Some(program) = program else {
        return Err("say what runs, with program = \"ycsb\"".to_owned());
    };
    flags.extend([program, "--".to_owned()]);
    flags.extend(command.into_iter().chain(arguments));
    let hash = hash(flags.iter().chain(&hashed));
    flags.extend(own);
    let line = Line::try_parse_from(&flags).map_err(|error| one_line(&error))?;
    Ok(Case { name: String::new(), labels, run: line.run, repeat, hash })
}

/// The hash FNV-1a. It does not depend on the compiler or its version.
fn hash<'a>(words: impl Iterator<Item = &'a String>) -> u64 {
    let bytes = words.flat_map(|word| word.bytes().chain([0]));
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// The keys in which cases differ, in order.
pub(crate) fn differing(cases: &[Case]) -> Vec<String> {
    let mut keys: Vec<&str> = Vec::new();
    let mut known = BTreeSet::new();
    for (key, _) in cases.iter().flat_map(|case| &case.labels) {
        if known.insert(key) {
            keys.push(key);
        }
    }
    let differs = |key: &&str| {
        // A key that another program does not have distinguishes no cases. A key that only some
        // cases of one program have does.
        let mut values = BTreeSet::new();
        let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
        for case in cases {
            let label = case.label(key);
            values.extend(label);
            if label.is_some() { &mut with } else { &mut without }.insert(&case.run.program);
        }
        values.len() > 1 || !with.is_disjoint(&without)
    };
    keys.into_iter().filter(differs).map(str::to_owned).collect()
}

fn name(cases: &mut [Case]) {
    let keys = differing(cases);
    for case in cases {
        let program = case.run.program.clone();
        let others = keys.iter().filter(|key| *key != PROGRAM);
        // A number alone says nothing without its key.
        let part = |key: &str, value: &str| match value
            .starts_with(|letter: char| letter.is_ascii_digit())
        {
            true => format!("{key}={value}"),
            false => value.to_owned(),
        };
        let values = others.filter_map(|key| Some(part(key, case.label(key)?)));
        let parts: Vec<_> = std::iter::once(program).chain(values).collect();
        case.name = parts.join(" ");
    }
}

impl Case {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The name of its directory.
    pub(crate) fn directory(&self) -> String {
        let plain = |letter: char| match letter {
            letter if letter.is_ascii_alphanumeric() || "._".contains(letter) => letter,
            _ => '-',
        };
        let name: String = self.name.chars().map(plain).take(60).collect();
        format!("{name}-{:08x}", self.hash as u32 ^ (self.hash >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Fabric, Place};

    const GOOD: &str = "
title = 'Two by two'
memory-mb = '64M'
program = 'ycsb'
flags = { command = 'check', threads = 1 }
[[cases]]
fabric = ['shm', 'tcp']
flags = { workload = ['a', 'c'] }
[[cases]]
program = 'tpcc'
fabric = 'ibverbs'
repeat = 3
arguments = \"--cc 'occ'\"
flags = { threads = 2 }
";

    fn cases(text: &str) -> Vec<Case> {
        parse(text, &[]).expect("a matrix").cases
    }

    #[test]
    fn lists_multiply_and_a_table_without_one_is_a_case() {
        let cases = cases(GOOD);
        let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "ycsb shm threads=1 a",
                "ycsb shm threads=1 c",
                "ycsb tcp threads=1 a",
                "ycsb tcp threads=1 c",
                "tpcc ibverbs threads=2"
            ]
        );
        let (first, last) = (&cases[0].run, &cases[4].run);
        assert_eq!(first.arguments, ["check", "--threads=1", "--workload=a"]);
        assert_eq!(
            (first.memory(), first.on(), first.fabric()),
            (64 << 20, Place::Processes, Fabric::Shm)
        );
        assert_eq!(last.arguments, ["check", "--cc", "occ", "--threads=2"]);
        assert_eq!((last.on(), cases[4].repeat, cases[0].repeat), (Place::Vm, 3, 1));
        assert_eq!(differing(&cases), ["program", "fabric", "threads", "workload"]);
    }

    /// Bug: a matrix of two programs gave each the flags of the other.
    #[test]
    fn flags_of_a_program_are_given_to_no_other() {
        let text = "
program = ['ycsb', 'tpcc']
flags.threads = 1
[flags.ycsb]
command = 'check'
workload = ['a', 'c']
[flags.tpcc]
threads = 2
[[cases]]
fabric = 'shm'
[[cases]]
program = 'tpcc'
fabric = 'tcp'
flags = { threads = 3 }
";
        let arguments: Vec<_> =
            cases(text).into_iter().map(|case| case.run.arguments.join(" ")).collect();
        let ycsb = ["check --threads=1 --workload=a", "check --threads=1 --workload=c"];
        assert_eq!(arguments, [ycsb[0], ycsb[1], "--threads=2", "--threads=3"]);
        let text = "[flags.yscb]\nthreads = 1\n[[cases]]\nprogram = 'ycsb'";
        let told = parse(text, &[]).err().expect("no case runs it");
        assert_eq!(told, "flags.yscb: no case runs the program yscb");
    }

    #[test]
    fn a_list_in_a_list_is_one_value() {
        let text = "[[cases]]\nprogram = 'ycsb'\nflags = { property = [['a=1', 'b=2'], 'c=3'], prefault = [true, false] }";
        let arguments: Vec<_> =
            cases(text).into_iter().map(|case| case.run.arguments.join(" ")).collect();
        assert_eq!(
            arguments,
            [
                "--set=prefault=on --property=a=1 --property=b=2",
                "--set=prefault=on --property=c=3",
                "--set=prefault=false --property=a=1 --property=b=2",
                "--set=prefault=false --property=c=3"
            ]
        );
    }

    #[test]
    fn a_directory_belongs_to_all_that_a_case_is() {
        let of = |text: &str| cases(text)[0].directory();

        assert_eq!(of(GOOD), of(GOOD));
        assert!(of(GOOD).starts_with("ycsb-shm-threads-1-a-"), "{}", of(GOOD));
        assert_ne!(of(GOOD), of(&GOOD.replace("64M", "128M")), "not its name only");
    }

    /// Bug: two lists of five thousand values made 25 million cases before they were counted, which
    /// took gigabytes. Also, each of ten thousand cases was compared with every other case.
    #[test]
    fn a_matrix_of_too_many_cases_is_refused_before_they_are_made() {
        let numbers = |most: u32| (0..most).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let matrix = |one: u32, other: u32| {
            let (one, other) = (numbers(one), numbers(other));
            format!("[[cases]]\nprogram = 'ycsb'\nflags = {{ a = [{one}], b = [{other}] }}")
        };
        let refused = parse(&matrix(200_000, 200_000), &[]).err();
        assert_eq!(refused.as_deref(), Some("cases, number 1: these are more than 10000 cases"));
        assert_eq!(cases(&matrix(100, 100)).len(), 10_000);
    }

    #[test]
    fn what_is_wrong_is_one_line_that_says_where() {
        for (text, problem) in [
            ("title = 1", "title: use text"),
            ("x = [", "line 1: "),
            ("program = 'ycsb'", "there are no cases: write [[cases]]"),
            ("[[cases]]\nfabric = 'tcp'", "cases, number 1: say what runs"),
            ("[[cases]]\nprogram = 'ycsb'\nfabric = 'udp'", "number 1: invalid value 'udp'"),
            (
                "[[cases]]\nprogram = 'ycsb'\nfabrics = 'tcp'",
                "a similar argument exists: '--fabric'",
            ),
            ("[[cases]]\nprogram = 'ycsb'\nfabric = []", "fabric: the list is empty"),
            ("[[cases]]\nprogram = 'ycsb'\nresults = 'x'", "results is a flag of the matrix"),
            ("[[cases]]\nprogram = 'ycsb'\nrepeat = 0", "repeat: use a number"),
            ("[[cases]]\nprogram = 'ycsb'\nflags = 'x'", "flags: use a table"),
            ("[[cases]]\nprogram = 'ycsb'\narguments = \"'\"", "has no end"),
            ("[[cases]]\nprogram = 'ycsb'\n[[cases]]\nprogram = 'ycsb'", "ycsb is there twice"),
        ] {
            let told = parse(text, &[]).err().unwrap_or_default();
            assert!(told.contains(problem) && !told.contains('\n'), "{text}: {told}");
        }
    }
}
