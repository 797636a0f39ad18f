//! Where the program takes its flags from, and its logs.

use std::path::{Path, PathBuf};

use latchwork_processes::Ended;
use tempfile::TempDir;

use crate::YCSB;

/// Settings for a run that ends within moments.
const SMALL: &str = "cache-mb = 8\noperations = 1000\nthreads = 1\n";

fn directory() -> TempDir {
    TempDir::new().expect("a directory")
}

fn file(directory: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, text).expect("room");
    path
}

fn ycsb(config: &Path, variables: &[(&str, &str)], arguments: &str) -> Ended {
    let mut command = YCSB.command(&format!("--config {} {arguments}", config.display()));
    Ended::of(command.envs(variables.iter().copied()))
}

#[test]
fn a_run_takes_its_flags_from_a_file_the_environment_and_the_command_line() {
    let directory = directory();
    let text = format!(
        "{SMALL}evict-batch = 3\nseed = 5\n[ycsb]\njson = \"-\"\nproperty = [\"recordcount=2000\", \"fieldcount=5\"]\n[tpcc]\nwarehouses = 4\n"
    );
    let config = file(&directory, "run.toml", &text);
    let variables = [("LATCHWORK_SEED", "6"), ("LATCHWORK_INFLIGHT", "4")];
    let document = ycsb(&config, &variables, "run -p fieldcount=4 --inflight 2").json();
    let config = &document["config"];
    assert_eq!((&config["threads"], &config["inflight"]), (&1.into(), &2.into()));
    assert_eq!((&config["seed"], &config["settings"]["evict-batch"]), (&6.into(), &"3".into()));
    assert_eq!(config["recordcount"], 2000);
    assert_eq!(config["fieldcount"], 4, "the command line's properties come last");
    assert_eq!(document["ops"], 1000);
}

#[test]
fn what_is_printed_runs_as_what_it_was_printed_for() {
    let directory = directory();
    let config = file(&directory, "run.toml", &format!("{SMALL}property = \"recordcount=2000\"\n"));
    let flags = "--fabric sim --json - load";
    let printed = ycsb(&config, &[], &format!("{flags} --print-config"));
    assert!(printed.status == Some(0), "{}", printed.err);
    assert!(printed.err.is_empty(), "{}", printed.err);
    let out = printed.out;
    for line in [
        format!("threads = 1 # {}:3", config.display()),
        "fabric = \"sim\" # command line".to_owned(),
        "command = \"load\" # command line".to_owned(),
        "compute-nodes = 2 # default".to_owned(),
        "# deadline: not set, default: 10s".to_owned(),
    ] {
        assert!(out.lines().any(|printed| printed == line), "{line}: {out}");
    }
    let again = file(&directory, "printed.toml", &out);
    // In virtual time the same flags give the same figures.
    let first = ycsb(&config, &[], flags).json();
    assert_eq!(ycsb(&again, &[], "").json(), first);
    assert_eq!(first["event_hash"].as_str().map(str::len), Some(18));
}

#[test]
fn what_is_wrong_is_one_line_that_says_where_it_stands() {
    let directory = directory();
    let config = file(&directory, "good.toml", SMALL);
    let at =
        |name: &str, line: u32| format!("ycsb: {}:{line}: ", directory.path().join(name).display());
    for (name, text_of_file, told) in [
        (
            "key.toml",
            "seed = 1\nthraeds = 1",
            "thraeds: no program has such a flag; did you mean threads?",
        ),
        (
            "own.toml",
            "[ycsb]\ncompute-node = 1",
            "compute-node: ycsb has no such flag; did you mean compute-nodes?",
        ),
        (
            "value.toml",
            "\ngcl-size = 3000",
            "gcl-size: 3000: use a power of two from 512 to 65536, as 2048 or 2K",
        ),
        ("choice.toml", "\nload-by = \"hand\"", "load-by: hand: use one of inserts, bulk"),
    ] {
        let output = ycsb(&file(&directory, name, text_of_file), &[], "");
        assert_eq!(output.status, Some(2));
        assert_eq!(output.err.trim_end(), at(name, 2) + told);
    }
    for (variable, value, told) in [
        ("LATCHWORK_CACHE_MB", "none", "LATCHWORK_CACHE_MB: none: use a number of MiB above 0"),
        ("LATCHWORK_CACHEMB", "8", "did you mean LATCHWORK_CACHE_MB?"),
    ] {
        let output = ycsb(&config, &[(variable, value)], "");
        let err = output.err;
        assert_eq!((output.status, err.lines().count()), (Some(2), 1), "{err}");
        assert!(err.contains(told), "{err}");
    }
    // An error that only the program can find names the flag, and then where the flag came from.
    let output = ycsb(&config, &[("LATCHWORK_GCL_SIZE", "1024")], "");
    let err = output.err;
    assert!(
        err.contains("--gcl-size 4096") && err.contains("--gcl-size is from LATCHWORK_GCL_SIZE"),
        "{err}"
    );
}
