//! Several processes run one program. When one process fails or gets a signal, all processes end
//! with the same exit status.

use std::time::Duration;

use latchwork_processes::{Ended, Memory};

const PART: &str = env!("CARGO_BIN_EXE_part");

/// The limit for the end of a run. A process that misses the end of another process waits for
/// longer.
const LIMIT: Duration = Duration::from_secs(60);

const SMALL: &str = "--cache-mb 4";

fn memory() -> Memory {
    Memory::start(1, 16 << 20)
}

/// The last line of each process, when all have ended with this status.
fn last_lines(ended: &[Ended], status: i32) -> Vec<String> {
    let last = |process: &Ended| {
        assert_eq!(process.status, Some(status), "{}", process.err);
        process.err.lines().last().unwrap_or_default().to_owned()
    };
    ended.iter().map(last).collect()
}

#[test]
fn when_one_fails_all_end_at_once_with_its_line_and_leave_in_order() {
    let memory = memory();
    for (odd, status, line) in [
        ("fails", 1, "it broke"),
        ("usage", 2, "--odd usage: use another"),
        ("apart", 1, "it broke apart from the others"),
    ] {
        let program = memory.start_program(PART, 3, &format!("{SMALL} --odd {odd}"));
        let lines = last_lines(&program.wait(LIMIT), status);
        let own = lines.iter().filter(|said| **said == format!("part: {line}")).count();
        let others = lines.iter().filter(|said| **said == format!("part: node C2: {line}")).count();
        assert_eq!((own, others), (1, 2), "{odd}: {lines:?}");
        assert_eq!(memory.dead(), [], "{odd}");
    }
    memory.end();
}

#[test]
fn a_worker_that_panics_ends_the_run_of_all() {
    let memory = memory();
    let ended = memory.start_program(PART, 3, &format!("{SMALL} --odd panics")).wait(LIMIT);
    let lines = last_lines(&ended, 1);
    let others =
        lines.iter().filter(|line| line.starts_with("part: node C2: node2-worker0 panicked"));
    assert_eq!(others.count(), 2, "{lines:?}");
    assert!(ended.iter().any(|process| process.err.contains("as it was told to")));
}

#[test]
fn a_signal_to_one_ends_all_while_they_prepare() {
    for (process, odd) in [(0, "slow"), (2, "slow"), (1, "slow --place 0")] {
        let memory = memory();
        let mut program = memory.start_program(PART, 3, &format!("{SMALL} --odd {odd}"));
        // All other processes wait for the odd one.
        program.wait_for_line("part: C3 is process 3 of 3", LIMIT);
        program.signal(process, "TERM");
        let lines = last_lines(&program.wait(LIMIT), 143);
        let beginning = "part: ended by SIGTERM ";
        assert!(lines.iter().all(|line| line.starts_with(beginning)), "{lines:?}");
        let told = lines.iter().filter(|line| line.starts_with("part: ended by SIGTERM at node C"));
        assert_eq!(told.count(), 2, "{lines:?}");
        assert_eq!(memory.dead(), []);
        memory.end();
    }
}

#[test]
fn a_signal_while_it_waits_for_others_leaves_nothing_behind() {
    let memory = memory();
    let mut program = memory.start_unlike(PART, &[&format!("{SMALL} --compute-nodes 2")]);
    program.wait_for_line("part: C1 waits for 1 more compute node; here: C1", LIMIT);
    program.signal(0, "INT");
    let lines = last_lines(&program.wait(LIMIT), 130);
    assert_eq!(lines, ["part: ended by SIGINT before it had a result"]);
    assert_eq!(memory.dead(), []);
    // The ended run does not hinder a new one.
    let ended = memory.start_program(PART, 2, SMALL).wait(LIMIT);
    last_lines(&ended, 0);
    memory.end();
}

#[test]
fn measured_parts_begin_and_end_together_whichever_process_is_warm_first() {
    let memory = memory();
    let ended = memory.start_program(PART, 3, &format!("{SMALL} --warm 200")).wait(LIMIT);
    for process in &ended {
        assert_eq!(process.status, Some(0), "{}", process.err);
        let went: Vec<_> = process.out.lines().collect();
        assert_eq!(went.len(), 3, "{}", process.out);
        assert!(went.iter().all(|one| one == &went[0]), "{}", process.out);
    }
    memory.end();
}

#[test]
fn two_runs_at_the_same_time_do_not_disturb_each_other() {
    let memory = memory();
    let two = || memory.start_program(PART, 2, SMALL);
    let both = [two(), two()];
    for program in both {
        last_lines(&program.wait(LIMIT), 0);
    }
    memory.end();
}

#[test]
fn one_process_too_many_gets_the_names_of_those_that_began() {
    let memory = memory();
    let mut two = memory.start_program(PART, 2, &format!("{SMALL} --odd slow"));
    two.wait_for_line("part: C2 is process 2 of 2", LIMIT);
    let flags = format!("{SMALL} --compute-nodes 2 --set join-wait=2");
    let mut third = memory.start_unlike(PART, &[&flags]);
    third.wait_for_line(
        "part: C3 waits for 1 more compute node; here: C3; C1, C2 began a run",
        LIMIT,
    );
    let lines = last_lines(&third.wait(LIMIT), 1);
    let told = "1 of 2 compute nodes came within 2s (C3); C1, C2 began a run without it";
    assert!(lines[0].contains(told), "{lines:?}");
    two.signal(0, "TERM");
    last_lines(&two.wait(LIMIT), 143);
    memory.end();
}
