//! Names lines in the pool's catalogue, so that workers on other threads find the lines.

use latchwork_cluster::Member;
use latchwork_memnode::ObjectKind;
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;

const LINE: ObjectKind = ObjectKind(7);

fn nth(at: u64) -> String {
    format!("line {at}")
}

/// Registers the name of a line.
pub(super) async fn publish(member: &Member, name: &str, line: GlobalAddr) -> Result<(), String> {
    let done = member.catalogue.register(member.memory.port(), name, LINE, line.bits()).await;
    done.map(drop).map_err(|error| error.to_string())
}

/// Registers the names of all lines of a workload.
pub(super) async fn publish_all(member: &Member, lines: &[GlobalAddr]) -> Result<(), String> {
    for (line, at) in lines.iter().zip(0..) {
        publish(member, &nth(at), *line).await?;
    }
    Ok(())
}

/// Waits for the line with this name, until the time `by`.
pub(super) async fn find(member: &Member, name: &str, by: Time) -> Result<GlobalAddr, String> {
    let port = member.memory.port();
    let found = member.catalogue.wait_for(port, &member.handle, name, by).await;
    found.map(|entry| GlobalAddr::from_bits(entry.value)).map_err(|error| error.to_string())
}

/// Waits for the lines 0 to `count` - 1 of a workload, until the time `by`.
pub(super) async fn find_all(
    member: &Member,
    count: u64,
    by: Time,
) -> Result<Vec<GlobalAddr>, String> {
    let mut lines = Vec::new();
    for at in 0..count {
        lines.push(find(member, &nth(at), by).await?);
    }
    Ok(lines)
}
