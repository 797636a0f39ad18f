//! [`NamedTree`] and [`NamedDatabase`]: a name with settings, before it is open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use latchwork_blink::TreeConfig;
use latchwork_database::{DatabaseOpenError, DatabaseOptions, Found, Instance};
use latchwork_txn::Schema;
use latchwork_wal::Device;
use latchwork_wal::storage::{Disk, Storage};

use super::error::{Error, Result};
use super::running::Running;

/// A tree by its name, with its settings. [`Cluster::tree`](crate::Cluster::tree) makes it.
#[must_use = "nothing happens before `open`"]
pub struct NamedTree<'a> {
    cluster: &'a Running,
    name: String,
    settings: TreeConfig,
}

impl<'a> NamedTree<'a> {
    pub(super) fn new(cluster: &'a Running, name: &str) -> NamedTree<'a> {
        NamedTree { cluster, name: name.to_owned(), settings: TreeConfig::default() }
    }

    /// Sets the settings. All processes of a cluster use the same.
    pub fn settings(self, settings: TreeConfig) -> NamedTree<'a> {
        NamedTree { settings, ..self }
    }

    /// Opens the tree on every worker, or makes it. Later runs use these settings too.
    ///
    /// # Errors
    /// Those of [`ClusterWorker::tree`](crate::ClusterWorker::tree).
    pub fn open(self) -> Result<()> {
        let NamedTree { cluster, name, settings } = self;
        let before = cluster.names.set_tree(&name, settings);
        let asked = name.clone();
        let opened = cluster.run(async move |worker| worker.tree(&asked).await.map(drop));
        if opened.is_err() {
            cluster.names.set_tree(&name, before);
        }
        opened.map(drop)
    }
}

/// A database by its name, with its settings. [`Cluster::database`](crate::Cluster::database) makes
/// it.
#[must_use = "nothing happens before `open`"]
pub struct NamedDatabase<'a> {
    cluster: &'a Running,
    options: DatabaseOptions,
    place: Place,
}

/// Where the log of a database is.
enum Place {
    /// There is no log.
    Memory,
    Directory(PathBuf),
    Storage(Arc<dyn Storage>, Option<Device>),
}

impl<'a> NamedDatabase<'a> {
    pub(super) fn new(cluster: &'a Running, name: &str) -> NamedDatabase<'a> {
        let patience = cluster.patience;
        let options =
            DatabaseOptions { name: name.to_owned(), patience, ..DatabaseOptions::default() };
        NamedDatabase { cluster, options, place: Place::Memory }
    }

    /// Adds a table. The opening makes the table if the database does not have it.
    pub fn table(mut self, schema: Schema) -> NamedDatabase<'a> {
        self.options.tables.push(schema);
        self
    }

    /// Keeps a log in this directory. If the directory is empty or missing, the database is new.
    /// Otherwise the database is as its last run left it. Without a directory the database ends
    /// with its cluster.
    ///
    /// In virtual time the log is written to the directory too. The time of a write is then that of
    /// a simulated device.
    pub fn directory(self, path: impl AsRef<Path>) -> NamedDatabase<'a> {
        NamedDatabase { place: Place::Directory(path.as_ref().to_owned()), ..self }
    }

    /// Like [`directory`](NamedDatabase::directory), in any storage. In virtual time, `device`
    /// determines the times of the log.
    pub fn storage(self, storage: Arc<dyn Storage>, device: Option<Device>) -> NamedDatabase<'a> {
        NamedDatabase { place: Place::Storage(storage, device), ..self }
    }

    /// Changes the settings of transactions, of the log and of the opening.
    pub fn with(mut self, change: impl FnOnce(&mut DatabaseOptions)) -> NamedDatabase<'a> {
        let name = self.options.name.clone();
        change(&mut self.options);
        self.options.name = name;
        self
    }

    /// Opens the database on every worker: reads its log, recovers or makes the database, and makes
    /// the missing tables. Returns what the log's directory or storage had. The database stays open
    /// until the cluster is closed or dropped.
    ///
    /// In a cluster of processes every process calls this, with the same settings.
    ///
    /// # Errors
    /// [`Error::AlreadyOpen`]; [`Error::LogOfProcesses`]; a [`DatabaseOpenError`], for example a
    /// directory that another process has open, damage with the name of the file, or a name that
    /// belongs to another kind of object. After an error of the recovery, start a new cluster.
    pub fn open(self) -> Result<Found> {
        let NamedDatabase { cluster, options, place } = self;
        let (names, name) = (&cluster.names, options.name.clone());
        if names.database(&name).is_some() {
            return Err(Error::AlreadyOpen { name });
        }
        let instance = place.open(cluster, options)?;
        let found = instance.found();
        names.add(instance.clone());
        let opened = cluster.run(async |_| Ok(()));
        if let Err(error) = opened {
            names.remove(&name);
            // An error of the close is ignored, because the error of the opening is its cause.
            let _ = instance.close();
            return Err(error);
        }
        Ok(found)
    }
}

impl Place {
    fn open(self, cluster: &Running, options: DatabaseOptions) -> Result<Instance> {
        let config = &cluster.config;
        let (storage, device) = match (self, cluster.nodes_here()) {
            (Place::Memory, None) => return Ok(Instance::in_memory(config, options)),
            (Place::Memory, Some(here)) => {
                return Ok(Instance::in_memory_here(config, here, options));
            }
            (_, Some(_)) => return Err(Error::LogOfProcesses { name: options.name }),
            (Place::Storage(storage, device), None) => (storage, device),
            (Place::Directory(path), None) if cluster.world().is_none() => {
                return Ok(Instance::at(path, config, options)?);
            }
            (Place::Directory(path), None) if path.as_os_str().is_empty() => {
                return Err(DatabaseOpenError::NoPath.into());
            }
            (Place::Directory(path), None) => {
                let cause = |cause| unusable(&path, cause);
                (Arc::new(Disk::new(&path).map_err(cause)?) as Arc<dyn Storage>, None)
            }
        };
        // In virtual time the log is on a simulated device. Without a device, a thread would write
        // the log in real time.
        let device = cluster.world().map(|_| device.unwrap_or_default());
        Ok(Instance::on(storage, device, config, options)?)
    }
}

fn unusable(path: &Path, cause: std::io::Error) -> Error {
    DatabaseOpenError::Directory { path: path.display().to_string(), cause }.into()
}
