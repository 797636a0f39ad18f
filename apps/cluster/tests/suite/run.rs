//! One run: its results, its end, and that no process and no file of it is left.

use serde_json::Value;

use crate::common::{Place, directories, signal, wait_until};

const TWO: &str = "--memory-nodes 2 --compute-nodes 2";

#[test]
fn what_all_processes_wrote_is_in_one_directory() {
    let place = Place::new();
    let ended = place.run(TWO, "good");
    assert_eq!((ended.status, ended.out.as_str()), (Some(0), "good news\n"), "{}", ended.err);
    assert!(ended.err.contains("M1 | memnode: M1 serves"), "{}", ended.err);
    let document: Value = serde_json::from_str(&place.read("results/document.json")).expect("JSON");
    assert_eq!(document["ops"], 10);
    let run: Value = serde_json::from_str(&place.read("results/run.json")).expect("JSON");
    assert_eq!((&run["status"], &run["problem"]), (&Value::from(0), &Value::Null));
    let nodes = run["nodes"].as_array().expect("nodes");
    let names: Vec<_> =
        nodes.iter().map(|node| node["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["M0", "M1", "C1", "C2"]);
    assert!(nodes.iter().all(|node| node["ended"] == "status 0"), "{run}");
    assert!(place.read("results/M0.err").contains("serves"));
    assert_eq!(
        (place.read("results/C1.out").as_str(), place.read("results/C2.out").as_str()),
        ("good news\n", "")
    );
}

#[test]
fn a_program_that_fails_is_named_and_the_others_are_ended() {
    let place = Place::new();
    let ended = place.run(&format!("{TWO} --grace 0"), "fails");
    assert_eq!(ended.status, Some(3), "{}", ended.err);
    let line = ended.err.lines().find(|line| line.starts_with("cluster: ")).expect("a line");
    assert_eq!(line, "cluster: C2 ended with status 3: program: it broke");
    let run: Value = serde_json::from_str(&place.read("results/run.json")).expect("JSON");
    assert_eq!(run["nodes"][2]["ended"], "status 4", "it was asked to end: {run}");
}

#[test]
fn a_memory_node_that_ends_before_the_programs_is_a_failure() {
    let place = Place::new();
    let running = place.start_run("--grace 0", "hangs");
    place.wait_for("results/C2.err", "begun");
    let memory = |pid: &u32| is_script(*pid, "memnode");
    let pid = running.processes().into_iter().find(memory).expect("a memory node");
    signal(pid, "KILL");
    let ended = running.wait();
    assert_eq!(ended.status, Some(137), "{}", ended.err);
    assert!(ended.err.contains("cluster: M0 was ended by SIGKILL"), "{}", ended.err);
    let told = ended.unfolded();
    assert!(told.contains("(before the programs were over)"), "{told}");
    assert!(ended.err.lines().all(|line| line.len() <= 80), "{}", ended.err);
}

/// Bug: a stopped process delayed the end of its run by the grace and more, which is 20 s with the
/// defaults. Mechanism: the process got a request to end, and a stopped process handles no request.
/// Fix: the run kills the process as soon as it waits for the process's end.
#[test]
fn a_stopped_process_does_not_hold_up_the_end_of_a_run() {
    let place = Place::new();
    // The grace is far longer than the test waits.
    let running = place.start_run(&format!("{TWO} --grace 3600"), "stopped");
    place.wait_for("results/C2.err", "begun");
    for name in ["program", "memnode"] {
        let last = |pid: &u32| is_script(*pid, name);
        // C2 is the last of the programs to start, and M1 the last of the memory nodes.
        let pid = running.processes().into_iter().rfind(last).expect("a process");
        signal(pid, "STOP");
    }
    std::fs::write(place.path("stopped"), "").expect("a file");
    let ended = running.wait();
    assert_eq!(ended.status, Some(3), "{}", ended.err);
    for name in ["C2", "M1"] {
        let told = format!("cluster: {name} is stopped, and the run is over: killed");
        assert!(ended.err.contains(&told), "{}", ended.err);
    }
    let told = ended.unfolded();
    let line = told.lines().find(|line| line.contains("did not answer")).expect("the reason");
    // M1 was stopped a moment later, so its second may not be over yet.
    let (before, of_c2) = line.split_once("C2 did not answer for ").expect("the reason");
    let of_m1 = "cluster: M1 has not answered for ";
    assert!(before == "cluster: " || before.starts_with(of_m1), "{line}");
    let rest = " s, and was ended by SIGKILL; C1 ended with status 3: program: C2 is gone";
    assert!(of_c2.ends_with(rest), "{line}");
}

#[test]
fn a_node_that_does_not_answer_is_named_while_the_run_goes_on() {
    let place = Place::new();
    let running = place.start_run("", "waits");
    place.wait_for("results/C1.err", "begun");
    let program = |pid: &u32| is_script(*pid, "program");
    let pid = running.processes().into_iter().find(program).expect("a program");
    let pause = || std::thread::park_timeout(std::time::Duration::from_millis(2500));
    signal(pid, "STOP");
    pause();
    signal(pid, "CONT");
    pause();
    std::fs::write(place.path("go"), "").expect("a file");
    let ended = running.wait();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let told: Vec<_> = ended.err.lines().filter(|line| line.starts_with("cluster: ")).collect();
    let [silent, again] = told[..] else { panic!("two lines: {}", ended.err) };
    assert!(silent.starts_with("cluster: C1 has not answered for "), "{silent}");
    assert!(silent.ends_with(" s: it is stopped"), "{silent}");
    assert_eq!(again, "cluster: C1 answers again");
}

/// Whether a process is a stand-in of this name. A child that a stand-in has just forked, to run
/// another program, does not count.
fn is_script(pid: u32, name: &str) -> bool {
    runs_script(pid, name) && !parent(pid).is_some_and(|parent| runs_script(parent, name))
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may contain any character, come the state and the parent.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn runs_script(pid: u32, name: &str) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = command.split(|byte| *byte == 0).collect();
    words.get(1).is_some_and(|word| word.ends_with(format!("/{name}").as_bytes()))
}

#[test]
fn a_program_that_leaves_no_document_has_failed() {
    let ended = Place::new().run("", "silent");
    assert_eq!(ended.status, Some(1), "{}", ended.err);
    assert!(ended.err.contains("cluster: no process has left a result document"), "{}", ended.err);
}

#[test]
fn the_first_signal_ends_the_run_in_order() {
    for (name, by) in [("INT", "SIGINT"), ("TERM", "SIGTERM")] {
        let place = Place::new();
        let running = place.start_run(TWO, "in-order");
        place.wait_for("results/C1.err", "begun");
        place.wait_for("results/C2.err", "begun");
        running.signal(name);
        let ended = running.wait();
        assert_eq!(ended.status, Some(0), "{by}: the programs say so: {}", ended.err);
        assert!(place.path("results/document.json").is_file(), "{by}");
    }
}

/// Bug: a command under `nohup` ended when its terminal was closed. Mechanism: the command handled
/// SIGHUP, even if SIGHUP was ignored. Fix: an ignored signal stays ignored, as in all programs.
#[test]
fn a_command_that_is_to_outlive_its_terminal_does() {
    let place = Place::new();
    let running = place.start_by("trap '' HUP; exec \"$0\" \"$@\"", TWO, "in-order");
    place.wait_for("results/C1.err", "begun");
    place.wait_for("results/C2.err", "begun");
    running.signal("HUP");
    std::thread::park_timeout(std::time::Duration::from_millis(300));
    assert!(!running.is_over(), "it outlives the terminal");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
}

#[test]
fn a_second_signal_ends_all_at_once_and_nothing_is_left() {
    let place = Place::new();
    let running = place.start_run(TWO, "hangs");
    place.wait_for("results/C1.err", "begun");
    place.wait_for("results/C2.err", "begun");
    running.signal("TERM");
    running.signal("INT");
    let ended = running.wait();
    assert!([Some(130), Some(143)].contains(&ended.status), "{:?}", ended.status);
}

#[test]
fn nothing_is_left_by_a_command_that_is_killed() {
    let place = Place::new();
    let running = place.start_run(TWO, "hangs");
    place.wait_for("results/C1.err", "begun");
    place.wait_for("results/C2.err", "begun");
    running.signal("KILL");
    assert_eq!(running.wait().status, None, "it was killed");
}

#[test]
fn nothing_is_left_when_time_is_over() {
    let place = Place::new();
    let ended = place.run(&format!("{TWO} --time-limit 0.5"), "hangs");
    assert_eq!(ended.status, Some(124), "{}", ended.err);
    assert!(ended.err.contains("cluster: the time limit of 0.5 s is over"), "{}", ended.err);
}

/// Bug: a run over sockets ended where no file can be created in shared memory, as in some
/// containers.
#[test]
fn only_nodes_that_share_memory_need_a_directory_in_it() {
    let place = Place::new();
    let user = if rustix::process::geteuid().is_root() { "" } else { "--user --map-root-user" };
    let line = format!(
        r#"exec unshare --mount {user} sh -c 'mount -t tmpfs -o ro none /dev/shm && exec "$0" "$@"' "$0" "$@""#
    );
    let ended = place.start_by(&line, "--fabric tcp", "good").wait();
    if ended.err.starts_with("unshare: ") || ended.err.starts_with("mount: ") {
        eprintln!("skipped: {}", ended.err.trim());
        return;
    }
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let ended = place.start_by(&line, "--fabric shm", "good").wait();
    assert_ne!(ended.status, Some(0), "{}", ended.err);
    assert!(ended.err.contains("cluster: /dev/shm/latchwork-cluster-"), "{}", ended.err);
}

#[test]
fn what_is_left_by_one_killed_together_with_its_guard_is_removed_by_the_next() {
    let place = Place::new();
    let running = place.start_run(TWO, "hangs");
    place.wait_for("results/C2.err", "begun");
    let pid = running.pid();
    let is_guard = |other: &u32| {
        let command = std::fs::read(format!("/proc/{other}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).nth(1) == Some(b"guard")
    };
    let processes = running.processes();
    let guard = processes.into_iter().find(is_guard).expect("a guard");
    signal(guard, "KILL");
    running.signal("KILL");
    assert_eq!(running.wait_alone(), None);
    let left = || directories(place.directory.path(), pid);
    assert_eq!(left().len(), 2, "nobody was there to remove them");
    let ended = place.run("", "good");
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    // Other commands that start at the same time may remove the directories too.
    assert!(wait_until(|| left().is_empty()), "{:?}", left());
}

/// Bug: the files of killed processes stayed in memory until the next start, because no command
/// removed them.
#[test]
fn clean_removes_what_the_killed_have_left_and_nothing_that_the_living_have() {
    use latchwork_verbs::MemoryNodeId;
    use latchwork_verbs_shm::{ShmConfig, ShmFabric};

    let place = Place::new();
    let (dead, living) = (place.path("dead"), place.path("living"));
    for path in [&dead, &living] {
        std::fs::create_dir(path).expect("a directory");
    }
    // These files are those of a killed process: the owner's file exists, and no process has its
    // lock.
    let left = dead.join("latchwork-00000000000000aa-memory-0");
    std::fs::write(&left, [0; 4096]).expect("a file");
    std::fs::write(dead.join("latchwork-00000000000000aa-owner"), "").expect("a file");
    std::fs::write(dead.join("thesis"), "").expect("a file");
    let fabric =
        ShmFabric::in_directory(living.as_path(), ShmConfig::default()).expect("a directory");
    fabric.serve_memory_as(MemoryNodeId(0), 1 << 16).expect("room");
    let before = std::fs::read_dir(&living).expect("a directory").count();
    // A run that is alive: its directories must stay.
    let running = place.start_run(TWO, "hangs");
    place.wait_for("results/C2.err", "begun");
    let own = directories(place.directory.path(), running.pid());

    let (dead, living) = (dead.display(), living.display());
    let ended = place.run_beside(&format!("clean --shm-dir {dead} --shm-dir {living}"));
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(ended.out.contains(&format!("removed 2 files (0.0 MiB) in {dead}")), "{}", ended.out);
    assert!(!ended.out.contains(&living.to_string()), "{}", ended.out);
    let names = |path: &str| -> Vec<_> {
        let entries = std::fs::read_dir(place.path(path)).expect("a directory").flatten();
        entries.map(|entry| entry.file_name()).collect()
    };
    assert_eq!(names("dead"), ["thesis"]);
    assert_eq!(names("living").len(), before, "what a living process has");
    assert_eq!(directories(place.directory.path(), running.pid()), own, "a run that lives");
    running.signal("TERM");
    running.signal("INT");
    running.wait();
    drop(fabric);
}

#[test]
fn a_dry_run_starts_nothing_and_says_what_would_be() {
    let place = Place::new();
    let ended = place.run("--fabric tcp --memory-nodes 2 --memory-mb 64M --dry-run", "good");
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let lines: Vec<_> = ended.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ended.out);
    assert!(
        lines[1].contains("memnode --memory-mb 64") && lines[1].contains("--set node-id=1"),
        "{}",
        lines[1]
    );
    assert!(
        lines[3].contains("program good --join file:") && lines[3].contains("--fabric tcp"),
        "{}",
        lines[3]
    );
    assert!(!place.path("results").exists());
}

#[test]
fn what_cannot_be_is_one_line_that_says_what_would_do() {
    let place = Place::new();
    std::fs::create_dir(place.path("mine")).expect("a directory");
    std::fs::write(place.path("mine/thesis"), "").expect("a file");
    for (arguments, problem) in [
        (
            "run --bin . other",
            "/other: build it, with `cargo build --release --bins`, or give --bin DIRECTORY",
        ),
        ("run --bin . --on ssh program", "--hosts FILE and --on ssh belong together"),
        (
            "run --bin . --on processes --fabric ibverbs program",
            "say which RDMA devices, with --device NAME",
        ),
        ("run --bin . --on namespaces --fabric shm program", "use --fabric tcp"),
        ("run --bin . --on vm --fabric tcp program", "use --on processes, or --fabric ibverbs"),
        ("run --bin . --on vm --vm-script none program", "--vm-script none: there is no such file"),
        ("run --bin . --store zookeeper program", "use file, etcd, or etcd://HOST:PORT"),
        ("run --bin . --copy program", "--copy is for --on ssh"),
        ("run --bin . --results mine program -- good", "something else is there"),
        ("run --bin . program -- --json=x", "--json=x belongs before `--`"),
        ("run --bin .", "the following required arguments were not provided"),
        ("run --compute-nodes 0 program", "use a whole number from 1 to 58"),
        ("matrix none.toml", "none.toml: it cannot be read: No such file"),
    ] {
        let ended = place.start(arguments).wait();
        assert_eq!(ended.status, Some(2), "{arguments}: {}", ended.err);
        let [line] = ended.err.lines().collect::<Vec<_>>()[..] else {
            panic!("{arguments}: one line: {}", ended.err);
        };
        assert!(line.starts_with("cluster: ") && line.contains(problem), "{arguments}: {line}");
    }
    assert!(place.path("mine/thesis").is_file());
}
