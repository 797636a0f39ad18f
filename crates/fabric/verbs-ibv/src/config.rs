//! [`IbvConfig`]: the settings of an RDMA fabric.

use std::time::Duration;

/// The settings of an RDMA fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IbvConfig {
    /// The devices to use, by name; empty means all devices. Nodes of this process are assigned to
    /// the devices in turn.
    pub devices: Vec<String>,
    /// The entry of the port's table of addresses (GIDs). With `None` the fabric chooses one.
    pub gid_index: Option<u8>,
    /// Limit of messages that wait in the inbox of one compute node, as far as the device has room;
    /// 128 bytes each. Further messages wait at the senders.
    pub inbox_capacity: usize,
    /// Limit of requests in the send queue of one connection, as far as the device has room.
    /// Further requests wait in software.
    pub send_queue: u32,
    /// Limit of batches that one endpoint has in its connections. Further batches wait in software.
    pub batches: u32,
    /// Limit of outstanding READs and atomics per connection, as far as both devices allow it.
    pub reads: u8,
    /// The time until an acknowledgement counts as lost: 4.096 us times two to this power, from 1
    /// to 31. 16 is 0.27 s.
    pub timeout: u8,
    /// The number of repetitions of a request after that, from 0 to 6. (7 is unlimited on
    /// Soft-RoCE.)
    pub retries: u8,
    /// Time limit for a peer to answer an offer of a connection.
    pub connect_timeout: Duration,
    /// The member epoch of the nodes of this process, for nodes of other processes. A later node
    /// with the same name has a higher epoch.
    pub epoch: u64,
}

impl Default for IbvConfig {
    fn default() -> Self {
        IbvConfig {
            devices: Vec::new(),
            gid_index: None,
            inbox_capacity: 1024,
            send_queue: 128,
            batches: 256,
            reads: 16,
            timeout: 16,
            retries: 6,
            connect_timeout: Duration::from_secs(5),
            epoch: 0,
        }
    }
}
