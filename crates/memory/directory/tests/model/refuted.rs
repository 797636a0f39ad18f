//! Without one rule the protocols do not hold: the search finds what the rule guards.

use latchwork_directory::{Conflicts, Rules};

use crate::search::assert_refuted;
use crate::setting::{Client, Setting};

const READER: Client = Client::reader();
const WRITER: Client = Client::writer();

fn refuted(name: &str, rules: Rules, clients: &[Client], expected: &[&str]) {
    assert_refuted(name, &Setting::new(rules, clients), expected);
}

#[test]
fn an_end_that_is_served_before_the_copies_of_its_tenure() {
    let rules = Rules { ordered: false, ..Rules::SCALESTORE };
    let clients = [WRITER.keeping(), READER.keeping(), WRITER.keeping()];
    refuted("no order", rules, &clients, &["every node gets the line"]);
}

#[test]
fn an_eviction_that_is_accepted_while_directives_are_open() {
    let rules = Rules { stable_owner: false, ..Rules::SCALESTORE };
    refuted("no stable owner", rules, &[WRITER, READER], &["every node gets the line"]);
}

#[test]
fn an_early_invalidation_that_is_forgotten() {
    for rules in [Rules::SCALESTORE, Rules::GAM] {
        let rules = Rules { remembers_early: false, ..rules };
        let clients = [READER.keeping(), WRITER.keeping()];
        let expected = &["one writer or many readers", "no stale copy"];
        refuted("no memory", rules, &clients, expected);
    }
}

#[test]
fn an_eviction_without_an_answer() {
    for rules in [Rules::SCALESTORE, Rules::GAM] {
        let rules = Rules { acknowledged_eviction: false, ..rules };
        // A node that forgets its eviction is named twice, so the machine's own assertion fails.
        let expected = &["an assertion"];
        refuted("no answer", rules, &[Client::both(); 2], expected);
    }
}

#[test]
fn a_home_that_evicts_in_a_transition() {
    let rules = Rules { conflicts: Conflicts::AtHome, stable_owner: false, ..Rules::SCALESTORE };
    refuted("no stable owner", rules, &[WRITER, READER], &["the memory has what no node has"]);
}

#[test]
fn a_recovery_that_ends_with_the_first_answer() {
    for rules in [Rules::SCALESTORE, Rules::GAM] {
        let rules = Rules { hears_all: false, ..rules };
        let clients = [WRITER.keeping().mortal(), READER.keeping(), READER.keeping()];
        refuted("one answer", rules, &clients, &["the home knows the holders"]);
    }
}

#[test]
fn a_recovery_after_which_changes_are_at_no_node_with_the_duty() {
    let rules = Rules { adopts: false, ..Rules::SCALESTORE };
    let clients = [WRITER.keeping().mortal(), READER];
    refuted("no duty", rules, &clients, &["the memory has what no node has"]);
}
