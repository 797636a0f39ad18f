//! [`Core`]: the kept entries of a trace, and the names of lines.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use latchwork_memnode::Geometry;
use latchwork_verbs::{GlobalAddr, MemoryNodeId};

use super::entry::TraceEntry;
use super::names::line_name;

/// The state of a trace: the last `keep` entries, the number of older entries, and the names.
pub(crate) struct Core {
    pub(super) keep: usize,
    pub(super) entries: VecDeque<TraceEntry>,
    pub(super) left_out: u64,
    pub(super) event: u64,
    pub(super) geometry: Option<Geometry>,
    pub(super) names: BTreeMap<GlobalAddr, String>,
}

impl Core {
    pub(crate) fn push(&mut self, entry: TraceEntry) {
        if self.entries.len() == self.keep {
            self.entries.pop_front();
            self.left_out += 1;
        }
        self.event = entry.event;
        self.entries.push_back(entry);
    }

    /// The name of a line. Gives the line a name if it has none. `None` if the address cannot be a
    /// line.
    pub(super) fn name(&mut self, line: GlobalAddr) -> Option<&str> {
        let geometry = self.geometry;
        if !self.names.contains_key(&line) && !geometry?.is_line(line) {
            return None;
        }
        let name = self.names.entry(line);
        Some(name.or_insert_with(|| geometry.map_or(String::new(), |g| line_name(g, line))))
    }

    /// `text` with the addresses of lines replaced by their names, and the first of these lines.
    pub(super) fn readable(&mut self, text: &str) -> (String, Option<GlobalAddr>) {
        let (mut said, mut first, mut done) = (String::with_capacity(text.len()), None, 0);
        for (range, addr) in addresses(text) {
            let Some(name) = self.name(addr) else { continue };
            said.push_str(&text[done..range.start]);
            said.push_str(name);
            done = range.end;
            first = first.or(Some(addr));
        }
        said.push_str(&text[done..]);
        (said, first)
    }
}

/// The addresses in a text, such as `M1+0x400`, in order.
fn addresses(text: &str) -> Vec<(Range<usize>, GlobalAddr)> {
    let mut found = Vec::new();
    for (plus, _) in text.match_indices("+0x") {
        let digits_before = text[..plus].bytes().rev().take_while(u8::is_ascii_digit).count();
        let start = plus - digits_before;
        let hex = text[plus + 3..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let end = plus + 3 + hex;
        let node = text[start..plus].parse::<u16>();
        let offset = u64::from_str_radix(&text[plus + 3..end], 16);
        if let (true, Ok(node), Ok(offset)) = (text[..start].ends_with('M'), node, offset)
            && offset < 1 << 48
        {
            found.push((start - 1..end, GlobalAddr::new(MemoryNodeId(node), offset)));
        }
    }
    found
}
