//! [`DatabaseOptions`]: the options of a database.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use latchwork_txn::Schema;

/// The options with which a database is opened.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// The name in the memory pool. `database` by default. Two databases of one cluster need two
    /// names.
    pub name: String,
    /// The settings of transactions, including the concurrency control.
    pub transactions: latchwork_txn::TransactionSettings,
    /// The settings of the log of each node, for example whether a commit waits for the log.
    pub log: latchwork_wal::LogSettings,
    /// Tables that are made if they do not exist. None by default.
    pub tables: Vec<Schema>,
    /// The maximum wait of a worker for other workers and for the log, when it opens, closes or
    /// writes a checkpoint. 60 s by default. A wait for a line of memory has the `deadline` of the
    /// cluster instead.
    pub patience: Duration,
    /// Whether to open logs that have lost durable records. Such logs are cut to one consistent
    /// state: see [`LogDirectory::open_as`](latchwork_wal::LogDirectory::open_as). False by
    /// default: a loss is an error. [`Instance::losses`](crate::Instance::losses) returns the
    /// losses.
    pub accept_loss: bool,
    /// The number of threads that read the logs. By default the number of cores of the machine.
    pub replay_threads: usize,
}

impl Default for DatabaseOptions {
    fn default() -> DatabaseOptions {
        DatabaseOptions {
            name: "database".to_owned(),
            transactions: latchwork_txn::TransactionSettings::default(),
            log: latchwork_wal::LogSettings::default(),
            tables: Vec::new(),
            patience: Duration::from_secs(60),
            accept_loss: false,
            replay_threads: thread::available_parallelism().map_or(1, NonZeroUsize::get),
        }
    }
}
