//! The page: all data of a tree, in the payloads of lines.
//!
//! The code here knows no memory protocol, no latch and no other page.
//!
//! ```text
//! word 0          6        6 + 2 D                                  8 bytes each
//! | header        | cover  | columns of `cap` words each ··         | rows of payload ·· |
//!
//! header word 0   tag 40 | level 8 | dead 8 | dimensions 8          (low bits first)
//!        word 1   count 16 | payload words 16 | unused 32
//!        word 2   sequence number 32 | shrinks 32
//!        word 3   changes 64
//!        word 4   right sibling
//!        word 5   records 16 | in the root: moves 48
//! cover           the low corner, then the high corner: D words each
//! columns         low and high coordinates of axis D - 1, ·· of axis 0, then
//!                 in a leaf the id, in an inner page the child and the link
//! link            expected sequence number 32 | grows 32
//! row             the payload of a leaf's entry
//! records         from the last cell of a leaf's columns on: role 8 | slot 16 | unused 40,
//!                 number of the move, other leaf, mark
//! ```
//!
//! - The *cover* contains the boxes of all entries. The parent's entry for the page contains the
//!   cover. The cover of the root is everything.
//! - The *sequence number* counts the splits of the page. A new right sibling inherits the number
//!   from before the split. The parent's link says which number the parent *expects*. A page with
//!   another number was split, and its right siblings up to the one with the expected number belong
//!   to the same entry of the parent.
//! - *Shrinks* counts how often the cover became smaller. *Grows* counts how often the parent's
//!   entry became larger. [`tree`](crate::tree) says what they are for.
//! - *Changes* counts the writes of the page. A split compares it with the count of the image from
//!   which it made the new page.
//! - *Records* say which entries of a leaf move to another leaf or have come from one. *Moves* says
//!   since when entries of the tree may do that.
//!
//! **Reads are safe on any bytes.** An optimistic reader may read a page during a change. Loops are
//! bounded by the capacity, offsets out of bounds read as zero, and nothing panics. The validation
//! of the reader then discards the result.

mod boxes;
mod image;
mod layout;
mod link;
mod order;
mod records;
mod split;
mod view;

pub(crate) use boxes::{Boxes, Relation, copied};
pub(crate) use image::Image;
pub(crate) use layout::Layout;
pub(crate) use link::Link;
pub(crate) use order::{Order, ordered};
pub(crate) use records::{Record, Role};
pub(crate) use split::{Half, plan};
pub(crate) use view::Page;

/// The highest level of a valid page. Level 0 holds the leaves.
pub(crate) const LEVEL_MAX: u8 = 63;

/// The damage of a page. It becomes [`RTreeError::Corrupt`](crate::RTreeError::Corrupt) if the read
/// of the page validates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken(pub(crate) &'static str);

impl Broken {
    /// The line has another user, or none. It may have been a page of the tree.
    pub(crate) const FOREIGN: Broken = Broken("not a page of this tree");
}
