//! [`SharedIndex`]: a handle on an index, a B-link tree or an R-tree.

use std::any::Any;

use latchwork_blink::{Tree, TreeConfig, TreeError, TreeStatistics};
use latchwork_cache::WriteGuard;
use latchwork_cluster::{Member, Worker};
use latchwork_coherence::CoherentMemory;
use latchwork_index::{IndexError, OrderedIndex};
use latchwork_rtree::{RTree, RTreeConfig, RTreeError, RTreeStatistics};
use latchwork_verbs::GlobalAddr;

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

    fn pages(statistics: &Self::Statistics) -> u64;

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

            fn pages(statistics: &$statistics) -> u64 {
                statistics.pages()
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
    /// The configuration of an index with at most this many entries in each page; 0 for as many as
    /// fit.
    fn config(entries_per_page: u64) -> Self::Config;

    /// Corrupts the root, for a seeded bug.
    async fn scribble(&self, member: &Member) -> Result<(), MapError<Self>>;
}

impl SharedMap for Tree<Worker> {
    fn config(entries_per_page: u64) -> TreeConfig {
        let most = (entries_per_page > 0).then_some(entries_per_page as u16);
        TreeConfig { max_entries_leaf: most, max_entries_inner: most, ..TreeConfig::default() }
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
