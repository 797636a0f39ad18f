//! [`Client`]: the behaviour of the local code of one node.

/// The behaviour of the local code of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub(crate) id: u8,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) evicts: bool,
    pub(crate) escalates: bool,
    pub(crate) locks: bool,
    pub(crate) no_wait: bool,
    pub(crate) mortal: bool,
    pub(crate) persists: bool,
}

impl Client {
    const fn new(id: u8, reads: bool, writes: bool) -> Self {
        let (evicts, escalates) = (true, true);
        let (locks, no_wait, mortal, persists) = (false, false, false, false);
        Client { id, reads, writes, evicts, escalates, locks, no_wait, mortal, persists }
    }

    /// Only reads.
    pub(crate) const fn reader(id: u8) -> Self {
        Client::new(id, true, false)
    }

    /// Only writes.
    pub(crate) const fn writer(id: u8) -> Self {
        Client::new(id, false, true)
    }

    /// Reads and writes, and so upgrades.
    pub(crate) const fn both(id: u8) -> Self {
        Client::new(id, true, true)
    }

    /// Does not release the line without a request.
    pub(crate) const fn keeping(mut self) -> Self {
        self.evicts = false;
        self
    }

    /// Also locks a copy that it has, for any time.
    pub(crate) const fn locking(mut self) -> Self {
        self.locks = true;
        self
    }

    /// Does not wait for locks of other nodes.
    pub(crate) const fn no_wait(mut self) -> Self {
        self.no_wait = true;
        self
    }

    /// Also writes changes back in place, at any time.
    pub(crate) const fn persisting(mut self) -> Self {
        self.persists = true;
        self
    }

    /// May die.
    pub(crate) const fn mortal(mut self) -> Self {
        self.mortal = true;
        self
    }

    pub(crate) fn reads(&self) -> bool {
        self.reads
    }

    pub(crate) fn writes(&self) -> bool {
        self.writes
    }

    /// Whether the clients differ only by their ids.
    pub(crate) fn does_as(&self, other: &Client) -> bool {
        Client { id: other.id, ..*self } == *other
    }

    /// Does not want to write while it waits to read.
    pub(crate) const fn patient(mut self) -> Self {
        self.escalates = false;
        self
    }
}
