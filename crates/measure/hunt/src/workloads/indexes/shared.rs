//! [`SharedIndex`]: a handle on an index, a B-link tree or an R-tree.

use std::any::Any;

use latchwork_blink::{Tree, TreeConfig, TreeError, TreeStatistics};
use latchwork_cluster::Worker;
use latchwork_rtree::{RTree, RTreeConfig, RTreeError, RTreeStatistics};
use latchwork_verbs::GlobalAddr;

use crate::world::Failing;

/// One worker's handle on an index.
pub(in crate::workloads) trait SharedIndex: Clone + 'static {
    type Config;
    type Statistics: Send + 'static;
    type Error: Failing;

    async fn create(memory: Worker, config: Self::Config) -> Result<Self, Self::Error>;

    async fn open(
        memory: Worker,
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

            async fn create(memory: Worker, config: $config) -> Result<Self, $error> {
                <$index>::create(memory, config).await
            }

            async fn open(
                memory: Worker,
                root: GlobalAddr,
                config: $config,
            ) -> Result<Self, $error> {
                <$index>::open(memory, root, config).await
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

/// The configuration of a tree with at most this many entries in each page; 0 for as many as fit.
pub(in crate::workloads) fn tree_config(entries_per_page: u64) -> TreeConfig {
    let most = (entries_per_page > 0).then_some(entries_per_page as u16);
    TreeConfig { max_entries_leaf: most, max_entries_inner: most, ..TreeConfig::default() }
}
