//! The names of the files.

use crate::NodeId;

/// The file that a process locks while it has the directory open.
pub(crate) const LOCK: &str = "LOCK";
/// The manifest of the checkpoint in place.
pub(crate) const MANIFEST: &str = "CHECKPOINT";
/// The witness: how far each log is known to be durable.
pub(crate) const WITNESS: &str = "WITNESS";
/// The suffix of a file that is not whole yet.
pub(crate) const FRESH: &str = ".new";

/// The name of a segment.
pub(crate) fn segment(node: NodeId, number: u64) -> String {
    format!("{:02}-{number:010}.log", node.0)
}

/// The name of a checkpoint part.
pub(crate) fn part(number: u64, part: u32) -> String {
    format!("checkpoint-{number:010}-{part:04}.part")
}

/// The segment with this name. A log begins with segment 1, so a file with the number 0 is not a
/// segment.
pub(crate) fn as_segment(name: &str) -> Option<(NodeId, u64)> {
    let (node, number) = name.strip_suffix(".log")?.split_once('-')?;
    let (node, number) = (NodeId(node.parse().ok()?), number.parse().ok()?);
    (number > 0 && segment(node, number) == name).then_some((node, number))
}

/// The checkpoint and the part with this name.
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
        assert_eq!(as_segment(&segment(NodeId(3), 0)), None, "a log begins with segment 1");
        assert_eq!(as_segment("03-0000000017.log.new"), None);
        assert_eq!(as_part(&part(u64::MAX, 12)), Some((u64::MAX, 12)));
        assert_eq!(as_part("checkpoint--.part"), None);
    }
}
