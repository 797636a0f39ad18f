//! Weaker disciplines do not hold: without one of the rules, the model finds a counterexample. So
//! the model detects a missing rule, and each rule is needed.

use latchwork_latch::Rules;
use stateright::{Checker, HasDiscoveries, Model};

use crate::client::Client;
use crate::setting::{Demand, Setting, Step};
use crate::story::tell;
use crate::world::Breach;

const NO_SETTLING: Rules = Rules { settle: false, ..Rules::DISCIPLINE };
const UNDO: Rules = Rules { registered_wait: false, ..Rules::DISCIPLINE };
/// SELCC 4.3.2 and 4.4.
const PUBLISHED: Rules = Rules { settle: false, ..UNDO };

fn setting(rules: Rules, clients: &[Client]) -> Setting {
    Setting {
        rules: Rules { seq_modulus: 4, priority_max: 0, ..rules },
        demand: Demand::Data,
        ..Setting::discipline(clients, 0)
    }
}

/// The shortest path to a state without some property, with the property's name.
pub(crate) fn refute(setting: &Setting) -> Option<(&'static str, Vec<Step>)> {
    let mut found = None;
    let mut depth_max = usize::MAX;
    loop {
        // One thread searches by distance, and finds the same path each time.
        let checker = setting.clone().checker().threads(1).target_max_depth(depth_max);
        let checker = checker.finish_when(HasDiscoveries::Any).spawn_bfs().join();
        let paths = checker.discoveries().into_iter();
        let paths = paths.map(|(property, path)| (property, path.into_actions()));
        let Some(path) = paths.min_by_key(|(property, steps)| (steps.len(), *property)) else {
            println!("{} states", checker.unique_state_count());
            return found;
        };
        // The checker continues for a while and keeps the last path that it finds. The state before
        // the first step has depth 1, and the limit is exclusive.
        depth_max = path.1.len() + 1;
        found = Some(path);
    }
}

pub(crate) fn is_refuted(setting: &Setting, property: &str) -> String {
    let (found, steps) = refute(setting).expect("a counterexample");
    let story = tell(setting, &steps);
    println!("not \"{found}\" after {} steps:\n{story}", steps.len());
    assert_eq!(found, property);
    story
}

#[test]
fn a_receiver_that_does_not_wait_for_the_giver_leads_to_a_stale_read() {
    let clients = [Client::writer(1), Client::writer(2).keeping(), Client::both(3).keeping()];
    is_refuted(&setting(NO_SETTLING, &clients), "no stale copy");
}

#[test]
fn an_undo_while_the_request_is_open_lets_a_reader_in_beside_a_writer() {
    // The bits of the last node carry into the exclusive field.
    let clients = [Client::writer(57).keeping(), Client::reader(58).keeping()];
    is_refuted(&setting(UNDO, &clients), "one writer or many readers");
}

#[test]
fn an_undo_while_the_request_is_open_makes_the_word_untrue() {
    let clients = [Client::writer(1), Client::reader(2)];
    let mut setting = setting(UNDO, &clients);
    setting.demand = Demand::Everything;
    is_refuted(&setting, "no fault");
}

#[test]
fn an_undo_that_has_landed_before_the_request_is_harmless_if_receivers_wait() {
    let clients = [Client::writer(56), Client::writer(57), Client::reader(58)];
    let mut setting = setting(UNDO, &clients);
    setting.rules.seq_modulus = 1;
    setting.undo_before_question = true;
    assert_eq!(refute(&setting), None);
}

#[test]
fn the_published_scheme_leads_to_a_stale_read() {
    let clients = [Client::writer(1), Client::reader(2), Client::reader(3)];
    is_refuted(&setting(PUBLISHED, &clients), "no stale copy");
    let mut kind = setting(PUBLISHED, &clients);
    kind.undo_before_question = true;
    let story = is_refuted(&kind, "no stale copy");
    let page = include_str!("../../../../../docs/evidence/stale-read.md");
    assert!(page.contains(&story), "docs/evidence/stale-read.md tells another run");
}

/// An operation with a failed connection is repeated without a probe of the word.
#[test]
fn an_operation_that_is_repeated_blindly_makes_the_word_untrue() {
    let mut blind = Setting::discipline(&[Client::writer(1), Client::reader(2)], 0).failing(1);
    blind.blind = true;
    let story = is_refuted(&blind, "no fault");
    assert!(story.contains("the connection fails"), "{story}");
    blind.demand = Demand::Data;
    assert!(refute(&blind).is_some(), "a user would notice");
}

/// Requests are sent on after a hand-over. To keep each request one (R5), the node that sends a
/// request on drops its own copy.
#[test]
fn a_request_that_is_sent_on_and_not_forgotten_is_two() {
    for breach in [Breach::SendsOnTwice, Breach::RefusesWhatItSendsOn] {
        let writers = [1, 2, 3].map(|id| Client::writer(id).keeping());
        let mut setting = Setting::discipline(&writers, 0).passing_on();
        setting.breach = Some(breach);
        is_refuted(&setting, "each question is one");
    }
}
