//! The settings in which the compute nodes recover the lines of dead ones.

use latchwork_peers::PeerRules;

use crate::setting::{Reuse, Setting, holds, is_refuted};

const MIXED: &[u8] = &[0, 1, 2];
const COMPUTE: &[u8] = &[1, 2, 3];

fn recovering(setting: Setting) -> Setting {
    Setting { rules: PeerRules { recovers: true, ..PeerRules::default() }, ..setting }
}

/// The reports of a recovery make many views. The larger settings leave out late ones.
fn in_order(setting: Setting) -> Setting {
    Setting { has_late_views: false, ..recovering(setting) }
}

fn without(change: impl FnOnce(&mut PeerRules), mut setting: Setting) -> Setting {
    change(&mut setting.rules);
    setting
}

/// One node joins, and it or another one dies.
fn joined(mortal: &[u8], deaths: u8) -> Setting {
    let joining = Setting { joins: 1, joining: vec![3], ..Setting::of(&[1, 2], deaths) };
    in_order(Setting { mortal: mortal.to_vec(), ..joining })
}

/// Node 3 joins, may die before it acts, and another node takes its id.
fn reused_before_it_acts() -> Setting {
    let joining = Setting { joins: 2, joining: vec![3], reuse: true, ..Setting::of(&[1, 2], 1) };
    named_by_id(in_order(Setting { mortal: vec![3], ..joining }))
}

/// A reclaim empties the slot of an id, whichever member epoch it belongs to.
fn named_by_id(setting: Setting) -> Setting {
    Setting { reclaim_names_epoch: false, ..setting }
}

#[test]
fn one_node_dies() {
    let mixed = recovering(Setting::of(MIXED, 1));
    holds("recovery: one of a memory node and two compute nodes dies", mixed);
    let compute = recovering(Setting::of(COMPUTE, 1));
    holds("recovery: one of three compute nodes dies", compute);
    let meeting = in_order(Setting { met: false, ..Setting::of(&[1, 2], 1) });
    holds("recovery: a node dies while two meet", meeting);
}

#[test]
fn a_second_node_dies_during_the_recovery() {
    holds("recovery: two of three compute nodes die", in_order(Setting::of(COMPUTE, 2)));
}

#[test]
fn a_step_fails_and_is_taken_again() {
    let setting = in_order(Setting { failures: 1, ..Setting::of(COMPUTE, 1) });
    holds("recovery: one of three compute nodes dies, one effect fails", setting);
}

#[test]
fn a_node_leaves_during_the_recovery() {
    let setting = in_order(Setting { leaves: 1, ..Setting::of(COMPUTE, 1) });
    holds("recovery: one of three compute nodes dies, one leaves", setting);
}

#[test]
fn a_node_joins_during_the_recovery() {
    holds("recovery: one of two compute nodes dies, one joins", joined(&[2], 1));
    holds("recovery: a node that joins dies", joined(&[3], 1));
}

#[test]
#[ignore = "millions of states: minutes"]
fn a_node_joins_during_the_recovery_and_two_die() {
    holds("recovery: two of three die, one of them joins late", joined(COMPUTE, 2));
}

#[test]
#[ignore = "millions of states: minutes"]
fn a_step_fails_while_two_die() {
    let setting = in_order(Setting { failures: 1, ..Setting::of(COMPUTE, 2) });
    holds("recovery: two of three compute nodes die, one effect fails", setting);
}

/// Two nodes are left, so their views of the second death differ.
#[test]
#[ignore = "millions of states: minutes"]
fn two_of_four_die() {
    let setting = Setting { mortal: vec![1, 2], ..Setting::of(&[1, 2, 3, 4], 2) };
    holds("recovery: two of four compute nodes die", in_order(setting));
}

#[test]
fn the_next_holder_of_the_id_dies() {
    let one = Setting { joins: 1, joining: vec![2], ..Setting::of(&[1, 2], 2) };
    let setting = named_by_id(in_order(Setting { reuse: true, mortal: vec![2], ..one }));
    holds("recovery: two holders of one id die", setting);
    holds("recovery: an id is used again before its holder acts", reused_before_it_acts());
}

#[test]
#[ignore = "millions of states: minutes"]
fn a_sweeper_dies_while_the_id_is_used_again() {
    let one = Setting { joins: 1, joining: vec![3], ..Setting::of(COMPUTE, 2) };
    let setting = named_by_id(in_order(Setting { reuse: true, ..one }));
    holds("recovery: two of three die, the id of one is used again", setting);
}

#[test]
fn a_node_that_drains_before_all_have_let_go_is_found() {
    let setting = in_order(Setting::of(COMPUTE, 1));
    let setting = without(|rules| rules.let_go_first = false, setting);
    is_refuted("drain at once", setting, "S6: all that act let go");
}

#[test]
fn a_node_that_closes_each_dead_node_alone_is_found() {
    let setting = in_order(Setting::of(COMPUTE, 2));
    let setting = without(|rules| rules.close_together = false, setting);
    is_refuted("close alone", setting, "S9");
}

#[test]
fn a_node_that_joins_and_acts_before_all_have_closed_is_found() {
    let setting = without(|rules| rules.act_after_close = false, joined(&[2], 1));
    is_refuted("act at once", setting, "S6: all that act");
}

/// A node that acts may see another node for the first time when that one is dead. A third node may
/// have met it, and closes what it has asked of the first.
#[test]
fn a_node_that_acts_and_lets_go_of_no_stranger_is_found() {
    let setting = without(|rules| rules.actors_let_go = false, joined(&[3], 1));
    is_refuted("a stranger", setting, "S7");
}

#[test]
fn a_reclaim_before_all_dead_nodes_are_fenced_is_found() {
    let setting = in_order(Setting::of(COMPUTE, 2));
    let setting = without(|rules| rules.fence_all_first = false, setting);
    is_refuted("reclaim beside a dead node", setting, "S8");
}

/// The slot of a node that never acted is empty at its death.
#[test]
fn an_id_that_is_used_again_before_all_have_cleared_is_found() {
    let setting = Setting { reuse_when: Reuse::Empty, ..reused_before_it_acts() };
    is_refuted("an id with an empty slot is used again", setting, "L");
}

/// Of two living nodes, one has emptied the slot, and the other one is about to.
#[test]
fn an_id_that_is_used_again_before_all_have_reclaimed_is_found() {
    let one = Setting { joins: 1, joining: vec![3], ..Setting::of(COMPUTE, 1) };
    let one = Setting { reuse: true, mortal: vec![3], reuse_when: Reuse::Cleared, ..one };
    is_refuted("an id is used again beside a reclaim", named_by_id(in_order(one)), "S2");
}
