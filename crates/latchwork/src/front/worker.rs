//! [`ClusterWorker`]: the cluster as one worker sees it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_blink::Tree;
use latchwork_cluster::Member;
use latchwork_cluster::Worker;
use latchwork_database::Opened;

use super::error::{Error, Result};
use super::names::Names;
use super::trees::open_or_make;

/// The cluster as one worker sees it, while a [run](crate::Cluster::run) lasts. It dereferences to
/// [`Member`], which has the worker's place and its executor. Clones are the same.
#[derive(Clone)]
pub struct ClusterWorker(Rc<Inner>);

struct Inner {
    member: Member,
    names: Arc<Names>,
    patience: Duration,
    databases: Vec<Opened>,
    trees: RefCell<BTreeMap<String, Tree<Worker>>>,
}

impl ClusterWorker {
    pub(super) fn new(
        member: Member,
        names: Arc<Names>,
        patience: Duration,
        databases: &[Opened],
    ) -> ClusterWorker {
        let (databases, trees) = (databases.to_vec(), RefCell::default());
        ClusterWorker(Rc::new(Inner { member, names, patience, databases, trees }))
    }

    /// Opens the tree with this name. The first worker that asks for the name makes the tree. Any
    /// number of workers may ask at the same time, and all of them get the same tree.
    ///
    /// A second call returns a clone of the first handle. The settings of the tree are those of
    /// [`Cluster::tree`](crate::Cluster::tree), if this process has called it.
    ///
    /// # Errors
    /// [`Error::OtherKind`]; [`Error::Late`]; a name that is empty or longer than 48 bytes; memory
    /// that fails or is full.
    pub async fn tree(&self, name: &str) -> Result<Tree<Worker>> {
        let Inner { member, names, patience, trees, .. } = &*self.0;
        let known = trees.borrow().get(name).cloned();
        if let Some(tree) = known {
            return Ok(tree);
        }
        let opened = open_or_make(member, names, name, *patience).await?;
        // Another task of this worker may have opened the tree in the meantime.
        Ok(trees.borrow_mut().entry(name.to_owned()).or_insert(opened).clone())
    }

    /// The database with this name. [`Cluster::database`](crate::Cluster::database) opens it before
    /// the run, and the run has opened it on every worker before the body begins.
    ///
    /// # Errors
    /// [`Error::NoDatabase`].
    pub fn database(&self, name: &str) -> Result<Opened> {
        let is_it = |database: &&Opened| database.instance().name() == name;
        let found = self.0.databases.iter().find(is_it);
        found.cloned().ok_or_else(|| Error::NoDatabase { name: name.to_owned() })
    }

    /// Frees the lines that the trees of this worker keep for future splits.
    pub(super) async fn close(&self) -> Result<()> {
        let trees = std::mem::take(&mut *self.0.trees.borrow_mut());
        let mut end = Ok(());
        for tree in trees.values() {
            end = end.and(tree.release_spares().await);
        }
        Ok(end?)
    }
}

impl Deref for ClusterWorker {
    type Target = Member;

    fn deref(&self) -> &Member {
        &self.0.member
    }
}

impl fmt::Debug for ClusterWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClusterWorker").field(&self.0.member.name()).finish()
    }
}
