//! `sim calibrate` from its users' view: its output, its refusals, and its exit status.

use std::path::PathBuf;
use std::process::{Command, Output};

const CONNECTX3: &str = include_str!("../../../../crates/fabric/verbs-sim/profiles/connectx3.toml");

fn calibrate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
    command.arg("calibrate").args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A profile file, which is removed with the value.
struct Profile(PathBuf);

impl Profile {
    fn new(name: &str, text: &str) -> Profile {
        let file = format!("latchwork-sim-{}-{name}.toml", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, text).expect("a temporary file");
        Profile(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn all_profiles_that_come_along_are_within_their_tolerances() {
    let output = calibrate(&["--json", "-"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains("figures are within their tolerances"), "{told}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let profiles = document["profiles"].as_array().unwrap();
    let names: Vec<_> = profiles.iter().map(|profile| profile["name"].as_str().unwrap()).collect();
    let with_changes = ["connectx5-chip", "connectx5-stalling"];
    assert_eq!(names, [&["connectx3", "connectx5", "ethernet10g"][..], &with_changes].concat());
    let figure = &profiles[0]["figures"][0];
    assert_eq!((&figure["measure"], &figure["unit"]), (&"read_latency".into(), &"us".into()));
    assert_eq!(figure["within"], true);
}

#[test]
fn a_figure_outside_is_a_failure() {
    let slow = Profile::new("slow", &CONNECTX3.replace("one_way_ns = 440", "one_way_ns = 800"));
    let output = calibrate(&["--nic", slow.path()]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let latency = told.lines().find(|line| line.starts_with("READ latency")).unwrap();
    assert!(latency.ends_with(" OUTSIDE"), "{latency}");
    let rate = told.lines().find(|line| line.starts_with("READs inbound")).unwrap();
    assert!(rate.ends_with(" ok"), "{rate}");
    assert!(told.ends_with(" of 20 figures are OUTSIDE their tolerances\n"), "{told}");
}

#[test]
fn a_bad_profile_is_one_line_that_says_where() {
    let bad = Profile::new("bad", &CONNECTX3.replace("queue_pairs = 1", "queue_pairs = 101"));
    let line = 1 + CONNECTX3[..CONNECTX3.find("queue_pairs = 1").unwrap()].matches('\n').count();
    let nothing = Profile::new("nothing", CONNECTX3.split("[[published]]").next().unwrap());
    let refused = [
        (
            bad.path(),
            format!(":{line}: queue_pairs = 101: must be a number of queue pairs, 1 to 100"),
        ),
        ("connectx9", "no NIC profile is called `connectx9`: give one of".to_owned()),
        (nothing.path(), "nothing to compare with".to_owned()),
    ];
    for (profile, expected) in refused {
        let output = calibrate(&["--nic", profile]);
        let told = text(&output.stderr);
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
        assert!(told.contains(&expected), "{told}");
    }
}
