//! The tree that all workers of one thread share. It is made or found, opened once by each worker,
//! and validated at the end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use latchwork_blink::{Tree, TreeConfig, TreeError, TreeStatistics};
use latchwork_cluster::{Member, Worker};
use latchwork_memnode::ObjectKind;
use latchwork_verbs::GlobalAddr;

use crate::WorldCheck;
use crate::world::{Observer, Process};

/// The name of the tree in the catalogue.
const NAME: &str = "tree";
const TREE: ObjectKind = ObjectKind(7);

/// Opens one tree for all workers of this thread, once for each worker.
pub(crate) struct Shared {
    config: TreeConfig,
    /// The name of the tree in reports of operations. Then the most waits for a line of an
    /// operation that may read the whole tree.
    about: (&'static str, u32),
    observer: Rc<Observer>,
    root: RefCell<Option<GlobalAddr>>,
    trees: RefCell<BTreeMap<usize, Tree<Worker>>>,
    statistics: RefCell<Option<TreeStatistics>>,
}

impl Shared {
    pub(crate) fn new(
        about: (&'static str, u32),
        entries_per_page: u64,
        observer: &Rc<Observer>,
    ) -> Shared {
        let most = (entries_per_page > 0).then_some(entries_per_page as u16);
        Shared {
            config: TreeConfig {
                max_entries_leaf: most,
                max_entries_inner: most,
                ..TreeConfig::default()
            },
            about,
            observer: observer.clone(),
            root: RefCell::default(),
            trees: RefCell::default(),
            statistics: RefCell::default(),
        }
    }

    pub(crate) async fn create(&self, member: &Member) -> Result<Tree<Worker>, TreeError> {
        let tree = Tree::create(member.memory.clone(), self.config).await?;
        *self.root.borrow_mut() = Some(tree.root());
        self.trees.borrow_mut().insert(member.index, tree.clone());
        Ok(tree)
    }

    pub(crate) async fn publish(&self, member: &Member) -> Result<(), String> {
        let root = self.root.borrow().ok_or("no tree was made")?;
        let port = member.memory.port();
        let done = member.catalogue.register(port, NAME, TREE, root.bits()).await;
        done.map(drop).map_err(|error| error.to_string())
    }

    pub(crate) async fn find(&self, member: &Member) -> Result<(), String> {
        let deadline = member.handle.now() + crate::workloads::load::FIND_LIMIT;
        let port = member.memory.port();
        let found = member.catalogue.wait_for(port, &member.handle, NAME, deadline).await;
        let found = found.map_err(|error| error.to_string())?;
        *self.root.borrow_mut() = Some(GlobalAddr::from_bits(found.value));
        Ok(())
    }

    /// This worker's handle on the tree. The tasks of the worker share its reserve. Returns `None`
    /// after a failure, which the observer has.
    pub(crate) async fn enter(&self, member: &Member, process: Process) -> Option<Tree<Worker>> {
        self.operation(process, "open", self.tree(member)).await
    }

    /// Like [`Shared::enter`], but with a new handle.
    pub(crate) async fn enter_alone(
        &self,
        member: &Member,
        process: Process,
    ) -> Option<Tree<Worker>> {
        self.operation(process, "open", self.open(member)).await
    }

    /// Releases this worker's reserve and its handle. A handle must not keep a worker that leaves.
    pub(crate) async fn leave(&self, member: &Member, process: Process) {
        let about = ("give back", "lines in reserve".to_owned(), self.about.1);
        let finish = async {
            let tree = self.trees.borrow_mut().remove(&member.index);
            match tree {
                Some(tree) => tree.release_spares().await,
                None => Ok(()),
            }
        };
        self.observer.operation(process, about, finish).await;
    }

    /// Validates the tree on the first node that inspects it, `before` the inspection.
    pub(crate) async fn validate(
        &self,
        process: Process,
        tree: &Tree<Worker>,
        before: impl Future<Output = Result<(), TreeError>>,
    ) {
        if self.statistics.borrow().is_some() {
            return;
        }
        let validate = async {
            before.await?;
            match tree.validate().await {
                Ok(statistics) => *self.statistics.borrow_mut() = Some(statistics),
                Err(error @ TreeError::Memory(_)) => return Err(error),
                Err(error) => self.observer.fail(WorldCheck::Tree, error.to_string()),
            }
            Ok(())
        };
        self.operation(process, "validate", validate).await;
    }

    /// The number of pages of the tree, after the validation.
    pub(crate) fn pages(&self) -> Option<u64> {
        self.statistics.borrow().as_ref().map(TreeStatistics::pages)
    }

    /// The statistics of the tree, after the validation.
    pub(crate) fn take(&self) -> Option<TreeStatistics> {
        self.statistics.take()
    }

    async fn operation<T>(
        &self,
        process: Process,
        what: &'static str,
        work: impl Future<Output = Result<T, TreeError>>,
    ) -> Option<T> {
        let (name, waits) = self.about;
        self.observer.operation(process, (what, name.to_owned(), waits), work).await
    }

    async fn tree(&self, member: &Member) -> Result<Tree<Worker>, TreeError> {
        if let Some(tree) = self.trees.borrow().get(&member.index) {
            return Ok(tree.clone());
        }
        let opened = self.open(member).await?;
        // Another task may have opened the tree in the meantime.
        Ok(self.trees.borrow_mut().entry(member.index).or_insert(opened).clone())
    }

    async fn open(&self, member: &Member) -> Result<Tree<Worker>, TreeError> {
        let root = self.root.borrow().unwrap_or(GlobalAddr::NULL);
        Tree::open(member.memory.clone(), root, self.config).await
    }
}
