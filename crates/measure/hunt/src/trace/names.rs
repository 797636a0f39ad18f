//! Describes lines and batches as text.

use latchwork_cluster::{describe, describe_atomic};
use latchwork_memnode::Geometry;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Target, WorkRequest};

/// The line that has its latch word at the address `latch`. `None` if no latch word is there.
pub(crate) fn line_of_latch(geometry: Geometry, latch: GlobalAddr) -> Option<GlobalAddr> {
    geometry.chunk_index(latch)?;
    let chunk = geometry.chunk_of(latch);
    let within = latch.offset() - chunk.offset();
    (within < geometry.latch_table_bytes()).then(|| geometry.line_addr(chunk, (within / 8) as u32))
}

/// The line that contains the address `addr`. `None` if no line does.
fn line_around(geometry: Geometry, addr: GlobalAddr) -> Option<GlobalAddr> {
    let start = GlobalAddr::from_bits(addr.bits() & !(u64::from(geometry.line_size()) - 1));
    geometry.is_line(start).then_some(start)
}

/// The name of a line: `line INDEX` in the first chunk of memory node 0, else with node and chunk.
pub(crate) fn line_name(geometry: Geometry, line: GlobalAddr) -> String {
    let (node, chunk) = (line.node().0, geometry.chunk_index(line).unwrap_or(0));
    match (node, chunk, geometry.line_index(line)) {
        (0, 0, k) => format!("line {k}"),
        (_, 0, k) => format!("line M{node}.{k}"),
        (_, _, k) => format!("line M{node}.{chunk}.{k}"),
    }
}

/// The line of a batch, if it has one, and its work requests as text.
pub(crate) fn batch(
    geometry: Geometry,
    from: ComputeNodeId,
    target: Target,
    requests: &[WorkRequest],
) -> (Option<GlobalAddr>, String) {
    let mut line = None;
    let mut parts = Vec::new();
    for request in requests {
        let (about, text) = match target {
            Target::Memory(node) => {
                let at = |remote| GlobalAddr::new(node, remote);
                match request.remote() {
                    Some((remote, _)) => on_memory(geometry, from, at(remote), request),
                    None => (None, "SEND to memory".to_owned()),
                }
            }
            Target::Compute(..) => to_compute(geometry, request),
        };
        line = line.or(about);
        parts.push(text);
    }
    (line, parts.join(" + "))
}

fn to_compute(geometry: Geometry, request: &WorkRequest) -> (Option<GlobalAddr>, String) {
    match request {
        WorkRequest::Send(message) => describe(message),
        WorkRequest::Write { local, .. } if local.len == geometry.line_size() => {
            (None, "WRITE line".to_owned())
        }
        WorkRequest::Write { local, .. } => {
            (None, format!("WRITE {} bytes into its frame", local.len))
        }
        WorkRequest::Read { local, .. } => (None, format!("READ {} bytes of its frame", local.len)),
        other => (None, format!("{:?} on its memory", other.kind())),
    }
}

fn on_memory(
    geometry: Geometry,
    from: ComputeNodeId,
    addr: GlobalAddr,
    request: &WorkRequest,
) -> (Option<GlobalAddr>, String) {
    let latch = line_of_latch(geometry, addr);
    let line = latch.or_else(|| line_around(geometry, addr));
    let place = if line.is_some() { String::new() } else { format!(" {addr}") };
    let within = line.map_or(0, |line| addr.offset().saturating_sub(line.offset()));
    let request = request.unconditional();
    if let Some(operation) = latch.and_then(|_| describe_atomic(from, &request)) {
        return (line, operation);
    }
    let text = match request {
        WorkRequest::FetchAdd { add, .. } => format!("FAA{place} +{add:#x}"),
        WorkRequest::CompareSwap { expected, desired, .. } => {
            format!("CAS{place} {expected:#x} -> {desired:#x}")
        }
        WorkRequest::WriteWord { value, .. } => format!("WRITE{place} word := {value:#x}"),
        WorkRequest::Read { local, .. } if latch.is_some() => {
            format!("READ {} bytes of latch words", local.len)
        }
        WorkRequest::Read { local, .. } if local.len == geometry.line_size() => {
            format!("READ{place}")
        }
        WorkRequest::Read { local, .. } => {
            format!("READ{place} {within}..{}", within + u64::from(local.len))
        }
        WorkRequest::Write { local, .. } => {
            format!("WRITE{place} {within}..{}", within + u64::from(local.len))
        }
        WorkRequest::Send(_) => "SEND to memory".to_owned(),
        WorkRequest::ReadIf { .. } => unreachable!("it has no condition any more"),
    };
    (line, text)
}

#[cfg(test)]
mod tests {
    use latchwork_verbs::{LocalBuffer, MemoryNodeId, RegionKey};

    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(64 << 10, 512).expect("good sizes")
    }

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).expect("a valid id")
    }

    fn local(len: u32) -> LocalBuffer {
        LocalBuffer { region: RegionKey(0), offset: 0, len }
    }

    #[test]
    fn a_batch_on_a_line_names_the_line_and_the_operation() {
        let geometry = geometry();
        let line = geometry.line_addr(geometry.chunk_addr(MemoryNodeId(0), 0), 5);
        let latch = geometry.latch_addr(line);
        assert_eq!(line_of_latch(geometry, latch), Some(line));
        let target = Target::Memory(MemoryNodeId(0));
        let read = WorkRequest::Read { remote: line.offset(), local: local(512) };
        let write = WorkRequest::Write { remote: line.offset() + 32, local: local(16) };
        let add = |add| WorkRequest::FetchAdd { remote: latch.offset(), add };
        for (requests, words) in [
            (vec![add(1), read], "AcquireShared + READ"),
            (vec![write, add(1)], "WRITE 32..48 + AcquireShared"),
            (vec![add(0xf8 << 56)], "FAA +0xf800000000000000"),
        ] {
            let batch = batch(geometry, node(1), target, &requests);
            assert_eq!(batch, (Some(line), words.to_owned()));
        }
        assert_eq!(line_name(geometry, line), "line 5");
        let other = geometry.line_addr(geometry.chunk_addr(MemoryNodeId(2), 3), 5);
        assert_eq!(line_name(geometry, other), "line M2.3.5");
    }

    #[test]
    fn what_is_about_no_line_names_its_address() {
        let requests = [WorkRequest::WriteWord { remote: 64, value: 7 }];
        let (line, text) = batch(geometry(), node(1), Target::Memory(MemoryNodeId(1)), &requests);
        assert_eq!((line, text.as_str()), (None, "WRITE M1+0x40 word := 0x7"));
    }
}
