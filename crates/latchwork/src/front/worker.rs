//! [`ClusterWorker`]: the cluster as one worker sees it.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_blink::Tree;
use latchwork_cluster::Member;
use latchwork_cluster::Worker;
use latchwork_database::Opened;
use latchwork_rtree::{RTree, RTreeConfig};

use super::error::{Error, Result};
use super::names::Names;
use super::trees::open_or_make;

/// The cluster as one worker sees it, during a [run](crate::Cluster::run). This type dereferences
/// to [`Member`], which has the worker's position in the cluster and its executor. Clones stand for
/// the same worker.
#[derive(Clone)]
pub struct ClusterWorker(Rc<Inner>);

struct Inner {
    member: Member,
    names: Arc<Names>,
    patience: Duration,
    databases: Vec<Opened>,
    trees: RefCell<BTreeMap<String, Tree<Worker>>>,
    rtrees: RefCell<BTreeMap<String, Box<dyn OpenRTree>>>,
}

/// An R-tree of any number of dimensions.
trait OpenRTree: Any {
    fn as_any(&self) -> &dyn Any;

    fn release_spares(&self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>>;
}

impl<const D: usize> OpenRTree for RTree<Worker, D> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn release_spares(&self) -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
        Box::pin(async move { Ok(RTree::release_spares(self).await?) })
    }
}

impl ClusterWorker {
    pub(super) fn new(
        member: Member,
        names: Arc<Names>,
        patience: Duration,
        databases: &[Opened],
    ) -> ClusterWorker {
        let (databases, trees, rtrees) =
            (databases.to_vec(), RefCell::default(), RefCell::default());
        ClusterWorker(Rc::new(Inner { member, names, patience, databases, trees, rtrees }))
    }

    /// Opens the tree with this name. The first worker that asks for the name makes the tree. Any
    /// number of workers may ask at the same time, and all of them get the same tree.
    ///
    /// A second call returns a clone of the first handle. The tree has the settings that this
    /// process gave to [`Cluster::tree`](crate::Cluster::tree), or the default settings.
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
        let opened = open_or_make(member, names, (name, names.tree(name)), *patience).await?;
        // Another task of this worker may have opened the tree in the meantime.
        Ok(trees.borrow_mut().entry(name.to_owned()).or_insert(opened).clone())
    }

    /// Opens the R-tree with this name. The first worker that asks for the name makes the tree, as
    /// [`tree`](ClusterWorker::tree) does. A second call with the same number of dimensions returns
    /// a clone of the first handle, with the settings of the first call.
    ///
    /// # Errors
    /// Those of [`tree`](ClusterWorker::tree), and
    /// [`RTreeError::Corrupt`](latchwork_rtree::RTreeError::Corrupt) when the tree has other
    /// dimensions or payloads.
    pub async fn rtree<const D: usize>(
        &self,
        name: &str,
        config: RTreeConfig,
    ) -> Result<RTree<Worker, D>> {
        let Inner { member, names, patience, rtrees, .. } = &*self.0;
        let known = |rtrees: &BTreeMap<String, Box<dyn OpenRTree>>| {
            let open = rtrees.get(name)?.as_any();
            open.downcast_ref::<RTree<Worker, D>>().cloned()
        };
        if let Some(tree) = known(&rtrees.borrow()) {
            return Ok(tree);
        }
        let opened: RTree<Worker, D> =
            open_or_make(member, names, (name, config), *patience).await?;
        let mut rtrees = rtrees.borrow_mut();
        // Another task of this worker may have opened the tree in the meantime.
        if let Some(tree) = known(&rtrees) {
            return Ok(tree);
        }
        rtrees.insert(name.to_owned(), Box::new(opened.clone()));
        Ok(opened)
    }

    /// The database with this name. The program opens the database by
    /// [`Cluster::database`](crate::Cluster::database) before the run. Each run opens all these
    /// databases on every worker before its body begins.
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
            end = end.and(tree.release_spares().await.map_err(Error::from));
        }
        let rtrees = std::mem::take(&mut *self.0.rtrees.borrow_mut());
        for tree in rtrees.values() {
            end = end.and(tree.release_spares().await);
        }
        end
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
