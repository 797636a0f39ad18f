use std::path::Path;

use clap::Parser;
use tempfile::TempDir;

use super::*;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    run: Run,
}

/// A plan with programs of these names, which are never started.
fn plan(flags: &str) -> Result<Plan, String> {
    let bin = TempDir::new().expect("a directory");
    for name in ["cluster", "memnode", "ycsb", "rxe-vm.sh", "hosts"] {
        std::fs::write(bin.path().join(name), "one 10.0.0.1 mlx5_0\ntwo 10.0.0.2\n")
            .expect("a file");
    }
    let bin = bin.path().display().to_string();
    let line = format!("--bin {bin} {} ycsb -- run -w a", flags.replace("HERE", &bin));
    let line = Line::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())?;
    let layout = Layout {
        scratch: "/tmp/scratch".into(),
        shared: "/dev/shm/scratch".into(),
        results: "/tmp/results".into(),
        mark: "mark".to_owned(),
    };
    Plan::of(&line.run, &layout).map_err(|error| error.to_string())
}

fn has(plan: &Plan, node: &str, words: &str) -> bool {
    let launch = plan.launches.iter().find(|launch| launch.name == node);
    format!("{} ", launch.expect(node).line()).contains(&format!("{words} "))
}

#[test]
fn each_process_gets_its_number_and_how_many_there_are() {
    let plan = plan(
        "--memory-nodes 2 --compute-nodes 3 --memory-mb 1G --fabric ibverbs --device a,b --device c --gid-index 3",
    );
    let plan = plan.expect("a plan");
    let names: Vec<_> = plan.launches.iter().map(|launch| launch.name.as_str()).collect();
    assert_eq!(names, ["M0", "M1", "C1", "C2", "C3"]);
    assert!(has(&plan, "M1", "--memory-mb 1024") && has(&plan, "M1", "--set node-id=1"));
    assert!(has(&plan, "C3", "ycsb run -w a --join file:/tmp/scratch/store"));
    assert!(has(&plan, "C3", "--compute-nodes 3 --memory-nodes 2 --json /tmp/results/C3.json"));
    for (node, device) in [("M0", "a"), ("M1", "b"), ("C1", "c"), ("C2", "a"), ("C3", "b")] {
        assert!(has(&plan, node, &format!("--set device={device} --set gid-index=3")), "{node}");
    }
}

#[test]
fn files_of_shared_memory_are_the_runs_own() {
    let plan = plan("--fabric shm").expect("a plan");
    assert!(
        has(&plan, "M0", "--set shm-dir=/dev/shm/scratch")
            && has(&plan, "C2", "--set shm-dir=/dev/shm/scratch")
    );
}

#[test]
fn a_store_that_is_given_gets_a_name_of_the_runs_own() {
    let given = plan("--store etcd://10.0.0.9:2379").expect("a plan");
    assert!(has(&given, "C1", "--join etcd://10.0.0.9:2379/mark"));
    let named = plan("--store etcd://10.0.0.9:2379/ours").expect("a plan");
    assert!(has(&named, "C1", "--join etcd://10.0.0.9:2379/ours"));
}

#[test]
fn on_hosts_nodes_take_turns_and_say_where_they_are() {
    let flags = "--on ssh --hosts HERE/hosts --ssh my-ssh --fabric tcp --compute-nodes 2";
    let plan = plan(flags).expect("a plan");
    let hosts: Vec<_> =
        plan.launches.iter().map(|launch| launch.host.clone().unwrap_or_default()).collect();
    assert_eq!(hosts, ["one", "one", "two", "one"], "the store, a memory node, two compute nodes");
    assert!(has(&plan, "C1", "--listen 0.0.0.0:0 --set advertise=10.0.0.2"));
    assert!(has(&plan, "C1", "--join etcd://10.0.0.1:23790/run"));
    let store = &plan.launches[0].command;
    assert_eq!(store[..2], ["my-ssh", "one"]);
    assert!(store[2].contains("--listen-client-urls http://0.0.0.0:23790"), "{}", store[2]);
    assert!(store[2].contains("--advertise-client-urls http://10.0.0.1:23790"), "{}", store[2]);
    let rdma = self::plan(&flags.replace("tcp", "ibverbs")).expect("a plan");
    let memory = rdma.launches[1].line();
    assert!(memory.contains("--set device=mlx5_0") && !memory.contains("--listen"), "{memory}");
    let refused = self::plan(&format!("{flags} --store file")).expect_err("no store");
    assert!(refused.contains("use etcd, or etcd://HOST:PORT"), "{refused}");
}

#[test]
fn the_virtual_machine_gets_a_device_for_each_process() {
    let plan = plan(
        "--fabric ibverbs --vm-script HERE/rxe-vm.sh --compute-nodes 3 --memory-mb 64M --time-limit 100",
    );
    let plan = plan.expect("a plan");
    let [vm] = &plan.launches[..] else { panic!("one process: {plan:?}") };
    let line = vm.line();
    assert!(line.contains("rxe-vm.sh --hosts 4 --limit 340 --memory 2176 --share"), "{line}");
    assert!(
        line.contains("--on processes --fabric ibverbs --device rxe1,rxe2,rxe3,rxe4"),
        "{line}"
    );
    assert!(line.ends_with("ycsb -- run -w a"), "{line}");
    assert!(vm.is_run);
}

#[test]
fn each_namespace_is_entered_before_the_program_is_wrapped() {
    let Ok(plan) = plan("--on namespaces --compute-nodes 2") else {
        eprintln!("skipped: namespaces are not permitted here");
        return;
    };
    let launch = &plan.launches[2];
    assert!(launch.enter.contains(&HOLDER.to_owned()));
    assert!(launch.enter.contains(&"--net=/tmp/scratch/net/C2".to_owned()), "{:?}", launch.enter);
    assert!(has(&plan, "C2", "--listen 10.78.0.3:0"));
    let holder = plan.holder.expect("a holder");
    assert_eq!(holder[holder.len() - 3..], ["M0", "C1", "C2"]);
    assert!(Path::new(&holder[0]).ends_with("unshare"));
}
