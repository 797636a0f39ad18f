//! Checks the data-value invariant after every event: each copy that a node may read has the value
//! that was written last. The memory node has this value too, unless the protocol says that a node
//! has newer bytes.
//!
//! If the workload reports the value that was written last, the check compares both ends of each
//! copy with this value. So a torn line is found, too. Otherwise the check compares whole copies
//! with each other, unless a task holds a local latch and is writing.

use latchwork_verbs::{LINE_HEADER, Words};

use super::Verdict;
use super::copies::{Copies, Tracked};
use crate::WorldCheck;

pub(crate) fn check(copies: &Copies, line: &Tracked) -> Verdict {
    let readable = line.copies.iter().filter(|copy| copy.state.is_readable());
    let is_written = line.copies.iter().any(|copy| copy.state.is_latched());
    let memory = copies.truth.newest(line.addr, line.owners).is_none().then(|| copies.memory(line));
    if let Some(told) = line.notified {
        for copy in readable {
            let id = copies.node(copy.node).id();
            compare(line, told, copies.bytes(copy), || format!("{id:?} may read it and"))?;
        }
        return memory.map_or(Ok(()), |bytes| {
            compare(line, told, bytes, || "nobody may write it and its memory node".to_owned())
        });
    }
    if is_written {
        return Ok(());
    }
    let mut all = readable.map(|copy| (Some(copy), copies.bytes(copy)));
    let Some((first, bytes)) = all.next() else { return Ok(()) };
    for (other, more) in all.chain(memory.map(|bytes| (None, bytes))) {
        if let Some(at) = difference(bytes, more) {
            let name = |copy: Option<&super::copies::Copy>| match copy {
                Some(copy) => format!("{:?}", copies.node(copy.node).id()),
                None => "its memory node".to_owned(),
            };
            let (a, b) = (bytes.u64(at), more.u64(at));
            let text = format!(
                "line {}: byte {at}: {} has {a:#x}, {} has {b:#x}, and both are valid",
                line.addr,
                name(first),
                name(other),
            );
            return Err((WorldCheck::Values, text));
        }
    }
    Ok(())
}

fn difference(a: Words<'_>, b: Words<'_>) -> Option<usize> {
    (0..a.len()).step_by(8).find(|at| a.u64(*at) != b.u64(*at))
}

fn compare(line: &Tracked, told: u64, bytes: Words<'_>, who: impl Fn() -> String) -> Verdict {
    let ends = (bytes.u64(LINE_HEADER), bytes.u64(bytes.len() - 8));
    if ends == (told, told) {
        return Ok(());
    }
    let text = format!(
        "line {}: {} has {:#x} .. {:#x}; written last was {told:#x}",
        line.addr,
        who(),
        ends.0,
        ends.1
    );
    Err((WorldCheck::Values, text))
}
