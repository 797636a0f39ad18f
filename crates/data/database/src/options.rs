//! [`Options`].

use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use latchwork_txn::Schema;

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name in the memory pool. `database` by default; two databases of one cluster need two
    /// names.
    pub name: String,
    /// How transactions work, the concurrency control among it.
    pub transactions: latchwork_txn::Settings,
    /// How the log of each node works: whether a commit waits for it, among others.
    pub log: latchwork_wal::Settings,
    /// Tables that are made if they are not there. None by default.
    pub tables: Vec<Schema>,
    /// How long a worker waits for the others, and for the log, when it opens, closes or writes a
    /// checkpoint. 60 s by default. Waits for a line of memory end by the cluster's own `deadline`.
    pub patience: Duration,
    /// Whether logs that have lost what was durable are opened all the same, cut to one state that
    /// was: see [`LogDirectory::open_as`](latchwork_wal::LogDirectory::open_as). False by default:
    /// a loss is an error. [`Instance::losses`](crate::Instance::losses) says what was lost.
    pub accept_loss: bool,
    /// Threads that read the logs. As many as the machine has cores by default.
    pub replay_threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            name: "database".to_owned(),
            transactions: latchwork_txn::Settings::default(),
            log: latchwork_wal::Settings::default(),
            tables: Vec::new(),
            patience: Duration::from_secs(60),
            accept_loss: false,
            replay_threads: thread::available_parallelism().map_or(1, NonZeroUsize::get),
        }
    }
}
