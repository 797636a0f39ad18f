//! [`Shared`]: the handles on one index that all workers of a thread use. Each worker opens the
//! index once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use latchwork_cluster::{Member, Worker};
use latchwork_memnode::ObjectKind;
use latchwork_verbs::GlobalAddr;

use crate::WorldCheck;
use crate::world::{Failing, Observer, Process};

/// One worker's handle on an index: a B-link tree or an R-tree.
pub(crate) trait SharedIndex: Clone {
    type Config: Copy;
    type Statistics;
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

    /// Whether the error comes from the memory below. Such an error says nothing about the index.
    fn is_of_memory(error: &Self::Error) -> bool;

    fn pages(statistics: &Self::Statistics) -> u64;
}

/// The name of the index in the catalogue.
const NAME: &str = "tree";
const TREE: ObjectKind = ObjectKind(7);

/// The handles of all workers of this thread on one index.
pub(crate) struct Shared<T: SharedIndex> {
    config: T::Config,
    /// The name of the index in messages, and the maximum number of waits for a line in an
    /// operation that may read the whole index.
    about: (&'static str, u32),
    observer: Rc<Observer>,
    root: RefCell<Option<GlobalAddr>>,
    trees: RefCell<BTreeMap<usize, T>>,
    statistics: RefCell<Option<T::Statistics>>,
}

impl<T: SharedIndex> Shared<T> {
    pub(crate) fn new(
        about: (&'static str, u32),
        config: T::Config,
        observer: &Rc<Observer>,
    ) -> Shared<T> {
        Shared {
            config,
            about,
            observer: observer.clone(),
            root: RefCell::default(),
            trees: RefCell::default(),
            statistics: RefCell::new(None),
        }
    }

    pub(crate) async fn create(&self, member: &Member) -> Result<T, T::Error> {
        let tree = T::create(member.memory.clone(), self.config).await?;
        *self.root.borrow_mut() = Some(tree.root());
        self.trees.borrow_mut().insert(member.index, tree.clone());
        Ok(tree)
    }

    pub(crate) async fn publish(&self, member: &Member) -> Result<(), String> {
        let root = self.root.borrow().ok_or("no index was made")?;
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

    /// This worker's handle on the index. All tasks of the worker share the handle, with its lines
    /// in reserve. `None` after an error, which the observer has.
    pub(crate) async fn enter(&self, member: &Member, process: Process) -> Option<T> {
        self.operation(process, "open", self.tree(member)).await
    }

    /// As [`Shared::enter`], but with a new handle.
    pub(crate) async fn enter_alone(&self, member: &Member, process: Process) -> Option<T> {
        self.operation(process, "open", self.open(member)).await
    }

    /// Drops this worker's handle and releases its lines in reserve, so that the worker can leave.
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

    /// Validates the index, if no node has done so. Runs `before` first.
    pub(crate) async fn validate(
        &self,
        process: Process,
        tree: &T,
        before: impl Future<Output = Result<(), T::Error>>,
    ) {
        if self.statistics.borrow().is_some() {
            return;
        }
        let validate = async {
            before.await?;
            match tree.validate().await {
                Ok(statistics) => *self.statistics.borrow_mut() = Some(statistics),
                Err(error) if T::is_of_memory(&error) => return Err(error),
                Err(error) => self.observer.fail(WorldCheck::Tree, error.to_string()),
            }
            Ok(())
        };
        self.operation(process, "validate", validate).await;
    }

    /// The number of pages of the index. `None` before the validation.
    pub(crate) fn pages(&self) -> Option<u64> {
        self.statistics.borrow().as_ref().map(T::pages)
    }

    /// The statistics of the index. `None` before the validation.
    pub(crate) fn take(&self) -> Option<T::Statistics> {
        self.statistics.take()
    }

    async fn operation<R>(
        &self,
        process: Process,
        what: &'static str,
        work: impl Future<Output = Result<R, T::Error>>,
    ) -> Option<R> {
        let (name, waits) = self.about;
        self.observer.operation(process, (what, name.to_owned(), waits), work).await
    }

    async fn tree(&self, member: &Member) -> Result<T, T::Error> {
        if let Some(tree) = self.trees.borrow().get(&member.index) {
            return Ok(tree.clone());
        }
        let opened = self.open(member).await?;
        // If another task has opened the index meanwhile, its handle counts.
        Ok(self.trees.borrow_mut().entry(member.index).or_insert(opened).clone())
    }

    async fn open(&self, member: &Member) -> Result<T, T::Error> {
        let root = self.root.borrow().unwrap_or(GlobalAddr::NULL);
        T::open(member.memory.clone(), root, self.config).await
    }
}
