//! The memory node's process, from its start to its end.

use std::time::Duration;

use latchwork_cluster::{ClusterConfig, JoinError, MemoryHost};
use latchwork_harness::driver::check_memory_nodes;
use latchwork_harness::outcome::{many, say, say_folded};
use latchwork_harness::{AppError, FabricChoice, FabricKind, no_room_hint, stop};
use latchwork_membership::Role;
use latchwork_verbs_shm::ShmError;

use crate::args::Cli;

/// Interval between two checks of the lease, while no signal comes.
const LOOK: Duration = Duration::from_millis(100);

fn failed(error: JoinError) -> AppError {
    let is_full = matches!(error, JoinError::Shm(ShmError::NoRoom { .. }));
    AppError::Failed(format!("{error}{}", if is_full { no_room_hint() } else { String::new() }))
}

/// Serves memory until a signal comes or the lease ends. Returns whether the node ended in order.
pub(crate) fn serve(cli: &Cli) -> Result<bool, AppError> {
    let FabricChoice::Joined(join) = cli.fabric.choice()? else {
        let text = "a memory node is one of a cluster: say which, with --join file:/DIRECTORY/NAME or etcd://HOST:PORT/NAME";
        return Err(AppError::Usage(text.to_owned()));
    };
    // The size is checked here, because the user can correct it here. Otherwise the node that
    // formats the memory would fail.
    let least = 2 * ClusterConfig::default().chunk_size;
    let bytes = cli.memory_bytes();
    if bytes < least {
        let (given, least) = (many(bytes as usize, "byte"), least >> 20);
        let text = format!(
            "--memory-mb: {given} cannot be all that a memory node has; use --memory-mb {least} or more"
        );
        return Err(AppError::Usage(text));
    }
    check_memory_nodes(1, bytes, join.fabric() == FabricKind::Shm.name() || cli.prefault)?;
    let (membership, transport) =
        join.join(Role::Memory { bytes, chip_bytes: cli.chip_bytes() })?;
    let host = MemoryHost::start(&transport, membership.clone(), cli.prefault).map_err(failed)?;
    let me = membership.me();
    // An address in shared memory is a long path, which only programs need.
    let is_shared = join.fabric() == FabricKind::Shm.name();
    let at = if is_shared { String::new() } else { format!(" at {}", host.address()) };
    let (mib, fabric) = (bytes >> 20, transport.name());
    say_folded(&format!("memnode: {} serves {mib} MiB over {fabric}{at}", me.node));
    while stop::wait(LOOK).is_none() {
        if !membership.lease().is_valid() {
            let text =
                "its lease has ended, so that the cluster goes on without it; what it held is lost";
            return Err(AppError::Failed(text.to_owned()));
        }
    }
    let users = host.users();
    if users > 0 {
        say(&format!("memnode: {} waits for compute nodes to leave: {users}", me.node));
    }
    let node = me.node;
    let alone = host.leave(cli.patience()).map_err(|error| AppError::Failed(error.to_string()))?;
    if !alone {
        say(&format!("memnode: {node} left although compute nodes use it: they fail now"));
    }
    Ok(alone)
}
