//! [`Places`]: where a worker puts new tuples of a table.

use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use crate::RowId;

/// The maximum number of lines with room that a worker notes for each table. These are the tail,
/// earlier tails, and lines in which the worker itself has freed room.
pub(super) const LINES_MAX: usize = 64;
const _: () = assert!(LINES_MAX > 1, "there is a line beside the tail");

/// Where a worker puts new tuples: its tail, known lines with room, and strays.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Known lines, each with the size of the largest tuple for which it has room. The last line is
    /// the tail.
    pub(super) lines: Vec<(GlobalAddr, usize)>,
    /// Lines that were allocated and are not yet pages.
    pub(super) blank: Vec<GlobalAddr>,
    /// Tuples to which nothing leads.
    pub(super) strays: Vec<Stray>,
}

/// A tuple to which nothing leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stray {
    pub(super) id: RowId,
    /// The home line of a row whose stub has led to the tuple. The line is persisted before the
    /// tuple goes.
    pub(super) led_here: Option<GlobalAddr>,
}

impl Places {
    /// A line with room for a tuple of `size` bytes that is not in `but`. The tail comes first,
    /// then the other lines, the latest first.
    pub(super) fn line_for(&self, size: usize, but: &[GlobalAddr]) -> Option<GlobalAddr> {
        let fits = |(line, room): &&(GlobalAddr, usize)| *room >= size && !but.contains(line);
        self.lines.iter().rev().find(fits).map(|(line, _)| *line)
    }

    /// Notes the room of a line. A new line with less room than `least` is not noted.
    pub(super) fn note(&mut self, line: GlobalAddr, room: usize, least: usize) {
        strict_assert!(!line.is_null(), "the null address has room");
        match self.lines.iter_mut().rev().find(|(known, _)| *known == line) {
            Some((_, known)) => *known = room,
            None if room < least => {}
            None => {
                if self.lines.len() >= LINES_MAX {
                    let least = self.lines.iter().enumerate().min_by_key(|(_, (_, room))| *room);
                    if let Some((at, _)) = least {
                        self.lines.remove(at);
                    }
                }
                // The tail stays last, because `line_for` begins at the end.
                let at = self.lines.len().saturating_sub(1);
                self.lines.insert(at, (line, room));
            }
        }
    }
}
