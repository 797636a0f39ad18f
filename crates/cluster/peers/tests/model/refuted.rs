//! Properties that fail without one of the rules: seeded bugs that the model finds.

use latchwork_peers::PeerRules;

use crate::setting::{Setting, is_refuted};

const MIXED: &[u8] = &[0, 1, 2];

fn without(change: impl FnOnce(&mut PeerRules), setting: Setting) -> Setting {
    let mut rules = PeerRules::default();
    change(&mut rules);
    Setting { rules, ..setting }
}

/// Compute node 2 dies, and another node takes the id. The new node may die too.
fn reused(deaths: u8) -> Setting {
    Setting {
        reuse: true,
        joins: 1,
        joining: vec![2],
        mortal: vec![2],
        ..Setting::of(MIXED, deaths)
    }
}

#[test]
fn a_reclaim_after_the_own_fence_only_is_found() {
    let setting = without(|rules| rules.all_report = false, Setting::of(MIXED, 1));
    is_refuted("not all report", setting, "S1");
}

#[test]
fn a_report_of_a_fence_that_is_not_certain_is_found() {
    let setting = Setting { failures: 1, ..Setting::of(MIXED, 1) };
    let setting = without(|rules| rules.certain_fence = false, setting);
    is_refuted("an uncertain fence is reported", setting, "S1");
}

#[test]
fn a_report_that_counts_for_the_next_holder_of_the_id_is_found() {
    let setting = without(|rules| rules.epoch_counts = false, reused(2));
    is_refuted("a report counts for all holders", setting, "S1");
}

#[test]
fn a_late_view_that_brings_a_dead_node_back_is_found() {
    let setting = without(|rules| rules.latest_counts = false, Setting::of(MIXED, 1));
    is_refuted("the last view that arrives counts", setting, "S3");
}

#[test]
fn a_dead_node_that_is_forgotten_before_it_is_fenced_is_found() {
    let setting = without(|rules| rules.fence_before_forget = false, Setting::of(MIXED, 1));
    is_refuted("forgotten first", setting, "a dead node is forgotten after");
}

#[test]
fn a_node_that_is_admitted_beside_the_earlier_holder_of_its_id_is_found() {
    let setting =
        Setting { leaves: 1, joins: 1, joining: vec![2], mortal: vec![2], ..Setting::of(MIXED, 0) };
    let setting = without(|rules| rules.forget_before_admit = false, setting);
    is_refuted("two holders of one id", setting, "S4");
}

#[test]
fn a_node_that_acts_before_the_others_know_it_is_found() {
    let setting = Setting { met: false, ..Setting::of(&[1, 2], 0) };
    let setting = without(|rules| rules.mutual_introduction = false, setting);
    is_refuted("one-sided introduction", setting, "S5");
}

/// A slow reclaim of the earlier holder empties the slot of the next holder. Today's clusters do
/// not name the epoch in a reclaim, and never give the id of a dead node to another node.
#[test]
fn a_reclaim_that_names_no_epoch_is_found_where_ids_are_given_again() {
    let setting = Setting { reclaim_names_epoch: false, failures: 1, ..reused(1) };
    is_refuted("a reclaim of any holder", setting, "S2");
}
