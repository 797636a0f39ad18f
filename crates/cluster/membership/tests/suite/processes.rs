//! Nodes that are real processes, and are killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use latchwork_membership::{
    MemberState, Membership, MembershipError, NodeIncarnation, NodeName, ProcessIdentity,
    end_leases,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::common;
use crate::common::{FIRM, LONG, Place, compute, compute_as, compute_for};

/// The variable that names the store for a child process.
const STORE: &str = "LATCHWORK_TEST_STORE";
/// The prefix of every line of a child process, which distinguishes it from lines of the test
/// harness.
const MARK: &str = "node: ";

/// A node in its own process: this test program, started again.
struct Node {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Node {
    fn start(place: &Place, ttl: Duration) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["processes::what_a_child_process_does", "--exact", "--ignored", "--nocapture"])
            .env(STORE, format!("{} {}", place.endpoint, ttl.as_millis()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, answers) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The test harness writes its own text before the first line.
                if let Some((_, answer)) = line.split_once(MARK) {
                    let _ = tell.send(answer.to_owned());
                }
            }
        });
        Node { commands: child.stdin.take().unwrap(), child, answers }
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    fn answer(&self) -> String {
        self.answers.recv_timeout(LONG).unwrap()
    }

    fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer()
    }

    /// Kills the process, like `kill -9`.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity::of(self.child.id()).unwrap()
    }
}

/// The name in the first answer of a child.
fn name_of(party: &str) -> NodeName {
    party.parse::<NodeIncarnation>().unwrap().node
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The commands of a child process: `exchange NAME PARTY,PARTY`, `decide NAME`, `lease`, `leave`.
/// The answer to each command is one line.
#[test]
#[ignore = "what the other tests start as processes of their own"]
fn what_a_child_process_does() {
    let Ok(store) = std::env::var(STORE) else { return };
    let (endpoint, ttl) = store.split_once(' ').unwrap();
    let ttl = Duration::from_millis(ttl.parse().unwrap());
    let (store, cluster) = latchwork_membership::open(endpoint).unwrap();
    let node = Membership::join(store, &cluster, compute_for(ttl)).unwrap();
    let say = |answer: &str| println!("{MARK}{answer}");
    say(&node.me().party().to_string());
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<_> = line.split(' ').collect();
        let value = node.me().node.to_string();
        match words[..] {
            ["exchange", name, parties] => {
                let parties: Vec<NodeIncarnation> =
                    parties.split(',').map(|party| party.parse().unwrap()).collect();
                match node.exchange(name, &parties, value.as_bytes(), 4 * LONG) {
                    Ok(values) => {
                        let value = |value: Vec<u8>| String::from_utf8(value).unwrap();
                        let values = values.into_iter().map(value);
                        say(&values.collect::<Vec<_>>().join(" "));
                    }
                    Err(error) => say(&format!("error: {error}")),
                }
            }
            ["decide", name] => {
                let value = node.decide(name, value.as_bytes()).unwrap();
                say(&String::from_utf8(value).unwrap());
            }
            ["lease"] => say(&node.lease().is_valid().to_string()),
            ["leave"] => say(&format!("{:?}", node.leave())),
            _ => panic!("{line:?}"),
        }
    }
}

/// The stores that processes can share.
fn places() -> impl Iterator<Item = Place> {
    Place::all().filter(|place| !place.endpoint.is_empty())
}

#[test]
fn processes_share_a_store() {
    for place in places() {
        let mut nodes: Vec<_> = (0..4).map(|_| Node::start(&place, LONG)).collect();
        let mut parties: Vec<_> = nodes.iter().map(Node::answer).collect();
        parties.sort();
        let names = parties.iter().map(|party| party.split_once('@').unwrap().0);
        assert!(names.eq(["C1", "C2", "C3", "C4"]), "{parties:?}");
        for round in 0..5 {
            let command = format!("exchange round-{round} {}", parties.join(","));
            nodes.iter_mut().for_each(|node| node.tell(&command));
            nodes.iter().for_each(|node| assert_eq!(node.answer(), "C1 C2 C3 C4"));
        }
        let decided: Vec<_> = nodes.iter_mut().map(|node| node.ask("decide pool")).collect();
        assert!(decided.iter().all(|value| *value == decided[0]), "{decided:?}");
        nodes.iter_mut().for_each(|node| assert_eq!(node.ask("leave"), "Ok(())"));
        let observer = place.join(compute()).unwrap();
        assert_eq!(observer.view().joined().count(), 1);
        assert_eq!(observer.view().dead().count(), 0);
    }
}

#[test]
fn a_process_that_is_killed_in_the_middle_of_an_exchange_ends_it_for_all() {
    for place in places() {
        let mut nodes: Vec<_> = (0..3).map(|_| Node::start(&place, 4 * LONG)).collect();
        let three: Vec<_> = nodes.iter().map(Node::answer).collect();
        let mut mortal = Node::start(&place, FIRM);
        let party = mortal.answer();
        let name = party.split_once('@').unwrap().0.to_owned();
        for node in &mut nodes {
            node.tell(&format!("exchange x {},{party}", three.join(",")));
        }
        common::sleep(Duration::from_millis(200));
        mortal.kill();
        for node in &nodes {
            let answer = node.answer();
            assert!(answer.contains(&format!("{name} died")), "{answer}");
        }
        nodes.iter_mut().for_each(|node| assert_eq!(node.ask("lease"), "true"));
        // The remaining nodes run another exchange.
        let again = format!("exchange y {}", three.join(","));
        nodes.iter_mut().for_each(|node| node.tell(&again));
        nodes.iter().for_each(|node| assert_eq!(node.answer().split(' ').count(), 3));
    }
}

#[test]
fn a_process_that_is_started_again_under_its_id_is_refused_before_and_after_its_death() {
    for place in places() {
        let mut first = Node::start(&place, FIRM);
        assert!(first.answer().starts_with("C1@"));
        first.kill();
        // The process is dead, and its lease still exists in the store.
        let error = place.join(compute_as(1)).unwrap_err();
        assert!(matches!(error, MembershipError::Taken { .. }), "{error}");
        let other = place.join(compute()).unwrap();
        let node = error_node(&error);
        other.wait(LONG, |view| view.state(node) == Some(MemberState::Dead)).unwrap();
        let error = place.join(compute_as(1)).unwrap_err();
        assert!(matches!(error, MembershipError::Dead { .. }), "{error}");
    }
}

fn error_node(error: &MembershipError) -> latchwork_membership::NodeName {
    match error {
        MembershipError::Taken { node, .. } => *node,
        error => panic!("{error}"),
    }
}

/// The length of a lease, compared with which a death is known early.
const EARLY: Duration = Duration::from_secs(20);

#[test]
fn a_killed_process_is_dead_long_before_its_lease_ends_and_a_stopped_one_is_not() {
    for place in places() {
        let observers = [place.join(compute()).unwrap(), place.join(compute()).unwrap()];
        let mut times = Vec::new();
        for _ in 0..5 {
            let [killed, mut stopped] = [Node::start(&place, EARLY), Node::start(&place, EARLY)];
            let [dead, lives] = [name_of(&killed.answer()), name_of(&stopped.answer())];
            let is_there = |view: &latchwork_membership::View| {
                [dead, lives].map(|node| view.state(node)) == [Some(MemberState::Joined); 2]
            };
            observers.iter().for_each(|node| drop(node.wait(LONG, is_there).unwrap()));
            // A process that is stopped in its first renewal keeps the lock of a directory.
            common::sleep(Duration::from_millis(300));
            stopped.signal(Signal::STOP);
            let begin = common::now();
            killed.signal(Signal::KILL);
            for observer in &observers {
                let is_dead =
                    |view: &latchwork_membership::View| view.state(dead) == Some(MemberState::Dead);
                observer.wait(LONG, is_dead).unwrap();
                times.push(begin.elapsed());
            }
            common::sleep(Duration::from_millis(300));
            let view = observers[0].view();
            assert_eq!(view.state(lives), Some(MemberState::Joined), "it is only stopped");
            stopped.signal(Signal::CONT);
            assert_eq!(stopped.ask("lease"), "true");
            assert_eq!(stopped.ask("leave"), "Ok(())");
        }
        times.sort();
        let [median, most] = [times[times.len() / 2], times[times.len() - 1]];
        println!("{:?}: dead within {median:?} at the median, {most:?} at most", place.kind);
        assert!(most < Duration::from_secs(5) && median < Duration::from_secs(1), "{times:?}");
    }
}

#[test]
fn a_parent_ends_the_leases_of_its_child_and_no_others() {
    for place in places() {
        let mut child = Node::start(&place, EARLY);
        let node = name_of(&child.answer());
        let identity = child.identity();
        child.kill();
        // Another process with the child's number, as its start shows.
        let [pid, started, space] =
            [0, 1, 2].map(|at| identity.to_string().split(' ').nth(at).unwrap().to_owned());
        let later = started.parse::<u64>().unwrap() + 1;
        let later: ProcessIdentity = format!("{pid} {later} {space}").parse().unwrap();
        let end = |process| end_leases(&*place.another(), "bench", process, LONG);
        assert_eq!([end(&later), end(&identity), end(&identity)], [Ok(0), Ok(1), Ok(0)]);
        let observer = place.join(compute()).unwrap();
        assert_eq!(observer.view().state(node), Some(MemberState::Dead));
    }
}

#[test]
fn processes_that_are_killed_at_any_moment_leave_a_store_that_works() {
    let place = Place::file();
    for round in 0..12 {
        let mut node = Node::start(&place, LONG);
        let _ = node.answer();
        for command in 0..20 {
            node.tell(&format!("decide round-{round}-{command}"));
        }
        // About half of the kills are in the middle of a transaction.
        common::sleep(Duration::from_micros(700 * round));
        node.kill();
        let observer = place.join(compute()).unwrap();
        observer.contact("round", "any").unwrap();
        observer.leave().unwrap();
    }
}
