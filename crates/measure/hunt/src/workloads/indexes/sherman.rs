//! Sherman's tree as a [`SharedMap`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_coherence::MemoryError;
use latchwork_memnode::PoolError;
use latchwork_sherman::{Check, Config, Flaw, Resources, Shared, ShermanError, Statistics, Tree};
use latchwork_verbs::{GlobalAddr, VerbError};

use super::shared::{SharedIndex, SharedMap};
use crate::scenario::{Scenario, SeededBug, TreeIndex, TreeLoad};
use crate::world::Failing;

/// The parts that the workers of each compute node share.
type Nodes = Rc<RefCell<BTreeMap<usize, Arc<Shared>>>>;

pub(in crate::workloads) struct Opening {
    config: Config,
    nodes: Nodes,
}

impl Opening {
    fn parts(&self, member: &Member) -> (Resources, Arc<Shared>) {
        let resources = Resources {
            port: member.memory.port().clone(),
            handle: member.handle.clone(),
            lines: member.memory.node().allocator().clone(),
        };
        let mut nodes = self.nodes.borrow_mut();
        let shared = nodes.entry(member.node).or_insert_with(|| Shared::new(&self.config));
        (resources, shared.clone())
    }
}

impl SharedIndex for Tree {
    type Config = Opening;
    type Statistics = Statistics;
    type Error = ShermanError;

    async fn create(member: &Member, opening: Opening) -> Result<Tree, ShermanError> {
        let (resources, shared) = opening.parts(member);
        Tree::create(resources, &shared, opening.config).await
    }

    async fn open(
        member: &Member,
        root: GlobalAddr,
        opening: Opening,
    ) -> Result<Tree, ShermanError> {
        let (resources, shared) = opening.parts(member);
        Tree::open(resources, &shared, opening.config, root).await
    }

    fn root(&self) -> GlobalAddr {
        self.anchor()
    }

    async fn validate(&self) -> Result<Statistics, ShermanError> {
        Tree::validate(self).await
    }

    async fn release_spares(&self) -> Result<(), ShermanError> {
        Ok(())
    }

    fn pages(_statistics: &Statistics) -> Option<u64> {
        None
    }

    fn entries(statistics: &Statistics) -> u64 {
        statistics.entries
    }
}

impl SharedMap for Tree {
    const FIXED: bool = true;
    const CHANGES_LATE: bool = true;
    type Common = Nodes;

    fn config(load: &TreeLoad, scenario: &Scenario, nodes: &Nodes) -> Opening {
        let base = match load.index {
            TreeIndex::Blink | TreeIndex::Sherman => Config::SHERMAN,
            TreeIndex::Published => Config { check: Check::Published, ..Config::SHERMAN },
            TreeIndex::FgPlus => Config::FG_PLUS,
            TreeIndex::Fg => Config::FG,
        };
        let mut config = Config {
            key_len: super::super::tree::key::<Tree>(0).len(),
            value_len: super::super::tree::Content::unique(0).encode::<Tree>().len(),
            cache_bytes: base.cache_bytes.min(8 << 10),
            // A lock is taken by luck, so its deadline is above that of an access.
            deadline: Duration::from_micros(scenario.deadline_us) * 50,
            longest_read: Duration::from_millis(1),
            ..base
        };
        if load.locks > 0 {
            config.locks = load.locks;
        }
        match scenario.plant {
            Some(SeededBug::ReleasesLocksFirst) => config.flaw = Some(Flaw::ReleasesFirst),
            Some(SeededBug::IgnoresFenceKeys) => config.flaw = Some(Flaw::IgnoresFences),
            Some(SeededBug::TrustsTornLeaves) => config.flaw = Some(Flaw::TrustsTornLeaves),
            _ => {}
        }
        Opening { config, nodes: nodes.clone() }
    }

    async fn scribble(&self, member: &Member) -> Result<(), ShermanError> {
        let root = GlobalAddr::new(self.anchor().node(), self.anchor().offset() + 32);
        Ok(member.memory.port().write_word(root, 0).await?)
    }
}

impl Failing for ShermanError {
    fn of_memory(&self) -> Option<&MemoryError> {
        None
    }

    fn is_starved(&self) -> bool {
        matches!(self, ShermanError::Locked { .. })
    }

    fn is_timeout(&self) -> bool {
        self.is_starved() || matches!(self, ShermanError::Pool(PoolError::Timeout { .. }))
    }

    fn is_clean(&self) -> bool {
        self.is_timeout() || matches!(self, ShermanError::Pool(_) | ShermanError::Verb(_))
    }

    fn is_of_index(&self) -> bool {
        !self.is_clean()
    }

    fn of_fabric(&self) -> Option<VerbError> {
        match self {
            ShermanError::Verb(error) | ShermanError::Pool(PoolError::Fabric(error)) => {
                Some(*error)
            }
            _ => None,
        }
    }
}
