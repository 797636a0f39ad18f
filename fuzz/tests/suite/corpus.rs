//! Runs the corpus of each target, and a short and repeatable number of mutations.

use latchwork_fuzz::{Corpus, FuzzTarget, TARGETS, rounds};

fn run(name: &str) -> Vec<String> {
    let target = FuzzTarget::find(name).expect("a target");
    let corpus = Corpus::load(&Corpus::home().join(name)).expect("readable");
    assert!(corpus.inputs.len() > 1, "{name} has no corpus");
    for (input, bytes) in &corpus.inputs {
        assert!(bytes.len() <= latchwork_fuzz::INPUT_MAX, "{name}/{input} is too long");
    }
    rounds(target, &corpus, 1, target.tried).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Checks that each of `classes` is the prefix of a reached class. So the parser accepts a part of
/// the corpus, and of its mutations.
fn reaches(name: &str, classes: &[&str]) {
    let reached = run(name);
    for class in classes {
        assert!(reached.iter().any(|name| name.starts_with(class)), "{class}: {reached:#?}");
    }
}

#[test]
fn no_log_or_checkpoint_breaks_what_opens_it() {
    reaches(
        "log",
        &[
            "whole: 1 files",
            "whole: 4 files",
            "log damaged: ",
            "CHECKPOINT damaged: ",
            "part damaged: ",
        ],
    );
}

#[test]
fn no_frame_breaks_either_end_of_a_connection() {
    reaches(
        "frames",
        &["client:  lease batchr", "agent:  pong reply true: more", "agent: : a frame"],
    );
}

#[test]
fn no_greeting_breaks_what_reads_it() {
    reaches("greetings", &["hello", "answer", "introduction", "welcome", "welcome: a field"]);
}

#[test]
fn no_letter_breaks_what_reads_it() {
    reaches("letters", &["request Write", "grant Exclusive 2", "gave up", "none"]);
}

#[test]
fn no_message_of_a_home_breaks_what_reads_it() {
    reaches("homes", &["Request", "Reply", "Directive", "Settle", "Lost", "none"]);
}

#[test]
fn no_property_file_breaks_what_reads_it() {
    reaches("properties", &["whole: ", "fuzzed.properties:0: unknown workload key"]);
}

#[test]
fn no_profile_breaks_what_reads_it() {
    reaches("profile", &["whole: ", "must be a whole number of nanoseconds"]);
}

#[test]
fn no_scenario_breaks_what_reads_it() {
    reaches("scenario", &["whole: ", "line 0: "]);
}

#[test]
fn no_history_breaks_what_reads_and_checks_it() {
    reaches("history", &["whole: []", "whole: [", "fuzzed.jsonl: this is no history"]);
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let folders = std::fs::read_dir(Corpus::home()).expect("readable");
    let mut folders: Vec<_> = folders
        .map(|entry| entry.expect("readable").file_name().into_string().expect("text"))
        .collect();
    folders.sort();
    let mut names = TARGETS.map(|target| target.name.to_owned()).to_vec();
    // This target is in the program that has the parser.
    names.push("matrix".to_owned());
    names.sort();
    assert_eq!(folders, names);
}
