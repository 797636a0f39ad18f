//! [`Transport`]: what is between the processes of a cluster, and [`Link`], one process's end of it.

mod ibverbs;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use latchwork_fabric::Threaded;
use latchwork_membership::{Membership, NodeName, View};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region, SetupError};
use latchwork_verbs_ibv as ibv;
use latchwork_verbs_shm as shm;
use latchwork_verbs_tcp as tcp;

use crate::JoinError;

/// The fact that says on which machine the nodes of a cluster are that share memory, and in which
/// directory.
const PLACE: &str = "shm.place";

/// All that [`Link::key`] can be.
const KEYS: [&str; 3] = ["shm", "tcp", "ibverbs"];

/// The directory of the files that processes share, where no other is given. It is one for all
/// clusters: each process that starts removes what processes that were killed have left, of
/// whatever cluster.
pub const SHARED_DIRECTORY: &str = "/dev/shm/latchwork";

/// How long a device may take to destroy what a node leaves behind that is gone.
const REMOVAL: Duration = Duration::from_secs(5);

/// How long a node may take to answer who wants to connect, at least. Whoever is alive answers, if
/// its machine is not too busy, and membership says who is not: then attempts fail at once. A node
/// that counted as gone although it is there would not be told what it waits for.
const CONNECT: Duration = Duration::from_secs(60);

/// How long a node gives those that connect, at least, to say who they are.
const GREETING: Duration = Duration::from_secs(15);

/// What is between the processes of a cluster. The same kind for all of them.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Memory of one machine, which its processes share.
    Shm {
        /// The directory of the files, on a file system in memory; `/dev/shm/latchwork` if `None`.
        /// The first node of the cluster decides for all.
        directory: Option<PathBuf>,
        /// Huge pages.
        huge_pages: shm::HugePages,
    },
    /// Sockets.
    Tcp {
        /// How this process takes part; its epoch is membership's.
        config: Box<tcp::Config>,
        /// Where this process's node listens, with port 0 for one of the operating system's choice.
        listen: SocketAddr,
        /// The address under which others reach it, where that is not the one it listens at.
        advertise: Option<IpAddr>,
    },
    /// RDMA devices.
    Ibverbs {
        /// The devices, of which this process's node uses one; its epoch is membership's.
        config: Box<ibv::Config>,
    },
}

impl Transport {
    /// What it is called, on command lines and in contacts.
    pub fn name(&self) -> &'static str {
        match self {
            Transport::Shm { .. } => "shm",
            Transport::Tcp { .. } => "tcp",
            Transport::Ibverbs { .. } => "ibverbs",
        }
    }

    /// Takes part as the node that membership says.
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
                let mut config = tcp::Config::clone(config);
                config.epoch = membership.me().epoch;
                config.connect_time = config.connect_time.max(CONNECT);
                config.limits.greeting_time = config.limits.greeting_time.max(GREETING);
                let fabric = tcp::Fabric::new(config)?;
                Ok(Link::Tcp { fabric, listen: *listen, advertise: *advertise })
            }
            Transport::Ibverbs { config } => {
                Ok(Link::Ibverbs { fabric: ibverbs::open(config, membership)? })
            }
        }
    }
}

/// The directory of a cluster whose nodes share memory, which the first of them decides, and the
/// fabric in it. Who decides can use what it decides: else everybody after it would be sent to
/// where nobody can be.
fn place(
    membership: &Membership,
    wanted: Option<PathBuf>,
    huge_pages: &shm::HugePages,
) -> Result<(PathBuf, shm::Fabric), JoinError> {
    let fabric = |path: &Path| {
        let shm::Cleaned { files, bytes, .. } = shm::Fabric::clean(path)?;
        if files > 0 {
            let directory = path.display();
            tracing::warn!(files, bytes, %directory, "removed what processes that were killed had left");
        }
        let place = shm::Place { path: path.to_owned(), huge_pages: huge_pages.clone() };
        shm::Fabric::in_directory(place, shm::Config::default())
    };
    let wanted = wanted.unwrap_or_else(|| PathBuf::from(SHARED_DIRECTORY));
    let first = match membership.fact(PLACE)? {
        None => Some(fabric(&wanted)?),
        Some(_) => None,
    };
    let mine = format!("{}\n{}", machine(), wanted.display());
    let decided = membership.decide(PLACE, mine.as_bytes())?;
    let decided = String::from_utf8_lossy(&decided);
    match decided.split_once('\n') {
        Some((there, directory)) if there == machine() => {
            let directory = PathBuf::from(directory);
            let fabric = match first {
                Some(fabric) if directory == wanted => fabric,
                _ => fabric(&directory)?,
            };
            Ok((directory, fabric))
        }
        _ => Err(JoinError::OtherMachine),
    }
}

/// What tells this machine, as it was started last, from others; empty where nothing does.
pub(crate) fn machine() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// One process's end of a transport. Clones are the same.
#[derive(Clone)]
pub(crate) enum Link {
    Shm {
        fabric: shm::Fabric,
        // Behind the fabric, which has files in it.
        _directory: Arc<Emptied>,
    },
    Tcp {
        fabric: tcp::Fabric,
        listen: SocketAddr,
        advertise: Option<IpAddr>,
    },
    Ibverbs {
        fabric: ibv::Fabric,
    },
}

/// A directory that goes with the last process that has files in it.
pub(crate) struct Emptied(PathBuf);

impl Drop for Emptied {
    fn drop(&mut self) {
        // It stays while it is not empty: then others will see to it.
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Link {
    /// The key in the contacts of nodes under which they say where they are reached.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Link::Shm { .. } => "shm",
            Link::Tcp { .. } => "tcp",
            Link::Ibverbs { .. } => "ibverbs",
        }
    }

    /// A node that is reached over another fabric, if there is one.
    pub(crate) fn stranger(&self, view: &View) -> Option<JoinError> {
        let ours = self.key();
        view.joined().find_map(|member| {
            let is_there = |key: &str| member.contact.contains_key(key);
            // Until a node says where it is reached, it may be anything.
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

    /// Adds this process's memory node, of so many zero bytes.
    pub(crate) fn add_memory(&self, id: MemoryNodeId, bytes: usize) -> Result<(), JoinError> {
        match self {
            Link::Shm { fabric, .. } => Ok(fabric.serve_memory_as(id, bytes)?),
            Link::Tcp { fabric, listen, .. } => {
                let region = Region::zeroed(bytes).map_err(SetupError::from)?;
                Ok(fabric.serve_memory(id, region, *listen).map(drop)?)
            }
            Link::Ibverbs { fabric } => Ok(fabric.serve_memory_as(id, bytes)?),
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

    /// Where others reach this process's node.
    pub(crate) fn contact(&self, own: NodeName) -> Result<String, JoinError> {
        match self {
            Link::Shm { fabric, .. } => Ok(fabric.contact(shm_name(own))?),
            Link::Tcp { fabric, listen, advertise } => {
                let bound = fabric.addr(tcp_name(own)).unwrap_or(*listen);
                let ip = advertise.unwrap_or(bound.ip());
                Ok(SocketAddr::new(ip, bound.port()).to_string())
            }
            // What was registered so far: the memory of a memory node, the cache of a compute node.
            Link::Ibverbs { fabric } => Ok(fabric
                .contact(ibverbs::peer(own))
                .map_or(String::new(), |contact| contact.to_string())),
        }
    }

    /// Learns of a node of another process.
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

    /// Forgets a node of another process that is gone: verbs to it fail from now on.
    pub(crate) fn remove_peer(&self, peer: NodeName) {
        match (self, peer) {
            // It fails for a node that is not known, which is what is wanted.
            (Link::Shm { fabric, .. }, NodeName::Compute(id)) => _ = fabric.disconnect(id),
            (Link::Shm { fabric, .. }, NodeName::Memory(id)) => _ = fabric.disconnect_memory(id),
            (Link::Tcp { fabric, .. }, peer) => _ = fabric.remove_peer(tcp_name(peer)),
            (Link::Ibverbs { fabric }, peer) => {
                // What it posted is over: it has left in order, or was fenced before.
                _ = fabric.remove_peer(ibverbs::peer(peer), REMOVAL);
            }
        }
    }

    /// Sees to it that a node that died does nothing here any more, and is not let in with this
    /// epoch or an earlier one. Whether that is certain.
    pub(crate) fn fence(
        &self,
        peer: NodeName,
        epoch: u64,
        contact: Option<&str>,
        patience: Duration,
    ) -> bool {
        match self {
            // Stores of a process on this machine cannot be refused. What is left of it is made to
            // end.
            Link::Shm { fabric, .. } => {
                contact.is_none_or(|contact| fabric.stop(shm_name(peer), contact, patience).is_ok())
            }
            Link::Tcp { fabric, .. } => fabric.fence(tcp_name(peer), epoch + 1, patience),
            Link::Ibverbs { fabric } => fabric.fence(ibverbs::peer(peer), epoch, patience),
        }
    }
}

fn tcp_name(name: NodeName) -> tcp::Node {
    match name {
        NodeName::Memory(id) => tcp::Node::Memory(id),
        NodeName::Compute(id) => tcp::Node::Compute(id),
    }
}

fn shm_name(name: NodeName) -> shm::NodeName {
    match name {
        NodeName::Memory(id) => shm::NodeName::Memory(id),
        NodeName::Compute(id) => shm::NodeName::Compute(id),
    }
}
