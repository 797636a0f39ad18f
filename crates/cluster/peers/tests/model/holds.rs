//! The settings in which all properties hold, because all rules are on.

use crate::setting::{Setting, holds};

/// A memory node and two compute nodes.
const MIXED: &[u8] = &[0, 1, 2];
/// Three compute nodes.
const COMPUTE: &[u8] = &[1, 2, 3];

#[test]
fn any_two_of_three_nodes_die() {
    holds("two of a memory node and two compute nodes die", Setting::of(MIXED, 2));
    holds("two of three compute nodes die", Setting::of(COMPUTE, 2));
}

#[test]
fn a_node_dies_while_three_meet() {
    let setting = Setting { met: false, ..Setting::of(MIXED, 1) };
    holds("a node dies while three meet", setting);
}

#[test]
fn a_node_dies_and_an_effect_fails() {
    let setting = Setting { failures: 1, ..Setting::of(MIXED, 1) };
    holds("one dies, one effect fails", setting);
    let setting = Setting { failures: 1, ..Setting::of(COMPUTE, 1) };
    holds("one of three compute nodes dies, one effect fails", setting);
}

#[test]
fn a_node_joins_while_another_one_dies() {
    let joining = Setting { joins: 1, joining: vec![3], ..Setting::of(&[1, 2], 1) };
    holds("one of two compute nodes dies, one joins", joining);
    let joining = Setting { joins: 1, joining: vec![2], ..Setting::of(&[0, 1], 1) };
    holds("one of a memory node and a compute node dies, one joins", joining);
}

#[test]
#[ignore = "millions of states: minutes"]
fn a_fourth_node_joins_while_one_of_three_dies() {
    let setting = Setting { joins: 1, joining: vec![3], mortal: vec![2], ..Setting::of(MIXED, 1) };
    holds("one of three dies, a fourth joins", setting);
}

/// Without a recovery an id becomes free again only after a graceful leave.
#[test]
fn a_node_joins_under_the_id_of_one_that_left_and_dies() {
    let setting =
        Setting { leaves: 1, joins: 1, joining: vec![2], mortal: vec![2], ..Setting::of(MIXED, 1) };
    holds("one leaves, the next holder of its id dies", setting);
}

/// The id of a dead node would become free again with its slot.
#[test]
fn a_node_joins_under_the_id_of_a_dead_one_and_dies() {
    let setting = Setting {
        reuse: true,
        joins: 1,
        joining: vec![2],
        mortal: vec![2],
        ..Setting::of(MIXED, 2)
    };
    holds("two holders of one id die, one after the other", setting);
}
