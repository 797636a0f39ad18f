//! Tests of the merge of file, environment and command line.

use std::path::Path;

use clap::{Parser, Subcommand};
use tempfile::NamedTempFile;

use super::*;

#[derive(Debug, Parser)]
#[command(name = "ycsb", args_override_self = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Do>,
    #[arg(long, global = true, default_value = "1", value_parser = crate::parse::whole(1..=8u32))]
    threads: u32,
    #[arg(long, short = 'p', global = true)]
    property: Vec<String>,
    #[arg(long, global = true)]
    prefault: bool,
    #[arg(long, global = true, conflicts_with_all = ["weight", "prefault"])]
    only: Option<String>,
    #[arg(long, global = true, default_value = "45,43")]
    weight: String,
    #[arg(long, global = true, default_value = "256", hide_default_value = true)]
    cache_mb: String,
    #[arg(long, global = true, value_parser = ["plain", "json"])]
    output: Option<String>,
    /// Lines that one sweep evicts.
    #[arg(long, global = true, value_parser = crate::parse::whole(1..=64u32), default_value = "8")]
    #[arg(hide = true, help_heading = "Settings: Protocol")]
    evict_batch: u32,
    /// Take all memory at the start.
    #[arg(long, global = true, hide = true, help_heading = "Settings: Memory")]
    huge: bool,
    /// Devices. [default: all there are]
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "huge")]
    #[arg(hide = true, help_heading = "Settings: Memory")]
    device: Vec<String>,
    #[arg(long, global = true)]
    operations: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
enum Do {
    Load {
        #[arg(long)]
        twice: bool,
    },
    Run,
}

fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a directory for it");
    std::fs::write(file.path(), text).expect("room");
    file
}

fn read_all(
    file: Option<&Path>,
    variables: &[(&str, &str)],
    arguments: &str,
) -> Result<Read<Cli>, ReadError> {
    let mut all: Vec<OsString> = vec!["ycsb".into()];
    all.extend(arguments.split_whitespace().map(OsString::from));
    if let Some(file) = file {
        all.splice(1..1, ["--config".into(), file.into()]);
    }
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    read("ycsb", all, variables)
}

fn good(text: &str, variables: &[(&str, &str)], arguments: &str) -> Cli {
    let file = file(text);
    match read_all(Some(file.path()), variables, arguments) {
        Ok(Read::Run(configured)) => configured.cli,
        Ok(Read::Print(text)) => panic!("nobody asked for {text}"),
        Err(error) => panic!("{text} {variables:?} {arguments}: {error:?}"),
    }
}

fn wrong(text: &str, variables: &[(&str, &str)], arguments: &str) -> String {
    let file = file(text);
    let line = match read_all(Some(file.path()), variables, arguments) {
        Err(ReadError::Elsewhere(error)) => error.to_string(),
        Err(ReadError::CommandLine(error)) => crate::parse::one_line(&error),
        Ok(_) => panic!("{text} {variables:?} {arguments} is wrong"),
    };
    assert!(!line.contains('\n'), "{line}");
    line.replace(&file.path().display().to_string(), "FILE")
}

fn printed(text: &str, arguments: &str) -> String {
    let file = file(text);
    match read_all(Some(file.path()), &[], &format!("{arguments} --print-config")) {
        Ok(Read::Print(text)) => text.replace(&file.path().display().to_string(), "FILE"),
        _ => panic!("{text} {arguments}"),
    }
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
    let (text, variable) = ("threads = 2", &[("LATCHWORK_THREADS", "3")]);
    assert_eq!(good("", &[], "").threads, 1);
    assert_eq!(good(text, &[], "").threads, 2);
    assert_eq!(good(text, variable, "").threads, 3);
    assert_eq!(good(text, variable, "--threads 4").threads, 4);
    assert_eq!(good(text, &[("LATCHWORK_THREADS", "")], "").threads, 2, "empty is not there");
}

#[test]
fn flags_behind_a_subcommand_win_as_those_before_it_do() {
    for arguments in ["--threads 4 run", "run --threads 4"] {
        let cli = good("threads = 2\nproperty = \"a=1\"", &[], arguments);
        assert_eq!((cli.threads, cli.command), (4, Some(Do::Run)), "{arguments}");
        assert_eq!(cli.property, ["a=1"]);
    }
}

#[test]
fn a_programs_own_table_wins_over_what_is_for_all_and_others_are_not_read() {
    let text =
        "threads = 2\nwarehouses = 3\n[ycsb]\nthreads = 5\n[tpcc]\nthreads = 6\nnonsense = 1";
    assert_eq!(good(text, &[], "").threads, 5);
}

#[test]
fn lists_add_up_with_the_command_line_last() {
    let variable = &[("LATCHWORK_PROPERTY", r#"["c=3", "d=4"]"#)];
    let cli = good("property = [\"a=1\", \"b=2\"]", variable, "-p e=5 run");
    assert_eq!(cli.property, ["a=1", "b=2", "c=3", "d=4", "e=5"]);
    assert_eq!(good("", &[("LATCHWORK_PROPERTY", "a=1")], "").property, ["a=1"]);
}

#[test]
fn a_switch_can_be_turned_off_again() {
    let text = "prefault = true";
    assert!(good(text, &[], "").prefault && good("", &[], "--prefault").prefault);
    assert!(!good(text, &[("LATCHWORK_PREFAULT", "false")], "").prefault);
    assert!(!good(text, &[], "--prefault=false").prefault);
}

#[test]
fn what_wins_hides_what_it_excludes() {
    let cli = good("weight = \"50,50\"\nprefault = true", &[], "--only payment");
    assert_eq!((cli.only.as_deref(), cli.prefault), (Some("payment"), false));
    let cli = good("only = \"payment\"", &[("LATCHWORK_WEIGHT", "50,50")], "");
    assert_eq!((cli.only, cli.weight.as_str()), (None, "50,50"));
    // A switch that is off excludes nothing.
    let cli = good("only = \"payment\"\nprefault = false", &[], "");
    assert_eq!(cli.only.as_deref(), Some("payment"));
    let line = wrong("\nonly = \"payment\"\nweight = \"1,1\"", &[], "");
    assert!(line.contains("FILE:2: only: it cannot be used with weight (FILE:3)"), "{line}");
}

#[test]
fn the_subcommand_is_a_key_too() {
    assert_eq!(good("command = \"run\"", &[], "").command, Some(Do::Run));
    let load = |twice| Some(Do::Load { twice });
    assert_eq!(
        good("command = \"run\"", &[("LATCHWORK_COMMAND", "load")], "").command,
        load(false)
    );
    let cli = good("command = \"run\"\nthreads = 2", &[], "load --twice");
    assert_eq!((cli.command, cli.threads), (load(true), 2));
    let line = wrong("command = \"walk\"", &[], "");
    assert!(line.contains("FILE:1: command: use one of load, run"), "{line}");
}

#[test]
fn an_error_names_the_line_or_the_variable() {
    for (text, told) in [
        ("\nthreads = 9", "FILE:2: threads: 9: use a whole number from 1 to 8"),
        ("threads = \"x\"", "FILE:1: threads: x: use a whole number"),
        ("threads = [1, 2]", "FILE:1: threads: it takes one value, not a list"),
        ("threads = 1979-05-27", "FILE:1: threads: use a string, a number"),
        ("output = \"xml\"", "FILE:1: output: xml: use one of plain, json"),
        ("thread = 3", "FILE:1: thread: no program has such a flag; did you mean threads?"),
        ("[ycsb]\nthread = 3", "FILE:2: thread: ycsb has no such flag; did you mean threads?"),
        ("[ycsb]\nwarehouses = 3", "FILE:2: warehouses: ycsb has no such flag; ycsb --help"),
        (
            "roaming = true",
            "FILE:1: roaming: there is no roaming any more; use --set terminals=any",
        ),
        ("[tpc]\nwarehouses = 3", "FILE:1: tpc: a table is for a program; did you mean [tpcc]?"),
        ("config = \"other\"", "FILE:1: config: --config belongs on the command line"),
        ("threads = 1\nthreads = 2", "FILE:2: this is no TOML"),
        ("threads", "FILE:1: this is no TOML"),
    ] {
        let line = wrong(text, &[], "");
        assert!(line.contains(told), "{text}: {line}");
    }
    for (name, value, told) in [
        ("LATCHWORK_THREADS", "9", "LATCHWORK_THREADS: 9: use a whole number from 1 to 8"),
        (
            "LATCHWORK_THREDS",
            "2",
            "LATCHWORK_THREDS: no program has such a flag; did you mean LATCHWORK_THREADS?",
        ),
        ("LATCHWORK_COLOUR", "2", "LATCHWORK_COLOUR: no program has such a flag; ycsb --help"),
        ("LATCHWORK_threads", "2", "LATCHWORK_threads: write it in capitals, LATCHWORK_THREADS"),
        ("LATCHWORK_PROPERTY", "[1", "LATCHWORK_PROPERTY: use a value, or a list"),
        ("LATCHWORK_CONFIG", "", "unexpected argument"),
    ] {
        let arguments = if value.is_empty() { "--colour" } else { "" };
        let line = wrong("", &[(name, value)], arguments);
        assert!(line.contains(told), "{name}: {line}");
    }
}

#[test]
fn a_flag_of_other_programs_names_them() {
    let line = wrong("", &[], "--warehouses 3");
    assert_eq!(line, "--warehouses: ycsb has no such flag; leave it out, or use tpcc");
    let line = wrong("", &[], "run --sharing 1");
    assert_eq!(line, "--sharing: ycsb has no such flag; leave it out, or use microbench");
}

#[test]
fn variables_of_other_programs_and_of_tests_are_nobodys_business() {
    let variables = [
        ("LATCHWORK_WAREHOUSES", "3"),
        ("LATCHWORK_GCL_SIZE", "2048"),
        ("LATCHWORK_WORLDS", "100"),
        ("LATCHWORK_TEST_ANYTHING", "1"),
        ("OTHER_THREADS", "7"),
    ];
    assert_eq!(good("", &variables, "").threads, 1);
}

#[test]
fn what_kubernetes_says_of_a_service_of_our_name_is_no_flag() {
    let service = [
        ("LATCHWORK_SERVICE_HOST", "10.96.0.12"),
        ("LATCHWORK_SERVICE_PORT", "7000"),
        ("LATCHWORK_SERVICE_PORT_STORE", "7000"),
        ("LATCHWORK_PORT", "tcp://10.96.0.12:7000"),
        ("LATCHWORK_PORT_7000_TCP", "tcp://10.96.0.12:7000"),
        ("LATCHWORK_PORT_7000_TCP_PROTO", "tcp"),
        ("LATCHWORK_PORT_7000_TCP_PORT", "7000"),
        ("LATCHWORK_PORT_7000_TCP_ADDR", "10.96.0.12"),
        ("LATCHWORK_MEMNODE_0_PORT_53_UDP_ADDR", "10.96.0.12"),
        ("LATCHWORK_THREADS_PORT", "udp://10.96.0.12:53"),
    ];
    assert_eq!(good("threads = 2", &service, "").threads, 2);
    let line = wrong("", &[("LATCHWORK_PORT", "7000")], "");
    assert!(line.contains("LATCHWORK_PORT"), "{line}");
}

#[test]
fn the_environment_names_the_file_unless_the_command_line_does() {
    let (one, two) = (file("threads = 2"), file("threads = 3"));
    let one = one.path().to_str().expect("text");
    let of = |file: Option<&Path>| match read_all(file, &[("LATCHWORK_CONFIG", one)], "") {
        Ok(Read::Run(configured)) => configured.cli.threads,
        _ => panic!("it can be read"),
    };
    assert_eq!((of(None), of(Some(two.path()))), (2, 3));
    let lost = read_all(None, &[("LATCHWORK_CONFIG", "/nowhere/run.toml")], "");
    let Err(ReadError::Elsewhere(error)) = lost else { panic!("there is no such file") };
    assert!(error.to_string().starts_with("LATCHWORK_CONFIG /nowhere/run.toml: "), "{error}");
}

#[test]
fn what_is_printed_says_where_it_comes_from_and_is_read_again_as_the_same() {
    let text = "threads = 2\n[ycsb]\nproperty = [\"a=1\"]\nweight = \"50,50\"";
    let out = printed(text, "-p b=2 --only payment run");
    for line in [
        "command = \"run\" # command line",
        "threads = 2 # FILE:1",
        "property = [\"a=1\", \"b=2\"] # FILE:3, command line",
        "only = \"payment\" # command line",
        "prefault = false # default",
        "# weight: not set",
        "# cache-mb: not set",
        "log = \"warn\" # default",
    ] {
        assert!(out.lines().any(|printed| printed == line), "{line}: {out}");
    }
    let values = |out: &str| -> Vec<String> {
        let lines = out.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split(" # ").next().unwrap_or_default().to_owned()).collect()
    };
    let again = printed(&out, "");
    assert_eq!(values(&again), values(&out));
    let cli = good(&out, &[], "");
    assert_eq!((cli.threads, cli.only.as_deref()), (2, Some("payment")));
    assert_eq!((cli.command, cli.property), (Some(Do::Run), vec!["a=1".into(), "b=2".into()]));
    assert_eq!((cli.cache_mb.as_str(), cli.output), ("256", None));
}

#[test]
fn an_error_that_names_a_flag_says_where_it_was_set() {
    let file = file("threads = 2\n\nonly = \"x\"");
    let Ok(Read::Run(configured)) = read_all(Some(file.path()), &[], "--output json") else {
        panic!("it can be read");
    };
    let located = |text: &str| configured.places.locate(AppError::Usage(text.to_owned()));
    let place = file.path().display();
    let line = located("--threads 2: use 1").to_string();
    assert_eq!(line, format!("--threads 2: use 1 (--threads is from {place}:1)"));
    assert_eq!(
        located("--threads-max 2 and --output json").to_string(),
        "--threads-max 2 and --output json"
    );
    assert_eq!(located("--only").status(), 2);
}

#[test]
fn set_and_the_settings_own_name_mean_the_same_everywhere() {
    assert_eq!(good("", &[], "").evict_batch, 8);
    let (variable, own) =
        (&[("LATCHWORK_EVICT_BATCH", "3")], &[("LATCHWORK_SET", "evict-batch=4")]);
    let list = &[("LATCHWORK_SET", r#"["evict-batch=4", "device=a"]"#)];
    assert_eq!(good("evict-batch = 2", &[], "").evict_batch, 2);
    assert_eq!(good("set = [\"evict-batch=2\"]", &[], "").evict_batch, 2);
    assert_eq!(good("set = [\"evict-batch=2\"]", variable, "").evict_batch, 3);
    assert_eq!(good("evict-batch = 2", own, "").evict_batch, 4);
    assert_eq!(good("evict-batch = 2", list, "").device, ["a"]);
    assert_eq!(good("evict-batch = 2", variable, "--set evict-batch=5").evict_batch, 5);
    assert_eq!(good("", &[], "--set evict-batch=6 run --set evict-batch=7").evict_batch, 7);
    let text = "set = [\"evict-batch=2\"]\n[ycsb]\nevict-batch = 5";
    assert_eq!(good(text, &[], "").evict_batch, 5, "the program's own table wins");
    assert!(
        good("", &[], "--set huge=on").huge && !good("huge = true", &[], "--set huge=off").huge
    );
    assert_eq!(good("", &[], "--set device=a --set device=b").device, ["a", "b"]);
    assert!(good("device = \"a\"", &[], "--set huge=on").device.is_empty(), "it is hidden");
    // A file for several programs may set a setting of another program.
    assert_eq!(good("set = [\"early-release=on\"]", &[], "").evict_batch, 8);
}

#[test]
fn what_is_wrong_with_a_setting_names_the_place_and_what_would_do() {
    for (text, arguments, told) in [
        ("", "--set evict-batch=0", "--set evict-batch=0: use a whole number from 1 to 64"),
        (
            "",
            "--set evict-bach=1",
            "--set evict-bach: ycsb has no such setting; did you mean evict-batch?",
        ),
        ("", "--set colour=1", "--set colour: ycsb has no such setting; ycsb --help-settings"),
        (
            "",
            "--set roaming=on",
            "--set roaming: there is no roaming any more; use --set terminals=any",
        ),
        (
            "",
            "--set early-release=on",
            "--set early-release: ycsb has no such setting, but tpcc has",
        ),
        ("", "--set threads=1", "--set threads: threads is a flag, not a setting; write --threads"),
        ("", "--set evict-batch", "--set evict-batch: use NAME=VALUE, as member-lease=20s"),
        ("", "--set huge=maybe", "--set huge=maybe: use on or off"),
        ("", "--set huge=on --set device=a", "cannot be used with"),
        (
            "\nset = [\"evict-batch=0\"]",
            "",
            "FILE:2: evict-batch: 0: use a whole number from 1 to 64",
        ),
        (
            "set = [\"evict-bach=1\"]",
            "",
            "FILE:1: evict-bach: ycsb has no such setting; did you mean",
        ),
        (
            "[ycsb]\nset = [\"early-release=on\"]",
            "",
            "FILE:2: early-release: ycsb has no such setting",
        ),
        (
            "evict-batch = 1\nset = \"evict-batch=2\"",
            "",
            "FILE:2: evict-batch: it is given twice, also by FILE:1",
        ),
        (
            "help-settings = true",
            "",
            "FILE:1: help-settings: --help-settings belongs on the command line",
        ),
    ] {
        let line = wrong(text, &[], arguments);
        assert!(line.contains(told), "{text} {arguments}: {line}");
    }
    for (name, value, told) in [
        (
            "LATCHWORK_SET",
            "evict-batch=99",
            "LATCHWORK_SET: evict-batch: 99: use a whole number from 1 to 64",
        ),
        (
            "LATCHWORK_SET",
            "evict-bach=1",
            "LATCHWORK_SET: evict-bach: ycsb has no such setting; did you mean",
        ),
    ] {
        let line = wrong("", &[(name, value)], "");
        assert!(line.contains(told), "{value}: {line}");
    }
}

#[test]
fn a_setting_on_the_command_line_needs_set() {
    for (arguments, told) in [
        (
            "--evict-batch 4",
            "--evict-batch: evict-batch is a setting, not a flag; write --set evict-batch=4",
        ),
        ("run --huge", "--huge: huge is a setting, not a flag; write --set huge=true"),
        ("--device=a", "--device: device is a setting, not a flag; write --set device=a"),
    ] {
        assert_eq!(wrong("", &[], arguments), told);
    }
}

#[test]
fn help_tells_each_setting_with_its_default_and_range() {
    let Ok(Read::Print(text)) = read_all(None, &[], "--help-settings") else {
        panic!("it is printed");
    };
    for line in [
        "Protocol:",
        "  evict-batch=8",
        "          Lines that one sweep evicts.",
        "          Takes a whole number from 1 to 64.",
        "Memory:",
        "  huge=off",
        "          Takes on or off.",
        "  device",
        "          Default: all there are.",
        "          Takes NAME; may be repeated.",
    ] {
        assert!(text.lines().any(|told| told == line), "{line}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100) && !text.contains("threads"));
    let help = flags::complete(Cli::command()).render_long_help().to_string();
    assert!(!help.contains("--evict-batch") && help.contains("--set <NAME=VALUE>"), "{help}");
}

#[test]
fn the_page_of_settings_has_those_of_all_programs_as_the_code_has_them() {
    let page = include_str!("../../../../../docs/reference/settings.md");
    let table = settings::page(&settings::of_all());
    assert!(page.contains(&table), "docs/reference/settings.md should have this table:\n\n{table}");
}
