//! [`Diagram`]: draws the last events of a trace as a sequence diagram.
//!
//! A trace has several entries for each batch. A diagram has one arrow for the effect of a batch,
//! at the time of the effect, because the order of the effects matters. If other rows stand between
//! the post and the effect, the arrow also gives the time of the post. A completion has an arrow
//! back in three cases: it failed, it has the old value of a latch word, or the effect is not in
//! the trace.

mod ladder;
mod mermaid;

use std::collections::{BTreeMap, BTreeSet};

use latchwork_simulation::Time;
use latchwork_verbs::GlobalAddr;

use crate::trace::{Trace, TraceEntry, TraceKind, TraceParty, micros};

/// A sequence of steps between nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagram {
    title: String,
    parties: Vec<TraceParty>,
    steps: Vec<Step>,
}

/// One row of a diagram.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Step {
    at: Time,
    what: Drawn,
    text: String,
    /// The text at the end of the arrow.
    aside: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Drawn {
    Arrow {
        from: TraceParty,
        to: TraceParty,
        style: Style,
    },
    /// A note at a node, or across all nodes.
    Note(Option<TraceParty>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    /// The batch took effect.
    There,
    /// The answer.
    Back,
    /// The batch is still in flight at the end of the trace.
    UnderWay,
    /// The batch was lost.
    Lost,
}

impl Diagram {
    /// The last `steps` steps of a trace. With `line`, only steps about this line and about the
    /// whole world.
    pub fn of(trace: &Trace, line: Option<GlobalAddr>, steps: usize) -> Diagram {
        let entries = trace.entries();
        let about = |entry: &&TraceEntry| {
            line.is_none() || entry.line == line || matches!(entry.what, TraceKind::World)
        };
        let chosen: Vec<&TraceEntry> = entries.iter().filter(about).collect();
        let name = |line: GlobalAddr| trace.name_of(line);
        let mut drawn = draw(&chosen, &|entry| match (line, entry.line) {
            (None, Some(line)) => format!("{}: ", name(line)),
            _ => String::new(),
        });
        drawn.drain(..drawn.len().saturating_sub(steps));
        let parties: BTreeSet<TraceParty> = drawn.iter().flat_map(|step| step.parties()).collect();
        let title = line.map_or("all lines".to_owned(), |line| format!("{} ({line})", name(line)));
        Diagram { title, parties: parties.into_iter().collect(), steps: drawn }
    }

    /// Whether the diagram has no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl Step {
    fn parties(&self) -> impl Iterator<Item = TraceParty> {
        let (first, second) = match self.what {
            Drawn::Arrow { from, to, .. } => (Some(from), Some(to)),
            Drawn::Note(who) => (who, None),
        };
        first.into_iter().chain(second)
    }
}

/// The fate of a batch, collected from all its entries.
#[derive(Default)]
struct Fate {
    posted: Option<(usize, Time)>,
    shown: u32,
    ended: bool,
}

fn draw(entries: &[&TraceEntry], about: &dyn Fn(&TraceEntry) -> String) -> Vec<Step> {
    let mut fates: BTreeMap<u64, Fate> = BTreeMap::new();
    for entry in entries {
        match entry.what {
            TraceKind::Struck { batch, .. } | TraceKind::Delivered { batch, .. } => {
                fates.entry(batch).or_default().shown += 1;
            }
            TraceKind::Completed { batch, .. } => fates.entry(batch).or_default().ended = true,
            _ => {}
        }
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
    for entry in entries {
        let text = format!("{}{}", about(entry), entry.text);
        let mut step = |what, text: String, aside: String| {
            steps.push(Step { at: entry.at, what, text, aside });
        };
        match entry.what {
            TraceKind::Posted { batch, from, to } => {
                let fate = fates.entry(batch).or_default();
                if fate.shown == 0 && !fate.ended {
                    let style = Style::UnderWay;
                    step(Drawn::Arrow { from, to, style }, text, "not there yet".to_owned());
                } else {
                    fate.posted = Some((steps.len(), entry.at));
                }
            }
            TraceKind::Struck { batch, from, to } | TraceKind::Delivered { batch, from, to } => {
                *seen.entry(batch).or_default() += 1;
                let mut aside = entry.result.clone();
                let posted = fates.get(&batch).and_then(|fate| fate.posted);
                if let Some((_, at)) = posted.filter(|(row, _)| *row < steps.len()) {
                    let gap = if aside.is_empty() { "" } else { ", " };
                    aside = format!("{aside}{gap}posted {}", micros(at));
                }
                let style = Style::There;
                steps.push(Step {
                    at: entry.at,
                    what: Drawn::Arrow { from, to, style },
                    text,
                    aside,
                });
            }
            TraceKind::Completed { from, to, ok, batch } => {
                let atomic = entry.result.starts_with("was");
                let unseen = !seen.contains_key(&batch);
                if !ok || atomic || unseen {
                    let text = match (ok, atomic) {
                        (true, true) => entry.result.clone(),
                        _ => format!("{text}: {}", entry.result),
                    };
                    step(
                        Drawn::Arrow { from: to, to: from, style: Style::Back },
                        text,
                        String::new(),
                    );
                }
            }
            TraceKind::Fault { batch, from, to, lost } => {
                *seen.entry(batch).or_default() += u32::from(lost);
                let what = match lost {
                    true => Drawn::Arrow { from, to, style: Style::Lost },
                    false => Drawn::Note(Some(from)),
                };
                let text = if lost { text } else { format!("{text}: {}", entry.result) };
                step(what, text, String::new());
            }
            TraceKind::Local { who, worker } => {
                let by = worker.map_or(String::new(), |worker| format!("worker {worker} "));
                step(Drawn::Note(Some(who)), format!("{by}{}", entry.text), entry.result.clone());
            }
            TraceKind::World => step(Drawn::Note(None), text, entry.result.clone()),
        }
    }
    steps
}

#[cfg(test)]
pub(crate) mod tests;
