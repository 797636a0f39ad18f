//! The R-tree as a [`SharedIndex`].

use latchwork_cluster::Worker;
use latchwork_rtree::{RTree, RTreeConfig, RTreeError, RTreeStatistics};
use latchwork_verbs::GlobalAddr;

use super::model::D;
use crate::workloads::tree::SharedIndex;

impl SharedIndex for RTree<Worker, D> {
    type Config = RTreeConfig;
    type Statistics = RTreeStatistics;
    type Error = RTreeError;

    async fn create(memory: Worker, config: RTreeConfig) -> Result<Self, RTreeError> {
        RTree::create(memory, config).await
    }

    async fn open(
        memory: Worker,
        root: GlobalAddr,
        config: RTreeConfig,
    ) -> Result<Self, RTreeError> {
        RTree::open(memory, root, config).await
    }

    fn root(&self) -> GlobalAddr {
        RTree::root(self)
    }

    async fn validate(&self) -> Result<RTreeStatistics, RTreeError> {
        RTree::validate(self).await
    }

    async fn release_spares(&self) -> Result<(), RTreeError> {
        RTree::release_spares(self).await
    }

    fn is_of_memory(error: &RTreeError) -> bool {
        matches!(error, RTreeError::Memory(_))
    }

    fn pages(statistics: &RTreeStatistics) -> u64 {
        statistics.pages()
    }
}
