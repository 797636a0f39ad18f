//! Prints a trace as a log with one line per entry.

use std::fmt::Write as _;

use latchwork_verbs::GlobalAddr;

use super::{Trace, TraceEntry, TraceKind, micros};

impl Trace {
    /// The last `last` entries of the trace as text, one line for each entry. With `line`, only
    /// entries about this line of the pool and about the whole world.
    ///
    /// ```text
    ///      time us    event  who        line     what
    ///       12.345     4711  C1 -> M0   line 3   post  #41 AcquireShared + READ
    ///       13.001     4720  C1 -> M0   line 3   word  #41 AcquireShared: X=C2 -> X=C2 S={C1}
    ///       13.900     4733  C1 <- M0   line 3   done  #41 AcquireShared + READ: was X=C2
    /// ```
    pub fn log(&self, line: Option<GlobalAddr>, last: usize) -> String {
        let entries = self.entries();
        let about = |entry: &&TraceEntry| {
            line.is_none() || entry.line == line || matches!(entry.what, TraceKind::World)
        };
        let chosen: Vec<&TraceEntry> = entries.iter().filter(about).collect();
        let first = chosen.len().saturating_sub(last);
        let mut text = String::new();
        let before = self.left_out() + first as u64;
        if before > 0 {
            let _ = writeln!(text, "... {before} entries before these are left out");
        }
        let (time, event, who, place) = ("time us", "event", "who", "line");
        let _ = writeln!(text, "{time:>14} {event:>9}  {who:<9}  {place:<10} what");
        for entry in &chosen[first..] {
            let _ = writeln!(text, "{}", self.line_of(entry));
        }
        text
    }

    fn line_of(&self, entry: &TraceEntry) -> String {
        let (who, what) = match entry.what {
            TraceKind::Posted { batch, from, to } => {
                (format!("{from} -> {to}"), format!("post  #{batch} {}", entry.text))
            }
            TraceKind::Struck { batch, from, to } => {
                (format!("{from} -> {to}"), format!("word  #{batch} {}", entry.text))
            }
            TraceKind::Delivered { batch: 0, from, to } => {
                (format!("{from} -> {to}"), format!("inbox {}", entry.text))
            }
            TraceKind::Delivered { batch, from, to } => {
                (format!("{from} -> {to}"), format!("inbox #{batch} {}", entry.text))
            }
            TraceKind::Completed { batch, from, to, .. } => {
                (format!("{from} <- {to}"), format!("done  #{batch} {}", entry.text))
            }
            TraceKind::Fault { batch, from, to, .. } => {
                (format!("{from} -> {to}"), format!("fault #{batch} {}", entry.text))
            }
            TraceKind::Local { who, worker: Some(worker) } => {
                (format!("{who}.{worker}"), entry.text.clone())
            }
            TraceKind::Local { who, worker: None } => (who.to_string(), entry.text.clone()),
            TraceKind::World => ("*".to_owned(), entry.text.clone()),
        };
        let name = entry.line.map(|line| self.name_of(line)).unwrap_or_default();
        let gap = if entry.result.is_empty() { "" } else { ": " };
        let (at, event) = (micros(entry.at), entry.event);
        format!("{at:>14} {event:>9}  {who:<9}  {name:<10} {what}{gap}{}", entry.result)
    }
}

#[cfg(test)]
mod tests {
    use latchwork_simulation::Time;
    use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

    use super::*;
    use crate::trace::TraceParty;

    #[test]
    fn a_log_has_one_line_per_entry_and_can_be_of_one_line() {
        let trace = Trace::new();
        let line = GlobalAddr::new(MemoryNodeId(0), 0x400);
        trace.name(line, "line 3".to_owned());
        let from = TraceParty::Compute(ComputeNodeId::new(1).expect("a valid id"));
        let to = TraceParty::Memory(MemoryNodeId(0));
        trace.core.borrow_mut().push(TraceEntry {
            at: Time::from_nanos(12_345),
            event: 4711,
            what: TraceKind::Struck { batch: 41, from, to },
            line: Some(line),
            text: "AcquireShared + READ".to_owned(),
            result: "X=C2 -> X=C2 S={C1}".to_owned(),
        });
        trace.note(Time::from_nanos(12_500), 1, 0, "reads line 7".to_owned());
        let all = trace.log(None, 10);
        assert_eq!(
            all.lines().nth(1),
            Some(
                "        12.345      4711  C1 -> M0   line 3     word  #41 AcquireShared + READ: \
                 X=C2 -> X=C2 S={C1}"
            )
        );
        assert_eq!(
            all.lines().nth(2),
            Some("        12.500      4711  C2.0                  reads line 7")
        );
        assert_eq!(trace.log(Some(line), 10).lines().count(), 2, "a head and one entry");
        let last = trace.log(None, 1);
        assert!(last.starts_with("... 1 entries before these are left out\n"), "{last}");
    }
}
