//! Implements [`SharedIndex`] for the B-link tree.

use latchwork_blink::{Tree, TreeConfig, TreeError, TreeStatistics};
use latchwork_cluster::Worker;
use latchwork_verbs::GlobalAddr;

use super::shared::SharedIndex;

impl SharedIndex for Tree<Worker> {
    type Config = TreeConfig;
    type Statistics = TreeStatistics;
    type Error = TreeError;

    async fn create(memory: Worker, config: TreeConfig) -> Result<Self, TreeError> {
        Tree::create(memory, config).await
    }

    async fn open(memory: Worker, root: GlobalAddr, config: TreeConfig) -> Result<Self, TreeError> {
        Tree::open(memory, root, config).await
    }

    fn root(&self) -> GlobalAddr {
        Tree::root(self)
    }

    async fn validate(&self) -> Result<TreeStatistics, TreeError> {
        Tree::validate(self).await
    }

    async fn release_spares(&self) -> Result<(), TreeError> {
        Tree::release_spares(self).await
    }

    fn is_of_memory(error: &TreeError) -> bool {
        matches!(error, TreeError::Memory(_))
    }

    fn pages(statistics: &TreeStatistics) -> u64 {
        statistics.pages()
    }
}

/// The configuration of a tree with at most this many entries in each page; 0 for as many as fit.
pub(crate) fn tree_config(entries_per_page: u64) -> TreeConfig {
    let most = (entries_per_page > 0).then_some(entries_per_page as u16);
    TreeConfig { max_entries_leaf: most, max_entries_inner: most, ..TreeConfig::default() }
}
