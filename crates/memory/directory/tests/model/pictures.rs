//! The pictures of docs/internals/directories.md are runs of the model: each arrow is a message
//! that arrived. The texts of the pictures are compared with the runs.

use std::fmt::Write as _;

use latchwork_directory::{
    Directive, Hold, Kind, Message, NodeSet, Party, Reply, Rules, Source, Want,
};
use latchwork_verbs::ComputeNodeId;

use crate::script::Run;
use crate::setting::{Client, Step};
use crate::world::{World, id};

/// A run of which the picture shows the steps behind the first `from`.
struct Shown<'a> {
    part: &'a str,
    run: &'a Run,
    from: usize,
}

/// `lanes` is the head of the picture, as scripts/draw.sh reads it.
fn assert_drawn(lanes: &str, shown: &[Shown<'_>], name: &str, picture: &str) {
    let head = "# Drawn by crates/memory/directory/tests/model/pictures.rs.";
    let mut text = format!("{head}\n{lanes}");
    for Shown { part, run, from } in shown {
        if !part.is_empty() {
            writeln!(text, "part {part}").expect("a string");
        }
        let past = &run.past[*from..];
        let afters = past[1..].iter().map(|(world, _)| world).chain([&run.world]);
        entry(&mut text, &past[0].0);
        for (at, node) in past[0].0.nodes.iter().enumerate() {
            if node.frame.hold != Hold::Nothing {
                copy(&mut text, at, node.frame.hold);
            }
        }
        for ((before, step), after) in past.iter().zip(afters) {
            draw(&mut text, before, *step, after);
        }
    }
    assert!(text == picture, "docs/pictures/{name}.txt shows another run than this:\n{text}");
}

fn draw(text: &mut String, before: &World, step: Step, after: &World) {
    if let Step::Deliver(at) = step {
        let packet = &before.wire[at];
        let (from, to) = (lane(packet.from), lane(packet.to));
        if packet.content.is_some() {
            let what = if packet.to == Party::Home { "changes" } else { "line" };
            writeln!(text, "verb {from} {to} WRITE the {what}").expect("a string");
        }
        writeln!(text, "message {from} {to} {}", words(&packet.message)).expect("a string");
    } else {
        let (place, what) = match step {
            Step::Want(at, Want::Shared) => (at, "wants to read"),
            Step::Want(at, Want::Exclusive) => (at, "wants to write"),
            Step::Use(at) => (at, "uses the line"),
            Step::Retry(at) => (at, "the back-off is over"),
            Step::Die(at) => (at, "dies"),
            Step::Learn(place) => (place, "learns of the death"),
            other => panic!("no picture has {other:?}"),
        };
        let here = before.nodes.get(place).map_or(Party::Home, |_| Party::Node(id(place)));
        writeln!(text, "note {} {what}", lane(here)).expect("a string");
    }
    let named = |world: &World| (world.home.exclusive(), world.home.shared(), world.home.source());
    if named(before) != named(after) {
        entry(text, after);
    }
    for (at, (old, new)) in before.nodes.iter().zip(&after.nodes).enumerate() {
        if old.frame.hold != new.frame.hold && after.dead != Some(at) {
            copy(text, at, new.frame.hold);
        }
    }
}

fn entry(text: &mut String, world: &World) {
    let home = &world.home;
    let holders = match home.exclusive() {
        Some(holder) => format!("exclusive: {}", node(holder)),
        None if home.shared().is_empty() => "no holder".to_owned(),
        None => format!("shared: {}", nodes(home.shared())),
    };
    let source = home.source().filter(|_| home.exclusive().is_none());
    let source = source.map_or(String::new(), |source| format!("|source: {}", node(source)));
    writeln!(text, "word home {holders}{source}").expect("a string");
}

fn copy(text: &mut String, at: usize, hold: Hold) {
    let copy = match hold {
        Hold::Nothing => "no copy",
        Hold::Shared => "shared copy",
        Hold::Exclusive => "exclusive copy",
    };
    writeln!(text, "word {} {copy}", lane(Party::Node(id(at)))).expect("a string");
}

fn lane(party: Party) -> String {
    match party {
        Party::Home => "home".to_owned(),
        Party::Node(id) => format!("c{}", id.get()),
    }
}

fn node(id: ComputeNodeId) -> String {
    format!("C{}", id.get())
}

fn nodes(set: NodeSet) -> String {
    set.iter().map(node).collect::<Vec<_>>().join(", ")
}

fn mode(want: Want) -> &'static str {
    match want {
        Want::Shared => "shared",
        Want::Exclusive => "exclusive",
    }
}

fn words(message: &Message) -> String {
    match message {
        Message::Request(request) => format!("Request({})", mode(request.mode)),
        Message::Reply(Reply { era, source, holder, .. }) => match (source, holder) {
            (Source::Holder, Some((holder, ..))) => {
                format!("Reply(era {}, the line is at {})", era.0, node(*holder))
            }
            _ => format!("Reply(era {})", era.0),
        },
        Message::Directive(Directive { kind, era, copies, to, .. }) => {
            let (era, to) = (era.0, node(*to));
            match kind {
                Kind::Copy => format!("Copy(era {era}, to {to})"),
                Kind::Move => format!("Move(era {era}, to {to}, after {copies} copies)"),
                Kind::Invalidate => format!("Invalidate(era {era}, for {to})"),
            }
        }
        Message::Line { mode: hold, era } => format!("Line({}, era {})", mode(*hold), era.0),
        Message::Done { era, .. } => format!("Done(era {})", era.0),
        Message::Retry => "Retry".to_owned(),
        Message::Stuck { dead } => format!("Stuck({} is dead)", node(*dead)),
        Message::Settle { era, dead, .. } => {
            format!("Settle(era {}, {} is dead)", era.0, nodes(*dead))
        }
        Message::Settled { era } => format!("Settled(era {})", era.0),
        Message::Rebase { era, .. } => format!("Rebase(era {})", era.0),
        Message::Rebased { era, hold, .. } => {
            format!("Rebased(era {}, {})", era.0, format!("{hold:?}").to_lowercase())
        }
        other => panic!("no picture has {other:?}"),
    }
}

/// The line is at node 0 alone, which has written it.
fn written(rules: Rules, clients: &[Client]) -> Run {
    let mut run = Run::of(rules, clients);
    run.write(0);
    run.settle();
    run
}

#[test]
fn a_read_of_a_line_that_another_node_has_written() {
    let run = |rules| {
        let mut run = written(rules, &[Client::both(); 2]);
        let from = run.past.len();
        run.read(1);
        run.settle();
        (run, from)
    };
    let ((scalestore, from), (gam, later)) = (run(Rules::SCALESTORE), run(Rules::GAM));
    let shown = [
        Shown { part: "ScaleStore", run: &scalestore, from },
        Shown { part: "GAM", run: &gam, from: later },
    ];
    let picture = include_str!("../../../../../docs/pictures/directory-read.txt");
    let lanes = "title C2 reads a line that C1 has written
spacing 265
means verb the bytes, in the batch of the message below
lane c2 C2|wants to read
lane home Home|agent of the memory node
lane c1 C1|exclusive holder
";
    assert_drawn(lanes, &shown, "directory-read", picture);
}

/// Node 0 has the line, and nodes 1 and 2 want to write it, one behind the other.
fn chain(clients: &[Client; 3]) -> (Run, usize) {
    let mut run = written(Rules::SCALESTORE, clients);
    let from = run.past.len();
    for node in [1, 2] {
        run.write(node);
        run.at_home(node);
    }
    run.home_answers(2);
    run.directive(1, Kind::Move);
    (run, from)
}

#[test]
fn a_chain_of_writers() {
    let (mut run, from) = chain(&[Client::both(); 3]);
    run.settle();
    let picture = include_str!("../../../../../docs/pictures/directory-chain.txt");
    let lanes = "title ScaleStore: C2 and C3 write a line that C1 has written
spacing 250
means verb the bytes, in the batch of the message below
lane home Home|agent of the memory node
lane c1 C1|exclusive holder
lane c2 C2|wants to write
lane c3 C3|wants to write
";
    assert_drawn(lanes, &[Shown { part: "", run: &run, from }], "directory-chain", picture);
}

#[test]
fn a_node_in_a_chain_dies() {
    let both = Client::both();
    let (mut run, from) = chain(&[both, both.mortal(), both]);
    run.step(Step::Die(1));
    run.step(Step::Learn(2));
    run.at_home(2);
    for place in [3, 0] {
        run.step(Step::Learn(place));
    }
    run.settle();
    let picture = include_str!("../../../../../docs/pictures/directory-death.txt");
    let lanes = "title ScaleStore: C2 dies between C1 and C3
spacing 250
means verb the bytes, in the batch of the message below
lane home Home|agent of the memory node
lane c1 C1|exclusive holder
lane c2 C2|dies
lane c3 C3|wants to write
";
    assert_drawn(lanes, &[Shown { part: "", run: &run, from }], "directory-death", picture);
}
