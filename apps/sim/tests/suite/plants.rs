//! The hunt finds a seeded bug, shrinks and reports it, and the report replays it.

use std::process::Command;

use crate::common::{directory, sim, text};

fn field<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().rfind(|line| line.starts_with(key));
    line.unwrap_or_else(|| panic!("no {key} in {text}"))[key.len()..].trim()
}

/// Hunts with a seeded bug. Returns the output of the hunt, and the directories of its evidence.
fn found(plant: &str, name: &str) -> (String, std::path::PathBuf, std::path::PathBuf) {
    let out = directory(name);
    let hunt = format!(
        "hunt --plant {plant} --protocol selcc --workload lines --faults none --time 60 \
         --default-settings --from-seed 1 --shrink-seconds 10 --out {}",
        out.display()
    );
    let output = sim(&hunt);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", text(&output.stderr));
    let seed: Vec<_> = std::fs::read_dir(&out).expect("a directory").collect();
    let evidence = seed.first().expect("a failed seed").as_ref().expect("readable").path();
    (said, out, evidence)
}

#[test]
fn a_seeded_bug_is_found_shrunk_and_written_down() {
    let (said, out, evidence) = found("no-settling", "plant");
    let read = |name: &str| std::fs::read_to_string(evidence.join(name)).expect(name);
    let (report, scenario) = (read("report.txt"), read("scenario.toml"));
    assert!(said.contains(&report), "{said}\n{report}");
    assert!(!report.contains("WARNING"), "{report}");
    assert!(scenario.contains("plant = \"no_settling\""), "{scenario}");
    let seed = evidence.file_name().and_then(|name| name.to_str()).expect("a seed");
    assert!(read("found.toml").contains(&format!("seed = {seed}\n")));
    let log = read("events.log");
    assert!(log.contains("HandOver(C"), "a hand-over is what goes wrong:\n{log}");
    let (ladder, mermaid) = (read("diagram.txt"), read("diagram.mmd"));
    assert!(ladder.lines().count() > 10 && ladder.contains("►"), "{ladder}");
    assert!(mermaid.starts_with("sequenceDiagram\n"), "{mermaid}");
    // The shrunk world is smaller than the world that the hunt found.
    let sizes = |text: &str| -> u64 {
        let number = |key: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.expect("a key").trim_start_matches(" = ").parse().expect("a number")
        };
        number("compute_nodes") * number("workers") * number("tasks") * number("operations")
    };
    assert!(sizes(&scenario) < sizes(&read("found.toml")) / 2, "{scenario}");

    // The command in the report reproduces the failure.
    let replay = field(&report, "replay");
    let output = Command::new("sh").args(["-c", replay]).output().expect("a shell");
    let again = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{replay}: {again}");
    for key in ["world", "event hash", "operations", "checks"] {
        assert_eq!(field(&again, key), field(&report, key));
    }
    assert!(field(&again, "checks").starts_with("FAILED: "), "{again}");
    std::fs::remove_dir_all(out).expect("removed");
}

#[test]
fn a_world_that_was_found_can_be_shrunk_later() {
    let (_, out, evidence) = found("remembers", "later");
    let file = evidence.join("found.toml");
    let arguments = format!("shrink {} --shrink-seconds 5 --out {}", file.display(), out.display());
    let output = sim(&arguments);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", text(&output.stderr));
    assert!(field(&said, "shrunk").contains("times smaller"), "{said}");
    assert!(field(&said, "checks").starts_with("FAILED: "), "{said}");
    std::fs::remove_dir_all(out).expect("removed");
}
