//! Tests that each seeded bug is detected within a few seeds. If a test here fails, worlds that
//! pass prove little.

use latchwork_cluster::Protocol;
use latchwork_hunt::scenario::{
    BufferedLoad, LinesLoad, LocksLoad, MemoryLoad, Overrides, QueueLoad, RtreeLoad, TreeLoad,
    TxnLoad, WorkloadKind, YcsbLoad,
};
use latchwork_hunt::{
    FaultPlan, Network, Scenario, SeededBug, SwarmChoice, TreeIndex, Workload, WorldCheck, run,
};
use latchwork_txn::Scheme;

/// The scenario of a seed, with enough contention for bugs to show.
fn busy(seed: u64) -> Scenario {
    let load =
        LinesLoad { lines: 3, writes: 30, upgrades: 20, dropped: 0, atomics: 0, zipfian: false };
    Scenario {
        seed,
        compute_nodes: 6,
        tasks: 4,
        operations: 40,
        network: Network::Rough,
        workload: Workload::Lines(load),
        ..Scenario::default()
    }
}

/// Runs the worlds of `seeds` seeds with the seeded bug, up to the first failure. The failed check
/// must be one of `checks`. The same world without the bug must pass.
fn is_found(
    plant: SeededBug,
    seeds: u64,
    checks: &[WorldCheck],
    scenario: impl Fn(u64) -> Scenario,
) {
    let planted = |seed| Scenario { plant: Some(plant), ..scenario(seed) };
    let found = (0..seeds).find_map(|seed| Some((seed, run(&planted(seed)).failure?)));
    let Some((seed, failure)) = found else { panic!("{seeds} worlds with {plant:?} look fine") };
    println!("{plant:?}: seed {seed}: {}", failure.to_string().lines().next().unwrap_or_default());
    assert!(checks.contains(&failure.check), "{plant:?}: {failure}");
    assert!(!failure.text.is_empty());
    assert_eq!(run(&scenario(seed)).failure, None, "without {plant:?}");
}

/// A busy world in which two nodes die or lose their lease, with death notices. Each node has more
/// lines than frames.
fn mourning(seed: u64) -> Scenario {
    let faults =
        FaultPlan { deaths: 1, lapses: 1, told_us: 100, until_us: 300, ..FaultPlan::default() };
    let load = LinesLoad { lines: 24, writes: 50, ..LinesLoad::default() };
    let workload = Workload::Lines(load);
    Scenario { compute_nodes: 4, deadline_us: 10_000, faults, workload, ..busy(seed) }
}

/// A busy world in which two nodes die, and their lines are recovered.
fn recovering(seed: u64) -> Scenario {
    let faults = FaultPlan {
        deaths: 2,
        told_us: 100,
        until_us: 300,
        delay_one_in: 20,
        ..FaultPlan::default()
    };
    let settings = [("survive".to_owned(), "on".to_owned())].into();
    Scenario { deadline_us: 200_000, faults, settings, ..busy(seed) }
}

/// Lines return to a version that is older than what a living node has read or written, or a node
/// writes beside another one.
#[test]
fn a_recovery_without_one_of_its_rules_undoes_what_others_have_seen() {
    let checks = [WorldCheck::Linearizability, WorldCheck::Values, WorldCheck::Owners];
    is_found(SeededBug::KeepsChanges, 30, &checks, recovering);
    is_found(SeededBug::SweepsEarly, 60, &checks, recovering);
    is_found(SeededBug::TrustsTheDead, 60, &checks, recovering);
    is_found(SeededBug::MendsByAddition, 10, &checks, recovering);
}

/// A crowded world in which nodes die and their lines are recovered, as `sim hunt --recoveries`
/// draws it.
fn crowded(kind: WorkloadKind, seed: u64) -> Scenario {
    let workloads = vec![kind];
    let choice = SwarmChoice { workloads, recoveries: true, ..SwarmChoice::default() };
    Scenario::from_seed(seed, &choice)
}

/// A death comes between the grant of a hand-over or a downgrade and its operation on the word, or
/// between a pledge and its report. Rare: about one crowded world in a hundred.
#[test]
fn what_a_dead_node_has_left_open_is_resolved_by_the_word() {
    let checks = [WorldCheck::SequentialConsistency, WorldCheck::Values, WorldCheck::Owners];
    let lines = |seed| crowded(WorkloadKind::Lines, seed);
    is_found(SeededBug::DropsOrphans, 2, &checks, |seed| lines(seed + 78));
    is_found(SeededBug::InheritsClean, 2, &checks, |seed| lines(seed + 78));
    is_found(SeededBug::RestoresPledges, 2, &checks, |seed| lines(seed + 45));
}

/// The workloads besides `lines` that judge a recovery.
#[test]
fn a_recovery_that_undoes_what_others_have_seen_is_found_in_each_workload() {
    let workloads = [
        Workload::Memory(MemoryLoad::default()),
        Workload::Buffered(BufferedLoad::default()),
        Workload::Locks(LocksLoad::default()),
        Workload::Ycsb(YcsbLoad::default()),
        Workload::Tree(TreeLoad::default()),
        Workload::Queue(QueueLoad::default()),
        Workload::Rtree(RtreeLoad::default()),
    ];
    for workload in workloads {
        let in_it = |seed| Scenario { workload: workload.clone(), ..recovering(seed) };
        is_found(SeededBug::KeepsChanges, 30, &JUDGED, in_it);
    }
    let transactions = |seed| crowded(WorkloadKind::Txn, seed);
    is_found(SeededBug::KeepsChanges, 30, &JUDGED, transactions);
}

/// A transaction meets a row that a dead node has left pending, at each of its attempts.
#[test]
fn rows_of_dead_nodes_that_stay_pending_hold_transactions_up() {
    let transactions = |seed| crowded(WorkloadKind::Txn, seed + 134);
    is_found(SeededBug::KeepsAbandonedRows, 1, &[WorldCheck::Starvation], transactions);
}

/// The checks that an undone line fails.
const JUDGED: [WorldCheck; 6] = [
    WorldCheck::Linearizability,
    WorldCheck::Values,
    WorldCheck::Owners,
    WorldCheck::StoreOrder,
    WorldCheck::Tree,
    WorldCheck::Error,
];

/// The line has two owners. The check of values may detect the lost write of one owner before the
/// check of owners detects both.
#[test]
fn a_protocol_without_settling_has_two_owners() {
    is_found(SeededBug::NoSettling, 30, &[WorldCheck::Owners, WorldCheck::Values], busy);
}

#[test]
fn a_protocol_that_takes_refused_bits_back_has_words_that_name_no_owner() {
    is_found(SeededBug::NoRegisteredWait, 30, &[WorldCheck::Owners], busy);
}

/// Readers use their copies while a writer writes.
#[test]
fn pledges_that_do_not_bind_let_writers_in_beside_readers() {
    let takeover = |seed| Scenario {
        settings: [("takeover".to_owned(), "on".to_owned())].into(),
        ..busy(seed)
    };
    is_found(SeededBug::NoBinding, 30, &[WorldCheck::Owners, WorldCheck::Values], takeover);
}

#[test]
fn changes_that_were_not_reported_are_missing_in_memory() {
    is_found(SeededBug::ForgetsDirty, 5, &[WorldCheck::Values], busy);
}

#[test]
fn a_stale_answer_and_a_lost_write_fit_no_order() {
    is_found(SeededBug::Remembers, 5, &[WorldCheck::Linearizability], busy);
    is_found(SeededBug::Forgets, 5, &[WorldCheck::Linearizability], busy);
    for kind in [WorkloadKind::Tree, WorkloadKind::Ycsb] {
        let choice = SwarmChoice { workloads: vec![kind], faults: false, ..SwarmChoice::default() };
        let drawn = |seed| Scenario::from_seed(seed, &choice);
        is_found(SeededBug::Forgets, 20, &[WorldCheck::Linearizability], drawn);
    }
}

/// The wrong begin of the call hides the bug from checks that use time.
#[test]
fn a_client_that_goes_back_in_its_own_order_is_found_without_a_clock() {
    is_found(SeededBug::Backdates, 5, &[WorldCheck::SequentialConsistency], busy);
}

/// Two bugs: a buffer with partial store order instead of the promised total order, and writes that
/// the client does not issue.
#[test]
fn buffered_writes_that_overtake_others_or_get_lost_are_found() {
    let workload = Workload::Buffered(BufferedLoad::default());
    let buffered = |seed| Scenario { workload: workload.clone(), ..busy(seed) };
    is_found(SeededBug::Overtakes, 5, &[WorldCheck::StoreOrder], buffered);
    is_found(SeededBug::Forgets, 5, &[WorldCheck::StoreOrder], buffered);
}

#[test]
fn lines_that_are_never_freed_are_missed() {
    let workload = Workload::Memory(MemoryLoad::default());
    let forgets = |seed| Scenario { workload: workload.clone(), ..busy(seed) };
    is_found(SeededBug::ForgetsToFree, 5, &[WorldCheck::Leak], forgets);
}

#[test]
fn transactions_that_forget_a_lock_or_read_too_early_are_found() {
    let load = LocksLoad { flags: 40, looks: 0, ..LocksLoad::default() };
    let locks = |seed| Scenario { workload: Workload::Locks(load.clone()), ..busy(seed) };
    is_found(
        SeededBug::ForgetsToLock,
        5,
        &[WorldCheck::Owners, WorldCheck::Linearizability],
        locks,
    );
    is_found(SeededBug::LooksTooEarly, 10, &[WorldCheck::Linearizability], locks);
}

#[test]
fn nodes_that_never_give_up_starve_others() {
    is_found(SeededBug::NeverGivesUp, 5, &[WorldCheck::Starvation], busy);
}

#[test]
fn an_operation_that_never_ends_is_named() {
    is_found(SeededBug::WaitsForNothing, 5, &[WorldCheck::Starvation], busy);
    let scenario = Scenario { plant: Some(SeededBug::WaitsForNothing), ..busy(0) };
    let failure = run(&scenario).failure.expect("as before");
    assert!(failure.text.contains("node ") && failure.text.contains("worker "), "{failure}");
    assert!(failure.text.contains("read M0+0x"), "{failure}");
}

#[test]
fn a_page_that_is_damaged_fails_the_walk_over_the_tree() {
    let choice = SwarmChoice {
        workloads: vec![WorkloadKind::Tree],
        faults: false,
        ..SwarmChoice::default()
    };
    is_found(SeededBug::Scribbles, 1, &[WorldCheck::Tree], |seed| {
        Scenario::from_seed(seed, &choice)
    });
}

/// With this bug, each requested line of a lost node takes a frame of the requester, until no
/// frames are left.
#[test]
fn frames_that_wait_for_answers_of_the_dead_are_missed() {
    is_found(SeededBug::AsksTheGone, 5, &[WorldCheck::Leak], mourning);
}

/// With this bug, batches that are in flight to a forgotten node stay in flight. Each task that
/// waits for their completion waits forever.
#[test]
fn batches_to_nodes_that_were_given_up_have_to_end() {
    is_found(SeededBug::StrandsBatches, 10, &[WorldCheck::Leak, WorldCheck::Starvation], mourning);
}

#[test]
fn dead_nodes_have_to_be_reclaimed_for_lines_to_be_used_again() {
    is_found(SeededBug::BuriesNobody, 3, &[WorldCheck::Leak], mourning);
}

#[test]
fn duplicated_messages_do_harm_if_they_count_twice() {
    let faults = FaultPlan { repeat_one_in: 3, until_us: 100_000, ..FaultPlan::default() };
    let repeats = |seed| Scenario { faults: faults.clone(), ..busy(seed) };
    let checks = [
        WorldCheck::Owners,
        WorldCheck::Values,
        WorldCheck::Starvation,
        WorldCheck::Panic,
        WorldCheck::Leak,
    ];
    is_found(SeededBug::KeepsRepeats, 30, &checks, repeats);
}

/// Worlds with the workload `rtree`, busy and without faults.
fn boxes(seed: u64) -> Scenario {
    let workload = Workload::Rtree(RtreeLoad { boxes: 60, ..RtreeLoad::default() });
    Scenario { workload, ..busy(seed) }
}

#[test]
fn a_split_of_an_r_tree_that_is_not_counted_hides_entries() {
    let checks = [WorldCheck::Tree, WorldCheck::Linearizability, WorldCheck::Leak];
    is_found(SeededBug::SplitsUncounted, 5, &checks, boxes);
}

#[test]
fn a_query_that_goes_right_one_page_too_few_misses_entries() {
    is_found(SeededBug::StopsBeforeLast, 20, &[WorldCheck::Linearizability], boxes);
}

#[test]
fn an_entry_outside_of_the_box_above_is_missed() {
    let checks = [WorldCheck::Tree, WorldCheck::Linearizability, WorldCheck::Panic];
    is_found(SeededBug::ParentsStaySmall, 5, &checks, boxes);
}

#[test]
fn a_box_that_shrinks_under_an_insert_is_missed() {
    let checks = [WorldCheck::Tree, WorldCheck::Linearizability, WorldCheck::Panic];
    is_found(SeededBug::ShrinksUnderInserts, 40, &checks, boxes);
}

#[test]
fn an_entry_that_moves_without_a_trace_is_found_nowhere_or_twice() {
    let checks = [WorldCheck::Tree, WorldCheck::Linearizability, WorldCheck::Panic];
    is_found(SeededBug::LeavesNoTrace, 20, &checks, boxes);
}

/// Worlds with the workload `queue`, busy and without faults. Every second world has
/// one queue, whose leaves become empty from the left.
fn queues(seed: u64) -> Scenario {
    let load = QueueLoad { keys: 36, queues: 1 + seed % 2 * 2, ..QueueLoad::default() };
    Scenario { workload: Workload::Queue(load), ..busy(seed) }
}

/// What a page that leaves a tree in a wrong way harms.
const LOST_PAGES: [WorldCheck; 6] = [
    WorldCheck::Tree,
    WorldCheck::Linearizability,
    WorldCheck::Values,
    WorldCheck::Error,
    WorldCheck::Panic,
    WorldCheck::Leak,
];

#[test]
fn the_line_of_an_empty_page_that_is_used_again_at_once_is_read_as_the_old_page() {
    // Rare: about one world in a hundred.
    is_found(SeededBug::ReusesPagesAtOnce, 500, &LOST_PAGES, |seed| queues(seed + 100));
}

#[test]
fn a_leaf_that_is_unlinked_under_an_insert_takes_the_entry_along() {
    let checks = [WorldCheck::Tree, WorldCheck::Linearizability, WorldCheck::Leak];
    is_found(SeededBug::UnlinksFilledLeaves, 40, &checks, queues);
}

#[test]
fn a_page_that_leaves_without_its_neighbour_breaks_the_chain() {
    is_found(SeededBug::ForgetsTheNeighbour, 20, &LOST_PAGES, queues);
}

#[test]
fn a_leaf_that_is_marked_too_late_takes_an_entry_along() {
    is_found(SeededBug::MarksTooLate, 40, &LOST_PAGES, queues);
}

#[test]
fn a_remembered_address_that_is_another_page_by_now_takes_a_wrong_entry() {
    is_found(SeededBug::TrustsOldAddresses, 60, &LOST_PAGES, queues);
}

/// Worlds with the workload `txn`, busy and without faults, under one scheme.
fn transactions(scheme: Scheme) -> impl Fn(u64) -> Scenario {
    let load = TxnLoad { scheme, keys: 10, hot: 2, dropped: 0, ..TxnLoad::default() };
    move |seed| {
        let workload = Workload::Txn(load.clone());
        Scenario { compute_nodes: 4, tasks: 3, operations: 20, workload, ..busy(seed) }
    }
}

#[test]
fn transactions_that_overlook_rows_that_come_or_go_are_found() {
    for scheme in Scheme::ALL {
        let checks = [WorldCheck::Serializability];
        is_found(SeededBug::OverlooksPhantoms, 20, &checks, transactions(scheme));
    }
}

#[test]
fn transactions_that_do_not_guard_what_they_have_read_are_found() {
    for (plant, scheme) in [
        (SeededBug::SkipsRowValidation, Scheme::Optimistic),
        (SeededBug::DropsReadLocks, Scheme::TwoPhaseLocking),
        (SeededBug::IgnoresReadTimestamps, Scheme::TimestampOrdering),
    ] {
        is_found(plant, 20, &[WorldCheck::Serializability], transactions(scheme));
    }
}

/// The versions of a write that was not executed fit a serial order. Its content does not.
#[test]
fn a_write_that_a_transaction_only_reports_is_missed() {
    for scheme in Scheme::ALL {
        let checks = [WorldCheck::Serializability];
        is_found(SeededBug::Forgets, 20, &checks, transactions(scheme));
    }
}

/// A world with Sherman's tree: many splits, a few locks, and words that arrive in any order.
fn sherman(seed: u64) -> Scenario {
    let index = TreeIndex::Sherman;
    let load = TreeLoad { dropped: 5, index, locks: seed % 6, ..TreeLoad::default() };
    Scenario { line_size: 512, workload: Workload::Tree(load), ..busy(seed) }
}

#[test]
fn sherman_without_one_of_its_rules_is_found() {
    let checks =
        [WorldCheck::Tree, WorldCheck::Linearizability, WorldCheck::Values, WorldCheck::Error];
    is_found(SeededBug::ReleasesLocksFirst, 20, &checks, sherman);
    is_found(SeededBug::IgnoresFenceKeys, 20, &checks, sherman);
    is_found(SeededBug::TrustsTornLeaves, 20, &checks, sherman);
}

/// The published check of torn reads is refuted, and the same worlds pass with tags in each word.
#[test]
fn the_published_check_of_sherman_is_refuted() {
    let published = |seed| {
        let mut scenario = sherman(seed);
        if let Workload::Tree(load) = &mut scenario.workload {
            load.index = TreeIndex::Published;
        }
        scenario
    };
    let failures: Vec<_> = (0..40).filter_map(|seed| run(&published(seed)).failure).collect();
    let of_reads = [WorldCheck::Values, WorldCheck::Linearizability, WorldCheck::Tree];
    assert!(failures.iter().any(|failure| of_reads.contains(&failure.check)), "{failures:?}");
    for seed in 0..40 {
        assert_eq!(run(&sherman(seed)).failure, None);
    }
}

/// What a broken rule of the protocols with homes harms.
const HARM: [WorldCheck; 6] = [
    WorldCheck::Owners,
    WorldCheck::Values,
    WorldCheck::Starvation,
    WorldCheck::Panic,
    WorldCheck::Leak,
    WorldCheck::Linearizability,
];

/// Each rule of the protocols with homes that keeps messages of a line in order. Nodes have few
/// frames, so that they evict.
#[test]
fn homes_and_holders_that_break_a_rule_are_found() {
    for (plant, protocols) in [
        (SeededBug::ServesOutOfOrder, &[Protocol::ScaleStore][..]),
        (SeededBug::AcceptsEveryEviction, &[Protocol::Gam, Protocol::ScaleStore]),
        (SeededBug::ForgetsEarly, &[Protocol::Gam, Protocol::ScaleStore]),
        (SeededBug::EvictsUnanswered, &[Protocol::Gam, Protocol::ScaleStore]),
    ] {
        for &protocol in protocols {
            let load = LinesLoad { lines: 12, writes: 30, dropped: 0, ..LinesLoad::default() };
            let workload = Workload::Lines(load);
            let homes =
                |seed| Scenario { protocol, frames: 6, workload: workload.clone(), ..busy(seed) };
            is_found(plant, 60, &HARM, homes);
        }
    }
}

/// The same where a home is beside a node, so that some messages of a line are calls.
#[test]
fn homes_at_compute_nodes_that_break_a_rule_are_found() {
    for (plant, protocol) in [
        (SeededBug::ServesOutOfOrder, Protocol::ScaleStore),
        (SeededBug::EvictsUnanswered, Protocol::Gam),
    ] {
        let load = LinesLoad { lines: 12, writes: 30, dropped: 0, ..LinesLoad::default() };
        let workload = Workload::Lines(load);
        let settings: Overrides = [("home".to_owned(), "compute".to_owned())].into();
        is_found(plant, 60, &HARM, |seed| Scenario {
            protocol,
            frames: 6,
            settings: settings.clone(),
            workload: workload.clone(),
            ..busy(seed)
        });
    }
}

/// The parts of a recovery, after two nodes have died or lost their lease.
#[test]
fn homes_that_recover_lines_badly_are_found() {
    for plant in [SeededBug::HearsOneAnswer, SeededBug::LosesTheDuty] {
        for protocol in [Protocol::Gam, Protocol::ScaleStore] {
            is_found(plant, 60, &HARM, |seed| Scenario { protocol, ..mourning(seed) });
        }
    }
}
