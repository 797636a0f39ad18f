//! [`IbvConfig`]: the settings of an RDMA fabric.

use std::time::Duration;

/// The settings of an RDMA fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IbvConfig {
    /// The devices to use, by name; empty means all devices. Nodes of this process are assigned to
    /// the devices in turn.
    pub devices: Vec<String>,
    /// The index in the port's table of addresses (GIDs). With `None` the fabric chooses an entry.
    pub gid_index: Option<u8>,
    /// The largest number of messages in the inbox of one compute node; less if the device has a
    /// smaller limit. A message takes 128 bytes. Further messages wait at the senders.
    pub inbox_capacity: usize,
    /// The largest number of requests in the send queue of one connection; less if the device has a
    /// smaller limit. Further requests wait in software.
    pub send_queue: u32,
    /// The largest number of batches that one endpoint has in all of its connections. Further
    /// batches wait in software.
    pub batches: u32,
    /// The largest number of outstanding READs and atomics per connection; less if one of the two
    /// devices has a smaller limit.
    pub reads: u8,
    /// The exponent of the time after which an acknowledgement counts as lost: the time is 4.096 us
    /// times two to this power. From 1 to 31; 16 is 0.27 s.
    pub timeout: u8,
    /// The number of times that the device repeats a request after such a loss, from 0 to 6. (7
    /// would be unlimited on Soft-RoCE.)
    pub retries: u8,
    /// The time limit for a connection: from the first offer until the peer's answer.
    pub connect_timeout: Duration,
    /// The member epoch of the nodes of this process, as nodes of other processes see it. A later
    /// node with the same name has a higher member epoch.
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
