//! Valid and invalid command lines.

use latchwork_txn::Scheme;
use latchwork_workload::tpcc::Home;

use super::*;

fn settings(arguments: &str) -> Result<Settings, AppError> {
    let arguments = std::iter::once("tpcc").chain(arguments.split_whitespace());
    let cli = latchwork_harness::config::command_line("tpcc", arguments);
    Settings::new(cli.expect("a command line that can be parsed"))
}

#[test]
fn without_flags_it_is_the_standard_mix() {
    let settings = settings("").expect("defaults");
    assert_eq!((settings.command, settings.check), (None, true));
    assert!(settings.inputs.weights.is_standard());
    assert_eq!(settings.inputs.remote_lines, RemoteLines::PerLine { percent: 1 });
    assert_eq!(settings.population.scale(), Scale::default());
    assert_eq!((settings.time, settings.count), (Some(TIME_DEFAULT), None));
    assert_eq!(settings.txn.scheme, Scheme::TwoPhaseLocking);
    assert_eq!(settings.common.cluster.inflight, 1);
}

#[test]
fn what_is_impossible_is_one_line_that_names_the_flag_and_what_would_do() {
    for (arguments, flag, would_do) in [
        ("prepare", "prepare", "--wal-dir"),
        ("run", "run", "leave the command out"),
        ("check", "check", "--wal-dir"),
        ("--wal sync", "--wal sync", "--wal-dir"),
        ("run --wal-dir /nowhere/x", "--wal-dir /nowhere/x", "tpcc prepare"),
        ("--wal off --wal-dir x", "--wal-dir x", "--wal sync"),
        ("--fabric sim --wal-dir x", "--wal-dir x", "leave the flag out"),
        ("--set sync-us=100 --wal sync --wal-dir x", "--set sync-us=100", "--fabric sim"),
        ("--set sync-us=100 --fabric sim", "--set sync-us=100", "--wal sync"),
        (
            "--set terminals=any --partitioned -w 2",
            "--set terminals=any",
            "use --set terminals=node",
        ),
        ("--set terminals=any --set wait=on", "--set terminals=any", "terminals=standard or node"),
        ("--set terminals=standard --partitioned -w 2", "terminals=standard", "terminals=node"),
        ("--partitioned -w 1", "--partitioned", "fewer --compute-nodes"),
        ("--partitioned --threads 300 --compute-nodes 2", "--threads 300", "255 at most"),
        (
            "--distribution-ratio 9 -w 5 --compute-nodes 4",
            "--distribution-ratio 9",
            "--warehouses 8",
        ),
        ("--distribution-ratio 10 --compute-nodes 1", "--distribution-ratio 10", "use 0"),
        ("--memory-mb 32", "--memory-mb 32", "fewer --warehouses"),
        ("-w 1000000", "--warehouses 1000000", "fewer --warehouses"),
        ("--json /nowhere/result.json", "--json", "its directory does not exist"),
        ("--record /nowhere/history", "--record /nowhere/history", "make /nowhere first"),
        ("run --wal-dir /nowhere/x --record /nowhere/history", "--record", "make /nowhere first"),
        ("--gcl-size 512", "--gcl-size 512", "use --gcl-size 1024"),
        ("--cache-mb 0.001", "--cache-mb 0.001", "use --cache-mb 0."),
    ] {
        let error = settings(arguments).err().expect("an impossible command line");
        assert_eq!(error.status(), 2, "{arguments}");
        let line = error.to_string();
        assert!(!line.contains('\n'), "{line}");
        assert!(line.contains(flag) && line.contains(would_do), "{arguments}: {line}");
    }
}

/// Bug: a run of many operations that a short time ends was refused, and so was a long one.
#[test]
fn the_memory_is_what_the_run_can_fill_and_the_machine_has() {
    let bytes = |flags: &str| {
        let flags = format!("--set items=500 --set customers=30 {flags}");
        settings(&flags).expect("good").common.cluster.memory_bytes
    };
    let few = bytes("--operations 1000");
    assert_eq!(bytes("--operations 1000 --time 100h"), few);
    assert_eq!(bytes("--operations 1000000000 --time 1 --warmup 0"), bytes("--time 1 --warmup 0"));
    let room = latchwork_harness::driver::MemoryRoom::now().expect("a room");
    assert!((few..room.total).contains(&bytes("--time 100h")));
}

#[test]
fn terminals_of_a_divided_database_stay_in_their_share() {
    let settings =
        settings("--distribution-ratio 20 -w 5 --compute-nodes 2 --threads 2").expect("good");
    assert_eq!(settings.terminals.shares, Some(Shares { warehouses: 3, nodes: 2 }));
    assert_eq!(settings.inputs.remote_payments_percent, 0);
    let homes: Vec<_> = (0..4).flat_map(|worker| settings.terminals.of_worker(worker)).collect();
    assert_eq!(homes[0].1, Home::Anywhere(1..=1));
    assert_eq!(homes[1].1, Home::Anywhere(2..=3));
    let second = Home::District { warehouse: 4, district: 1 };
    assert_eq!((homes[2].0, &homes[2].1), (2, &second));
}

#[test]
fn terminals_of_partitions_stay_in_theirs_and_customers_come_from_everywhere() {
    let settings = settings("--partitioned -w 4 --compute-nodes 2 --threads 2").expect("good");
    assert_eq!(settings.inputs.remote_lines, RemoteLines::PerLine { percent: 1 });
    assert_eq!(settings.inputs.remote_payments_percent, REMOTE_PAYMENTS);
    let homes = (0..4).flat_map(|worker| settings.terminals.of_worker(worker));
    let homes: Vec<_> = homes.map(|(_, home)| home).collect();
    assert_eq!(homes, [1, 2, 3, 4].map(|warehouse| Home::District { warehouse, district: 1 }));
}

#[test]
fn roaming_terminals_are_everywhere_also_where_warehouses_are_divided() {
    let settings =
        settings("--set terminals=any --distribution-ratio 20 -w 4 --compute-nodes 2 --threads 2");
    let settings = settings.expect("good");
    assert_eq!(settings.inputs.remote_lines, RemoteLines::PerOrder { percent: 20, shard: 2 });
    let homes = (0..4).flat_map(|worker| settings.terminals.of_worker(worker));
    assert!(homes.into_iter().all(|(_, home)| home == Home::Anywhere(1..=4)));
}

/// Bug: with waits a run of ten seconds, in which no terminal had come to its first transaction,
/// had a tpmC of 0.
#[test]
fn terminals_that_wait_have_minutes_and_only_then_a_tpmc() {
    let sync = "--fabric sim --wal sync --set wait=on";
    let long = settings(sync).expect("good");
    assert_eq!((long.warmup, long.time), (WARMUP_DEFAULT_WAITING, Some(TIME_DEFAULT_WAITING)));
    assert!(long.has_tpmc() && long.common.warnings.is_empty());
    for less in ["--time 10", "--warmup 1", "--operations 100"] {
        let short = settings(&format!("{sync} {less}")).expect("good");
        assert!(!short.has_tpmc(), "{less}");
        let told = &short.common.warnings;
        assert!(told.iter().any(|line| line.contains("--warmup 30 and --time 120")), "{told:?}");
    }
    for other in ["--fabric sim --set wait=on", "--fabric sim --wal sync --time 300 --warmup 60"] {
        assert!(!settings(other).expect("good").has_tpmc(), "{other}");
    }
    assert!(!settings(&format!("{sync} --weight neworder")).expect("good").has_tpmc());
}

#[test]
fn the_description_has_every_setting() {
    let config = settings("--cc to --set ts-block=8 --set interval=3").expect("good").describe();
    for key in ["protocol", "cc", "ts_block", "warehouses", "weight", "seed", "interval_s"] {
        assert!(config.contains_key(key), "{key}");
    }
    assert!(!config.contains_key("count"));
}
