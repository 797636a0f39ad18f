//! [`SharedIndex`]: a handle on an index, a B-link tree or an R-tree.

use std::any::Any;

use latchwork_blink::{Tree, TreeConfig, TreeError, TreeRules, TreeStatistics};
use latchwork_cache::WriteGuard;
use latchwork_cluster::{Member, Worker};
use latchwork_coherence::CoherentMemory;
use latchwork_index::{IndexError, OrderedIndex};
use latchwork_rtree::{RTree, RTreeConfig, RTreeError, RTreeStatistics};
use latchwork_verbs::GlobalAddr;

use crate::scenario::{Scenario, SeededBug, TreeLoad};
use crate::world::Failing;

/// One worker's handle on an index.
pub(in crate::workloads) trait SharedIndex: Clone + 'static {
    type Config;
    type Statistics: Send + 'static;
    type Error: Failing;

    async fn create(member: &Member, config: Self::Config) -> Result<Self, Self::Error>;

    async fn open(
        member: &Member,
        root: GlobalAddr,
        config: Self::Config,
    ) -> Result<Self, Self::Error>;

    fn root(&self) -> GlobalAddr;

    async fn validate(&self) -> Result<Self::Statistics, Self::Error>;

    async fn release_spares(&self) -> Result<(), Self::Error>;

    /// The number of lines of the pages; `None` where the lines do not say that they are in use.
    fn pages(statistics: &Self::Statistics) -> Option<u64>;

    fn entries(statistics: &Self::Statistics) -> u64;

    /// The statistics, if the index is a B-link tree.
    fn of_tree(statistics: &Self::Statistics) -> Option<TreeStatistics> {
        (statistics as &dyn Any).downcast_ref().cloned()
    }
}

macro_rules! shared_index {
    ($index:ty, $config:ty, $statistics:ty, $error:ty) => {
        impl SharedIndex for $index {
            type Config = $config;
            type Statistics = $statistics;
            type Error = $error;

            async fn create(member: &Member, config: $config) -> Result<Self, $error> {
                <$index>::create(member.memory.clone(), config).await
            }

            async fn open(
                member: &Member,
                root: GlobalAddr,
                config: $config,
            ) -> Result<Self, $error> {
                <$index>::open(member.memory.clone(), root, config).await
            }

            fn root(&self) -> GlobalAddr {
                <$index>::root(self)
            }

            async fn validate(&self) -> Result<$statistics, $error> {
                <$index>::validate(self).await
            }

            async fn release_spares(&self) -> Result<(), $error> {
                <$index>::release_spares(self).await
            }

            fn pages(statistics: &$statistics) -> Option<u64> {
                Some(statistics.pages())
            }

            fn entries(statistics: &$statistics) -> u64 {
                statistics.entries
            }
        }
    };
}

shared_index!(Tree<Worker>, TreeConfig, TreeStatistics, TreeError);
shared_index!(RTree<Worker, 2>, RTreeConfig, RTreeStatistics, RTreeError);

/// An error of an index whose keys are ordered.
pub(in crate::workloads) type MapError<T> = <T as SharedIndex>::Error;

/// An index whose keys are ordered.
pub(in crate::workloads) trait SharedMap:
    SharedIndex<Error: IndexError> + OrderedIndex<Error = MapError<Self>>
{
    /// Whether all keys have one length, and all values.
    const FIXED: bool = false;

    /// Whether a change that has run may take effect after its call was dropped.
    const CHANGES_LATE: bool = false;

    /// What the handles of a world share, beside the index.
    type Common: Default + 'static;

    fn config(load: &TreeLoad, scenario: &Scenario, common: &Self::Common) -> Self::Config;

    /// Corrupts the root, for a seeded bug.
    async fn scribble(&self, member: &Member) -> Result<(), MapError<Self>>;
}

impl SharedMap for Tree<Worker> {
    type Common = ();

    fn config(load: &TreeLoad, scenario: &Scenario, (): &()) -> TreeConfig {
        let most = (load.entries_per_page > 0).then_some(load.entries_per_page as u16);
        let rules = rules(scenario.plant);
        TreeConfig {
            max_entries_leaf: most,
            max_entries_inner: most,
            rules,
            ..TreeConfig::default()
        }
    }

    async fn scribble(&self, member: &Member) -> Result<(), TreeError> {
        let scribble = |guard: &mut WriteGuard<'_>| {
            let words = guard.words();
            words.set_u64(0, !words.u64(0));
            guard.mark_dirty(0..8);
        };
        Ok(member.memory.write(self.root(), scribble).await?)
    }
}

/// The rules of the tree, without the one that a seeded bug turns off.
fn rules(plant: Option<SeededBug>) -> TreeRules {
    let all = TreeRules::ALL;
    match plant {
        Some(SeededBug::ReusesPagesAtOnce) => TreeRules { frees_by_epochs: false, ..all },
        Some(SeededBug::UnlinksFilledLeaves) => TreeRules { looks_again: false, ..all },
        Some(SeededBug::ForgetsTheNeighbour) => TreeRules { links_neighbour: false, ..all },
        Some(SeededBug::MarksTooLate) => TreeRules { marks_at_once: false, ..all },
        Some(SeededBug::TrustsOldAddresses) => TreeRules { checks_remembered: false, ..all },
        _ => all,
    }
}
