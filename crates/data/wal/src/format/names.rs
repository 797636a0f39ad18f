//! What files are called.

use crate::NodeId;

/// Held by the process that works in the directory.
pub(crate) const LOCK: &str = "LOCK";
/// The checkpoint that counts.
pub(crate) const MANIFEST: &str = "CHECKPOINT";
/// How far each log is known to be durable.
pub(crate) const WITNESS: &str = "WITNESS";
/// What a file is called until it is whole.
pub(crate) const FRESH: &str = ".new";

/// A segment of a node's log.
pub(crate) fn segment(node: NodeId, number: u64) -> String {
    format!("{:02}-{number:010}.log", node.0)
}

/// A part of a checkpoint.
pub(crate) fn part(number: u64, part: u32) -> String {
    format!("checkpoint-{number:010}-{part:04}.part")
}

/// Which segment is called so.
pub(crate) fn as_segment(name: &str) -> Option<(NodeId, u64)> {
    let (node, number) = name.strip_suffix(".log")?.split_once('-')?;
    let (node, number) = (NodeId(node.parse().ok()?), number.parse().ok()?);
    (segment(node, number) == name).then_some((node, number))
}

/// Which part of which checkpoint is called so.
pub(crate) fn as_part(name: &str) -> Option<(u64, u32)> {
    let rest = name.strip_prefix("checkpoint-")?.strip_suffix(".part")?;
    let (number, index) = rest.split_once('-')?;
    let (number, index) = (number.parse().ok()?, index.parse().ok()?);
    (part(number, index) == name).then_some((number, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(segment(NodeId(3), 17), "03-0000000017.log");
        assert_eq!(as_segment("03-0000000017.log"), Some((NodeId(3), 17)));
        assert_eq!(as_segment("3-17.log"), None, "not ours");
        assert_eq!(as_segment("03-0000000017.log.new"), None);
        assert_eq!(as_part(&part(u64::MAX, 12)), Some((u64::MAX, 12)));
        assert_eq!(as_part("checkpoint--.part"), None);
    }
}
