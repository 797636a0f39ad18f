//! [`Rules`]: the policies of the directory machines, and the rules that keep them safe.

/// The party that resolves conflicts of requests for a line, and their order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Conflicts {
    /// The home resolves them, one request after the other. The others queue (GAM).
    AtHome,
    /// The requester resolves them. The home changes its entry at once, so each requester asks the
    /// node that comes just before it (ScaleStore 3.4.3, anticipatory chaining).
    Chain,
    /// The requester resolves them. The home serves one request after the other, and the others
    /// queue (ScaleStore 3.4.2).
    Queue,
    /// The requester resolves them. The home refuses all others meanwhile, which try again
    /// (ScaleStore 3.4.1). Here the home refuses them, not the owner, so a refusal costs two
    /// messages less than in the paper.
    Poll,
}

/// The ownership that a reader gets of a line that another node holds exclusively.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReaderTakes {
    /// A copy: the holder keeps a copy too.
    Copy,
    /// The line: the reader becomes the exclusive holder.
    Move,
}

/// The rules of a directory protocol. The fields below `reader_takes` guard something. Off, they
/// show that the model detects the missing rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rules {
    /// The party that resolves conflicts.
    pub conflicts: Conflicts,
    /// What a reader gets of a line that is held exclusively.
    pub reader_takes: ReaderTakes,
    /// A holder serves the directive that ends its tenure after all others of the tenure.
    pub ordered: bool,
    /// The home declines an eviction while the node has directives to serve (owner stability,
    /// ScaleStore 3.4.3).
    pub stable_owner: bool,
    /// A node keeps an invalidation that arrives before the grant that the invalidation ends.
    pub remembers_early: bool,
    /// A node that evicts a line waits for the answer of the home before it requests the line again
    /// or serves a directive.
    pub acknowledged_eviction: bool,
    /// A home that recovers a line waits for the answers of all living nodes.
    pub hears_all: bool,
    /// A home that recovers a line gives the duty to write changes back to a holder, when that duty
    /// may have died.
    pub adopts: bool,
    /// Eras and counts of copies are taken modulo this number, at most 256. It must exceed the
    /// number of nodes by two, and with deaths twice the number by four. It is small in the model,
    /// so that the model has finitely many states.
    pub modulus: u16,
}

impl Rules {
    /// ScaleStore with anticipatory chaining.
    pub const SCALESTORE: Rules = Rules {
        conflicts: Conflicts::Chain,
        reader_takes: ReaderTakes::Copy,
        ordered: true,
        stable_owner: true,
        remembers_early: true,
        acknowledged_eviction: true,
        hears_all: true,
        adopts: true,
        modulus: 256,
    };

    /// GAM.
    pub const GAM: Rules = Rules { conflicts: Conflicts::AtHome, ..Self::SCALESTORE };

    /// Whether the home resolves conflicts.
    pub fn is_at_home(&self) -> bool {
        self.conflicts == Conflicts::AtHome
    }

    /// The number of copies of a tenure, after one more. A home that resolves conflicts itself
    /// directs nothing more at a holder before the copy is served, and needs no number.
    pub(crate) fn after_copy(&self, copies: u8) -> u8 {
        if self.is_at_home() { 0 } else { self.after(copies) }
    }

    /// Whether `number` comes after `other`. The distance is less than half of the modulus.
    pub(crate) fn follows(&self, number: u8, other: u8) -> bool {
        let distance = u16::from(number) + self.modulus - u16::from(other);
        (1..self.modulus.div_ceil(2)).contains(&(distance % self.modulus))
    }

    /// The number that follows `number`.
    pub(crate) fn after(&self, number: u8) -> u8 {
        ((u16::from(number) + 1) % self.modulus) as u8
    }
}
