//! [`Transport`]: the connection between the processes of a cluster. [`Link`]: the end of that
//! connection in one process.

mod ibverbs;
mod limits;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use latchwork_fabric::Threaded;
use latchwork_membership::{Membership, NodeName, View};
use latchwork_verbs::{ComputeNodeId, Extent, MemoryNodeId};
use latchwork_verbs_ibv as ibv;
use latchwork_verbs_shm as shm;
use latchwork_verbs_tcp as tcp;

use crate::{JoinError, Protocol};
use limits::{CONNECT, GREETING, REMOVAL};

/// The fact that names the machine and the directory of a cluster on shared memory.
const PLACE: &str = "shm.place";

/// All possible values of [`Link::key`].
const KEYS: [&str; 3] = ["shm", "tcp", "ibverbs"];

/// The default directory of the files that processes share. All clusters without a directory of
/// their own use it. A process that starts in the directory removes the files that killed processes
/// of any cluster left there.
pub const SHARED_DIRECTORY: &str = "/dev/shm/latchwork";

/// The connection between the processes of a cluster. All processes use the same kind of transport.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Memory of one machine, shared by its processes.
    Shm {
        /// The directory of the files, on a file system in memory; `/dev/shm/latchwork` if `None`.
        /// The first node of the cluster decides for all nodes.
        directory: Option<PathBuf>,
        /// Whether the memory uses huge pages.
        huge_pages: shm::HugePages,
    },
    /// Sockets.
    Tcp {
        /// The settings of this process. The transport sets the member epoch from the membership.
        config: Box<tcp::TcpConfig>,
        /// The listening address of this process's node. With port 0 the operating system chooses a
        /// port.
        listen: SocketAddr,
        /// The address for other nodes, if it differs from the listening address.
        advertise: Option<IpAddr>,
    },
    /// RDMA devices.
    Ibverbs {
        /// The devices, of which this process's node uses one. The transport sets the member epoch
        /// from the membership.
        config: Box<ibv::IbvConfig>,
    },
}

/// Shared memory in the default directory, without huge pages.
impl Default for Transport {
    fn default() -> Self {
        Transport::Shm { directory: None, huge_pages: shm::HugePages::default() }
    }
}

impl Transport {
    /// The name of the transport, on command lines and in contacts.
    pub fn name(&self) -> &'static str {
        match self {
            Transport::Shm { .. } => "shm",
            Transport::Tcp { .. } => "tcp",
            Transport::Ibverbs { .. } => "ibverbs",
        }
    }

    /// Opens the transport for the node of `membership`.
    pub(crate) fn open(&self, membership: &Membership) -> Result<Link, JoinError> {
        match self {
            Transport::Shm { directory, huge_pages } => {
                let (directory, fabric) = place(membership, directory.clone(), huge_pages)?;
                Ok(Link::Shm { fabric, _directory: Arc::new(Emptied(directory)) })
            }
            Transport::Tcp { config, listen, advertise } => {
                if listen.ip().is_unspecified() && advertise.is_none() {
                    return Err(JoinError::NoAddress { listen: *listen });
                }
                let mut config = tcp::TcpConfig::clone(config);
                config.epoch = membership.me().epoch;
                config.connect_time = config.connect_time.max(CONNECT);
                config.limits.greeting_time = config.limits.greeting_time.max(GREETING);
                let fabric = tcp::TcpFabric::new(config)?;
                Ok(Link::Tcp { fabric, listen: *listen, advertise: *advertise })
            }
            Transport::Ibverbs { config } => {
                Ok(Link::Ibverbs { fabric: ibverbs::open(config, membership)? })
            }
        }
    }
}

/// The shared-memory directory of a cluster, and the fabric in it. The first node decides the
/// directory for all nodes. It opens the directory before it decides, because a fact that names an
/// unusable directory would stay for all later nodes.
fn place(
    membership: &Membership,
    wanted: Option<PathBuf>,
    huge_pages: &shm::HugePages,
) -> Result<(PathBuf, shm::ShmFabric), JoinError> {
    let fabric = |path: &Path| {
        let shm::Cleaned { files, bytes, .. } = shm::ShmFabric::clean(path)?;
        if files > 0 {
            let directory = path.display();
            tracing::warn!(files, bytes, %directory, "removed what processes that were killed had left");
        }
        let place = shm::Place { path: path.to_owned(), huge_pages: huge_pages.clone() };
        shm::ShmFabric::in_directory(place, shm::ShmConfig::default())
    };
    let wanted = wanted.unwrap_or_else(|| PathBuf::from(SHARED_DIRECTORY));
    // The other processes may have been started elsewhere.
    let wanted = std::path::absolute(&wanted).unwrap_or(wanted);
    let first = match membership.fact(PLACE)? {
        None => Some(fabric(&wanted)?),
        Some(_) => None,
    };
    let mine = format!("{}\n{}\n{}", machine(), mount(&wanted), wanted.display());
    let decided = membership.decide(PLACE, mine.as_bytes())?;
    let decided = String::from_utf8_lossy(&decided);
    let mut parts = decided.splitn(3, '\n');
    let (there, mounted, directory) = (parts.next(), parts.next(), parts.next());
    let (Some(there), Some(mounted), Some(directory)) = (there, mounted, directory) else {
        return Err(JoinError::OtherMachine);
    };
    if there != machine() {
        return Err(JoinError::OtherMachine);
    }
    let directory = PathBuf::from(directory);
    let fabric = match first {
        Some(fabric) if directory == wanted => fabric,
        _ => {
            // Checked before the directory is made and cleaned.
            let here = directory.ancestors().find(|at| at.exists()).map(mount);
            if here.is_some_and(|here| here != mounted) {
                return Err(JoinError::OtherMemory { directory });
            }
            fabric(&directory)?
        }
    };
    Ok((directory, fabric))
}

/// The file system of a path, which processes of one machine call alike. Two containers have file
/// systems of their own at one path.
fn mount(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map_or_else(|_| "none".to_owned(), |at| at.dev().to_string())
}

/// The kernel's boot id of this machine. It is empty where the system offers none.
pub(crate) fn machine() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// One process's end of a transport; clones are the same end.
#[derive(Clone)]
pub(crate) enum Link {
    Shm {
        fabric: shm::ShmFabric,
        // Dropped after the fabric, because the fabric has files in the directory.
        _directory: Arc<Emptied>,
    },
    Tcp {
        fabric: tcp::TcpFabric,
        listen: SocketAddr,
        advertise: Option<IpAddr>,
    },
    Ibverbs {
        fabric: ibv::IbvFabric,
    },
}

/// A directory that is removed by the last process that has files in it.
pub(crate) struct Emptied(PathBuf);

impl Drop for Emptied {
    fn drop(&mut self) {
        // The call fails while the directory has files of another process. That process removes it
        // later.
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Link {
    /// The key for the addresses of nodes in their contacts.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Link::Shm { .. } => "shm",
            Link::Tcp { .. } => "tcp",
            Link::Ibverbs { .. } => "ibverbs",
        }
    }

    /// An error that names a member on another fabric, if there is one.
    pub(crate) fn stranger(&self, view: &View) -> Option<JoinError> {
        let ours = self.key();
        view.joined().find_map(|member| {
            let is_there = |key: &str| member.contact.contains_key(key);
            // A member without an address in its contact may use any fabric.
            let theirs = KEYS.into_iter().find(|key| is_there(key) && !is_there(ours))?;
            Some(JoinError::OtherFabric { node: member.node, theirs: theirs.to_owned(), ours })
        })
    }

    pub(crate) fn threaded(&self) -> Threaded {
        match self {
            Link::Shm { fabric, .. } => Threaded::Shm(fabric.clone()),
            Link::Tcp { fabric, .. } => Threaded::Tcp(fabric.clone()),
            Link::Ibverbs { fabric } => Threaded::Ibv(fabric.clone()),
        }
    }

    /// Adds this process's memory node, with zero bytes of these lengths.
    pub(crate) fn add_memory(&self, id: MemoryNodeId, extent: Extent) -> Result<(), JoinError> {
        match self {
            Link::Shm { fabric, .. } => Ok(fabric.serve_memory_as(id, extent)?),
            Link::Tcp { fabric, listen, .. } => {
                Ok(fabric.serve_memory_of(id, extent, *listen).map(drop)?)
            }
            Link::Ibverbs { fabric } => Ok(fabric.serve_memory_as(id, extent)?),
        }
    }

    /// Adds this process's compute node.
    pub(crate) fn add_compute(&self, id: ComputeNodeId) -> Result<(), JoinError> {
        match self {
            Link::Shm { fabric, .. } => Ok(fabric.add_compute_node(id)?),
            Link::Tcp { fabric, listen, .. } => Ok(fabric.serve_compute(id, *listen).map(drop)?),
            Link::Ibverbs { fabric } => Ok(fabric.add_compute_node(id)?),
        }
    }

    /// Adds the agent of this process's memory node.
    pub(crate) fn add_agent(&self, id: ComputeNodeId) -> Result<(), JoinError> {
        match self {
            Link::Tcp { fabric, listen, .. } => {
                // The memory node has the port of `listen`.
                Ok(fabric.serve_compute(id, SocketAddr::new(listen.ip(), 0)).map(drop)?)
            }
            Link::Shm { .. } | Link::Ibverbs { .. } => self.add_compute(id),
        }
    }

    /// Refuses a protocol with homes on RDMA devices: processes connect by control messages
    /// between members, and an agent is no member.
    pub(crate) fn check_protocol(&self, protocol: Protocol) -> Result<(), JoinError> {
        match self {
            Link::Ibverbs { .. } if protocol.has_homes() => Err(JoinError::NoAgents { protocol }),
            _ => Ok(()),
        }
    }

    /// The contact by which other nodes reach this process's node.
    pub(crate) fn contact(&self, own: NodeName) -> Result<String, JoinError> {
        match self {
            Link::Shm { fabric, .. } => Ok(fabric.contact(shm_name(own))?),
            Link::Tcp { fabric, listen, advertise } => {
                let bound = fabric.addr(tcp_name(own)).unwrap_or(*listen);
                let ip = advertise.unwrap_or(bound.ip());
                Ok(SocketAddr::new(ip, bound.port()).to_string())
            }
            // The contact has the regions that are registered so far: the memory of a memory node,
            // or the cache of a compute node.
            Link::Ibverbs { fabric } => Ok(fabric
                .contact(ibverbs::peer(own))
                .map_or(String::new(), |contact| contact.to_string())),
        }
    }

    /// Adds a node of another process to the fabric.
    pub(crate) fn add_peer(
        &self,
        own: NodeName,
        peer: NodeName,
        contact: &str,
    ) -> Result<(), JoinError> {
        match self {
            Link::Shm { fabric, .. } => Ok(fabric.add_peer(shm_name(peer), contact)?),
            Link::Tcp { fabric, .. } => {
                let unreadable = |_| JoinError::Contact { peer, contact: contact.to_owned() };
                let addr = contact.parse::<SocketAddr>().map_err(unreadable)?;
                Ok(fabric.add_peer(tcp_name(own), tcp_name(peer), addr)?)
            }
            Link::Ibverbs { fabric } => {
                let unreadable = |_| JoinError::Contact { peer, contact: contact.to_owned() };
                let contact = contact.parse().map_err(unreadable)?;
                fabric.add_peer(ibverbs::peer(peer), contact);
                Ok(())
            }
        }
    }

    /// Removes a node that died or left. Verbs to that node fail from now on.
    pub(crate) fn remove_peer(&self, peer: NodeName) {
        match (self, peer) {
            // The call fails for an unknown node, which is harmless.
            (Link::Shm { fabric, .. }, NodeName::Compute(id)) => _ = fabric.disconnect(id),
            (Link::Shm { fabric, .. }, NodeName::Memory(id)) => _ = fabric.disconnect_memory(id),
            (Link::Tcp { fabric, .. }, peer) => _ = fabric.remove_peer(tcp_name(peer)),
            (Link::Ibverbs { fabric }, peer) => {
                // The node left gracefully, or the attempt to fence the node has ended.
                _ = fabric.remove_peer(ibverbs::peer(peer), REMOVAL);
            }
        }
    }

    /// Fences a dead node at this process, for this member epoch and all earlier epochs. Returns
    /// whether the dead node certainly can change nothing here any more.
    pub(crate) fn fence(
        &self,
        peer: NodeName,
        epoch: u64,
        contact: Option<&str>,
        patience: Duration,
    ) -> bool {
        match self {
            // A process on this machine can always store into shared memory. So the fence kills
            // what remains of the dead process.
            Link::Shm { fabric, .. } => {
                contact.is_none_or(|contact| fabric.stop(shm_name(peer), contact, patience).is_ok())
            }
            Link::Tcp { fabric, .. } => fabric.fence(tcp_name(peer), epoch + 1, patience),
            Link::Ibverbs { fabric } => fabric.fence(ibverbs::peer(peer), epoch, patience),
        }
    }
}

fn tcp_name(name: NodeName) -> tcp::TcpNode {
    match name {
        NodeName::Memory(id) => tcp::TcpNode::Memory(id),
        NodeName::Compute(id) => tcp::TcpNode::Compute(id),
    }
}

fn shm_name(name: NodeName) -> shm::ShmNodeName {
    match name {
        NodeName::Memory(id) => shm::ShmNodeName::Memory(id),
        NodeName::Compute(id) => shm::ShmNodeName::Compute(id),
    }
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use latchwork_membership::{Joining, MemoryStore, Role};

    use super::*;

    fn member() -> Membership {
        let store = Arc::new(MemoryStore::new());
        Membership::join(store, "place", Joining::new(Role::Compute)).expect("a member")
    }

    #[test]
    fn a_process_with_shared_memory_of_its_own_is_refused_and_makes_nothing() {
        let (membership, dir) = (member(), tempfile::tempdir().expect("a directory"));
        let there = dir.path().join("theirs");
        // Another container has another file system at the same place.
        let decided = format!("{}\n{}\n{}", machine(), "0", there.display());
        membership.decide(PLACE, decided.as_bytes()).expect("the first decision");
        let refused = place(&membership, None, &shm::HugePages::default());
        let Err(error @ JoinError::OtherMemory { .. }) = refused else { panic!("not refused") };
        assert!(error.to_string().contains("--fabric tcp"), "{error}");
        assert!(!there.exists(), "nothing was made");
    }

    #[test]
    fn all_processes_use_the_directory_of_the_first_wherever_they_start() {
        let (membership, dir) = (member(), tempfile::tempdir().expect("a directory"));
        let huge_pages = shm::HugePages::default();
        let first = place(&membership, Some(dir.path().join("shared")), &huge_pages);
        let (first, _fabric) = first.expect("a place");
        let (next, _fabric) = place(&membership, None, &huge_pages).expect("the same place");
        assert_eq!((&first, first.is_absolute()), (&next, true));
        let relative = std::path::absolute("here").expect("a working directory");
        let decided = |wanted: &str| {
            let membership = member();
            let (directory, fabric) =
                place(&membership, Some(wanted.into()), &huge_pages).expect("a place");
            drop(fabric);
            std::fs::remove_dir_all(&directory).expect("made");
            directory
        };
        assert_eq!(decided("here"), relative);
    }
}
