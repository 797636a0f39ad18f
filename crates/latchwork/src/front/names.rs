//! [`Names`]: the settings of trees, the open databases and the catalogue, which all workers of a
//! process share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use latchwork_blink::TreeConfig;
use latchwork_cluster::Member;
use latchwork_database::Instance;
use latchwork_memnode::Catalogue;
use latchwork_runtime::sync::Mutex;
use latchwork_strict::strict_assert;

use super::error::Result;

/// The settings of trees, and the open databases.
#[derive(Default)]
pub(super) struct Names {
    /// The settings of the trees that the program has opened by `Cluster::tree`.
    trees: Mutex<BTreeMap<String, TreeConfig>>,
    databases: Mutex<Vec<Instance>>,
    /// One catalogue for all workers. The catalogue keeps the unused records of registrations that
    /// lost a race, for later registrations. A catalogue of one worker would lose these records at
    /// the end of the run.
    catalogue: Mutex<Option<Arc<Catalogue>>>,
    /// The trees that some worker is making now, by compute node and name.
    making: Mutex<BTreeSet<(usize, String)>>,
}

/// The right of one worker to make a tree, among the workers of its compute node.
pub(super) struct Claim<'a> {
    names: &'a Names,
    what: (usize, String),
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let was_claimed = self.names.making.lock().remove(&self.what);
        // A claim is also dropped while its thread unwinds.
        strict_assert!(
            was_claimed || std::thread::panicking(),
            "two workers of a node have made the tree {:?}",
            self.what
        );
    }
}

impl Names {
    /// Sets the settings of a tree, and returns those from before.
    pub(super) fn set_tree(&self, name: &str, settings: TreeConfig) -> TreeConfig {
        let before = self.tree(name);
        self.trees.lock().insert(name.to_owned(), settings);
        before
    }

    pub(super) fn tree(&self, name: &str) -> TreeConfig {
        self.trees.lock().get(name).copied().unwrap_or_default()
    }

    /// The catalogue of named objects.
    pub(super) fn catalogue(&self, member: &Member) -> Arc<Catalogue> {
        self.catalogue.lock().get_or_insert_with(|| member.catalogue.clone()).clone()
    }

    /// Claims the making of a tree. `None` when another worker of the node makes it.
    pub(super) fn claim(&self, member: &Member, name: &str) -> Option<Claim<'_>> {
        let what = (member.node, name.to_owned());
        let is_mine = self.making.lock().insert(what.clone());
        // Not `then_some`, which makes its value in any case: the drop of that claim would end the
        // claim of the other worker.
        is_mine.then(|| Claim { names: self, what })
    }

    /// The open databases, in the order of their opening.
    pub(super) fn databases(&self) -> Vec<Instance> {
        self.databases.lock().clone()
    }

    pub(super) fn database(&self, name: &str) -> Option<Instance> {
        self.databases.lock().iter().find(|instance| instance.name() == name).cloned()
    }

    pub(super) fn add(&self, database: Instance) {
        let mut databases = self.databases.lock();
        strict_assert!(
            databases.iter().all(|other| other.name() != database.name()),
            "database {} is open twice",
            database.name()
        );
        databases.push(database);
    }

    pub(super) fn remove(&self, name: &str) {
        self.databases.lock().retain(|instance| instance.name() != name);
    }

    /// Closes all databases, the last one first. Returns the first error.
    pub(super) fn close(&self) -> Result<()> {
        let databases = std::mem::take(&mut *self.databases.lock());
        let mut end = Ok(());
        for instance in databases.into_iter().rev() {
            end = end.and(instance.close());
        }
        Ok(end?)
    }
}
