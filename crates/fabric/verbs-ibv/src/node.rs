//! [`Node`]: a memory node or a compute node of this process. A node has a device, registered
//! memory, and the responder ends of its connections: the queue pairs that execute the requests of
//! peers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use latchwork_runtime::sync::{Mutex, RwLock};
use latchwork_strict::strict_assert;
use latchwork_verbs::{Extent, Region, RegionKey, SetupError};

use crate::connection::{Answer, Caller, Offer};
use crate::directory::{Peer, RemoteMemory};
use crate::error::ConnectError;
use crate::mailbox::Mailbox;
use crate::sys::{Chip, Completions, Device, Pair, Receives, Registered, Watch, Watcher};

/// A node of this process, on one device.
pub(crate) struct Node {
    pub(crate) device: Arc<Device>,
    pub(crate) mailbox: Option<Arc<Mailbox>>,
    // The largest number of outstanding READs and atomics that the node serves for one connection.
    reads: u8,
    regions: RwLock<Vec<Arc<Registered>>>,
    // The on-chip memory of a memory node.
    chip: Option<Chip>,
    // The responder ends of connections, each with its requester.
    responders: Mutex<Vec<(Caller, Pair)>>,
    receives: Option<Arc<Receives>>,
    // The completion queue that each queue pair must name, for queue pairs whose requests make no
    // completions.
    unused: Arc<Completions>,
    cut_off: AtomicBool,
    _watch: Option<Watch>,
}

impl Node {
    /// Makes a memory node with zeroed memory of these lengths.
    pub(crate) fn memory(
        device: &Arc<Device>,
        reads: u8,
        extent: Extent,
    ) -> Result<Node, SetupError> {
        let Extent { bytes, chip_bytes } = extent;
        extent.region_bytes()?;
        let mut node = Node::new(device, reads)?;
        node.chip = (chip_bytes > 0).then(|| Chip::new(device, chip_bytes)).transpose()?;
        let region = Region::zeroed(Extent::of(bytes).region_bytes()?)?;
        let registered = Registered::new(device, region)?;
        node.regions.write().push(Arc::new(registered));
        Ok(node)
    }

    /// Makes a compute node with an inbox for `inbox` messages.
    pub(crate) fn compute(
        device: &Arc<Device>,
        reads: u8,
        inbox: u32,
        watcher: &Arc<Watcher>,
    ) -> Result<Node, SetupError> {
        let receives = Arc::new(Receives::new(device, inbox)?);
        let mailbox = Arc::new(Mailbox::new(Arc::clone(&receives)));
        let told = Arc::downgrade(&mailbox);
        let watch = watcher.watch(&receives.completions, move || {
            if let Some(mailbox) = told.upgrade() {
                mailbox.told();
            }
        })?;
        let node = Node::new(device, reads)?;
        Ok(Node { mailbox: Some(mailbox), receives: Some(receives), _watch: Some(watch), ..node })
    }

    fn new(device: &Arc<Device>, reads: u8) -> Result<Node, SetupError> {
        Ok(Node {
            device: Arc::clone(device),
            mailbox: None,
            reads: reads.min(device.limits.reads_served),
            regions: RwLock::default(),
            chip: None,
            responders: Mutex::default(),
            receives: None,
            unused: Completions::new(device, 1)?,
            cut_off: AtomicBool::new(false),
            _watch: None,
        })
    }

    /// Registers memory. `None` when all keys are used.
    pub(crate) fn register(&self, region: Arc<Region>) -> Result<Option<RegionKey>, SetupError> {
        let registered = Arc::new(Registered::new(&self.device, region)?);
        let mut regions = self.regions.write();
        let Ok(key) = u16::try_from(regions.len()) else { return Ok(None) };
        regions.push(registered);
        Ok(Some(RegionKey(key)))
    }

    /// A registered region. A memory node has only the region with key 0.
    pub(crate) fn region(&self, key: RegionKey) -> Option<Arc<Registered>> {
        self.regions.read().get(usize::from(key.0)).cloned()
    }

    /// A registered region, in the form in which peers address it. The on-chip memory of a memory
    /// node counts as the region with key [`CHIP_KEY`](crate::directory::CHIP_KEY).
    pub(crate) fn remote(&self, key: RegionKey) -> Option<RemoteMemory> {
        self.remotes().get(usize::from(key.0)).copied()
    }

    /// All registered regions, in the form in which peers address them.
    pub(crate) fn remotes(&self) -> Vec<RemoteMemory> {
        let chip = self.chip.iter().map(|chip| {
            strict_assert!(self.mailbox.is_none(), "a compute node has on-chip memory");
            RemoteMemory { address: 0, len: chip.len, rkey: chip.rkey }
        });
        self.regions.read().iter().map(|region| named(region)).chain(chip).collect()
    }

    /// Accepts an offer of a connection, unless `is_refused` returns true. Destroys the connection
    /// that the offer replaces, before anything else.
    pub(crate) fn answer(
        &self,
        offer: &Offer,
        is_refused: impl Fn() -> bool,
    ) -> Result<Answer, ConnectError> {
        if let Some(replaced) = offer.replaces {
            self.close(offer.from, replaced);
        }
        if is_refused() {
            return Err(ConnectError::Gone);
        }
        let pair = Pair::responder(&self.device, &self.unused, self.receives.as_ref())?;
        let reads = self.reads.min(offer.data.reads);
        pair.accept(&offer.data, reads)?;
        let answer = Answer { data: pair.data(reads) };
        let mut responders = self.responders.lock();
        // The check is under the lock. So a thread that cuts the node off or fences the peer acts
        // before this check, or finds the pair in the list.
        if self.is_cut_off() || is_refused() {
            return Err(ConnectError::Gone);
        }
        responders.push((offer.from, pair));
        Ok(answer)
    }

    /// Destroys this node's end of a connection that the requester does not use any more.
    pub(crate) fn close(&self, from: Caller, number: u32) {
        let closed = {
            let mut responders = self.responders.lock();
            let place = responders
                .iter()
                .position(|(caller, pair)| *caller == from && pair.number == number);
            place.map(|place| responders.swap_remove(place))
        };
        self.keep_messages();
        drop(closed);
    }

    /// Stores the messages that arrived over connections that are about to be destroyed.
    fn keep_messages(&self) {
        if let Some(mailbox) = &self.mailbox {
            mailbox.keep_all();
        }
    }

    /// Removes this node's ends of connections with `peer`, for member epochs up to `epoch`. After
    /// the caller has dropped them, no verb that the peer has posted takes effect on this node.
    pub(crate) fn take_responders(&self, peer: Peer, epoch: u64) -> Vec<Pair> {
        let mut responders = self.responders.lock();
        let is_of = |(caller, _): &mut (Caller, Pair)| caller.peer == peer && caller.epoch <= epoch;
        let taken = responders.extract_if(.., is_of).map(|(_, pair)| pair).collect();
        drop(responders);
        self.keep_messages();
        taken
    }

    /// The number of connections whose responder is this node.
    pub(crate) fn responders(&self) -> usize {
        self.responders.lock().len()
    }

    /// Destroys all responder ends, and refuses all later offers. After the return no verb that
    /// peers have posted takes effect on this node.
    pub(crate) fn cut_off(&self) {
        let cut = {
            let mut responders = self.responders.lock();
            self.cut_off.store(true, Ordering::Release);
            std::mem::take(&mut *responders)
        };
        drop(cut);
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Acquire)
    }
}

fn named(region: &Registered) -> RemoteMemory {
    RemoteMemory { address: region.address, len: region.len, rkey: region.rkey }
}
