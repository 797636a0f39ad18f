//! A path through the model as readable text.

use std::fmt::Write;

use latchwork_latch::{GrantMode, Hold, LatchMessage, LatchWord, RequestKind, Want, WordOp};
use latchwork_verbs::ComputeNodeId;

use crate::frame::Bytes;
use crate::recovery::Stride;
use crate::setting::{Setting, Step};
use crate::world::{Flight, Node, Packet, Stage, World};

/// The steps, one line each: the event, and what it changes.
pub(crate) fn tell(setting: &Setting, steps: &[Step]) -> String {
    let mut story = String::new();
    let mut world = setting.first();
    for (number, &step) in steps.iter().enumerate() {
        let Some(next) = setting.take(&world, step) else { continue };
        let mut line = happening(&world, step);
        for effect in effects(&world, &next) {
            line = line + "; " + &effect;
        }
        let _ = writeln!(story, "{:>2}. {line}", number + 1);
        world = next;
    }
    story
}

fn happening(world: &World, step: Step) -> String {
    let id = |at: u8| world.nodes[usize::from(at)].id;
    match step {
        Step::Want { at, want: Want::Shared } => format!("{:?} wants to read", id(at)),
        Step::Want { at, want: Want::Exclusive } => format!("{:?} wants to write", id(at)),
        Step::Reserve { at } => format!("{:?} is about to use its copy", id(at)),
        Step::Access { at } => format!("{:?} uses its copy", id(at)),
        Step::Write { at } => format!("{:?} writes", id(at)),
        Step::Lock { at, want } => format!("{:?} locks the line {want:?}", id(at)),
        Step::Unlock { at } => format!("{:?} unlocks the line", id(at)),
        Step::Evict { at } => format!("{:?} evicts the line", id(at)),
        Step::Persist { at } => format!("{:?} writes its changes back in place", id(at)),
        Step::Retry { at } => format!("{:?} tries again", id(at)),
        Step::Progress { at, flight } => {
            let Flight { op, stage, .. } =
                world.nodes[usize::from(at)].flights[usize::from(flight)];
            let part = match stage {
                Stage::WriteBack => "write-back lands",
                Stage::Atomic => "atomic lands",
                Stage::Report => "completion is seen",
                Stage::Inspect => "the word is looked at",
            };
            format!("{:?}'s {op:?}: {part}", id(at))
        }
        Step::Fail { at, flight } => {
            let Flight { op, stage, .. } =
                world.nodes[usize::from(at)].flights[usize::from(flight)];
            let (id, op) = (id(at), format!("{op:?}"));
            format!("the connection fails under {id:?}'s {op}, at {stage:?}")
        }
        Step::Die { at, lost: false } => format!("{:?} dies", id(at)),
        Step::Die { at, lost: true } => format!("{:?} dies with all that it has sent", id(at)),
        Step::Refuse { packet } => {
            let Packet { to, message, .. } = &world.wire[usize::from(packet)];
            format!("{} was not sent to {to:?}", content(message))
        }
        Step::Recover(stride) => match stride {
            Stride::Fence => "nothing of the dead node takes effect any more".to_owned(),
            Stride::LetGo { at } => format!("{:?} lets go, and sends its first marks", id(at)),
            Stride::Mark { at } => {
                format!("{:?} has all first marks, and sends its second", id(at))
            }
            Stride::Close { at } => {
                format!("{:?} has all marks: what is open to it is lost", id(at))
            }
            Stride::MendBit => "the dead node's bit is cleared".to_owned(),
            Stride::MendField => "the dead node's field is cleared".to_owned(),
            Stride::Look => "the dead node's bit is found, to be cleared".to_owned(),
            Stride::Forget => "the dead node is forgotten".to_owned(),
        },
        Step::Renege { at } => format!("{:?} breaks its pledge: {:?}", id(at), world.breach),
        Step::Deliver { packet } => {
            let Packet { to, message, .. } = &world.wire[usize::from(packet)];
            format!("{to:?} receives {}", content(message))
        }
    }
}

fn effects(before: &World, after: &World) -> Vec<String> {
    let mut effects = Vec::new();
    if after.word != before.word {
        effects.push(format!("word {} becomes {}", word(before.word), word(after.word)));
    }
    if after.memory != before.memory {
        effects.push(format!("memory is {}", bytes(after.memory)));
    }
    for (old, new) in before.nodes.iter().zip(&after.nodes) {
        effects.extend(effects_on(old, new));
    }
    for packet in after.wire.iter().filter(|packet| !before.wire.contains(packet)) {
        let carried = match packet.forwarded {
            Some(forwarded) if !before.wire.iter().any(|old| is_same(old, packet)) => {
                format!(", forwarding the {} bytes", bytes(forwarded))
            }
            Some(_) => continue,
            None => String::new(),
        };
        effects.push(format!("{} goes to {:?}{carried}", content(&packet.message), packet.to));
    }
    effects
}

fn is_same(a: &Packet, b: &Packet) -> bool {
    a.to == b.to && a.message == b.message
}

fn effects_on(old: &Node, new: &Node) -> Vec<String> {
    let mut effects = Vec::new();
    if new.frame.hold != old.frame.hold {
        let held = match new.frame.hold {
            Hold::Nothing => "no copy".to_owned(),
            Hold::Shared => format!("a copy to read, {}", bytes(new.frame.bytes)),
            Hold::Exclusive => format!("a copy to write, {}", bytes(new.frame.bytes)),
        };
        effects.push(format!("{:?} has {held}", new.id));
    }
    let ops = |node: &Node| -> Vec<WordOp> { node.flights.iter().map(|f| f.op).collect() };
    let mut known = ops(old);
    for op in ops(new) {
        match known.iter().position(|&k| k == op) {
            Some(at) => drop(known.remove(at)),
            None => effects.push(format!("{:?} posts {op:?}", new.id)),
        }
    }
    effects
}

fn bytes(bytes: Bytes) -> &'static str {
    match bytes {
        Bytes::Stale => "stale",
        Bytes::Unseen(_) => "older, but unseen",
        Bytes::Latest => "latest",
    }
}

fn content(message: &LatchMessage) -> String {
    match message {
        LatchMessage::Request(request) => match request.kind {
            RequestKind::Read => format!("{:?}'s question to read", request.from),
            RequestKind::Write => format!("{:?}'s question to write", request.from),
        },
        LatchMessage::Answer { asked, answer, .. } => format!("{asked:?}'s answer {answer:?}"),
        LatchMessage::Grant { mode: GrantMode::Shared, .. } => "a grant to read".to_owned(),
        LatchMessage::Grant { mode: GrantMode::Exclusive, .. } => "a grant to write".to_owned(),
        LatchMessage::Settled { .. } => "a settled notice".to_owned(),
        LatchMessage::Pledged { by, .. } => format!("{by:?}'s pledge"),
        LatchMessage::Taken { by, .. } => format!("{by:?}'s report: taken"),
        LatchMessage::GaveUp { by, .. } => format!("{by:?}'s report: gave up"),
    }
}

/// The exclusive field and the shared bits, runs of bits shortened.
fn word(word: LatchWord) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for id in word.shared().iter().map(ComputeNodeId::get) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => runs.push((id, id)),
        }
    }
    let runs: Vec<String> = runs
        .into_iter()
        .map(|(a, b)| if a == b { format!("C{a}") } else { format!("C{a}..C{b}") })
        .collect();
    let exclusive = match (word.exclusive(), word.bits() >> 58) {
        (Some(id), _) => format!("{id:?}"),
        (None, 0) => "nobody".to_owned(),
        (None, reserved) => format!("reserved {reserved}"),
    };
    format!("({exclusive} | {})", runs.join(" "))
}
