//! Where the program takes its flags from, and its logs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Settings for a run that ends within moments.
const SMALL: &str = "cache-mb = 8\noperations = 1000\nthreads = 1\n";

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let name = format!("latchwork-ycsb-config-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("room");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ycsb(config: &Path, variables: &[(&str, &str)], arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ycsb"));
    command.arg("--config").arg(config).args(arguments.split_whitespace());
    command.envs(variables.iter().copied()).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn document(output: &Output) -> serde_json::Value {
    let out = text(&output.stdout);
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}\n{}", text(&output.stderr)))
}

#[test]
fn a_run_takes_its_flags_from_a_file_the_environment_and_the_command_line() {
    let directory = Directory::new("layers");
    let text = format!(
        "{SMALL}evict-batch = 3\nseed = 5\n[ycsb]\njson = \"-\"\nproperty = [\"recordcount=2000\", \"fieldcount=5\"]\n[tpcc]\nwarehouses = 4\n"
    );
    let file = directory.file("run.toml", &text);
    let variables = [("LATCHWORK_SEED", "6"), ("LATCHWORK_INFLIGHT", "4")];
    let document = document(&ycsb(&file, &variables, "run -p fieldcount=4 --inflight 2"));
    let config = &document["config"];
    assert_eq!((&config["threads"], &config["inflight"]), (&1.into(), &2.into()));
    assert_eq!((&config["seed"], &config["settings"]["evict-batch"]), (&6.into(), &"3".into()));
    assert_eq!(config["recordcount"], 2000);
    assert_eq!(config["fieldcount"], 4, "the command line's properties come last");
    assert_eq!(document["ops"], 1000);
}

#[test]
fn what_is_printed_runs_as_what_it_was_printed_for() {
    let directory = Directory::new("print");
    let file = directory.file("run.toml", &format!("{SMALL}property = \"recordcount=2000\"\n"));
    let flags = "--fabric sim --json - load";
    let printed = ycsb(&file, &[], &format!("{flags} --print-config"));
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    assert!(printed.stderr.is_empty(), "{}", text(&printed.stderr));
    let out = text(&printed.stdout);
    for line in [
        format!("threads = 1 # {}:3", file.display()),
        "fabric = \"sim\" # command line".to_owned(),
        "command = \"load\" # command line".to_owned(),
        "compute-nodes = 2 # default".to_owned(),
        "# deadline: not set, default: 10s".to_owned(),
    ] {
        assert!(out.lines().any(|printed| printed == line), "{line}: {out}");
    }
    let again = directory.file("printed.toml", &out);
    // In virtual time the same flags give the same figures.
    let first = document(&ycsb(&file, &[], flags));
    assert_eq!(document(&ycsb(&again, &[], "")), first);
    assert_eq!(first["event_hash"].as_str().map(str::len), Some(18));
}

#[test]
fn what_is_wrong_is_one_line_that_says_where_it_stands() {
    let directory = Directory::new("wrong");
    let file = directory.file("good.toml", SMALL);
    let at = |name: &str, line: u32| format!("ycsb: {}:{line}: ", directory.0.join(name).display());
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
        let output = ycsb(&directory.file(name, text_of_file), &[], "");
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stderr).trim_end(), at(name, 2) + told);
    }
    for (variable, value, told) in [
        ("LATCHWORK_CACHE_MB", "none", "LATCHWORK_CACHE_MB: none: use a number of MiB above 0"),
        ("LATCHWORK_CACHEMB", "8", "did you mean LATCHWORK_CACHE_MB?"),
    ] {
        let output = ycsb(&file, &[(variable, value)], "");
        let err = text(&output.stderr);
        assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{err}");
        assert!(err.contains(told), "{err}");
    }
    // An error that only the program can find names the flag, and then where the flag came from.
    let output = ycsb(&file, &[("LATCHWORK_GCL_SIZE", "1024")], "");
    let err = text(&output.stderr);
    assert!(
        err.contains("--gcl-size 4096") && err.contains("--gcl-size is from LATCHWORK_GCL_SIZE"),
        "{err}"
    );
}
