//! [`TxnLoad`]: the settings of the workload with transactions over a table.

use latchwork_txn::Scheme;
use serde::{Deserialize, Serialize};

use super::values::{self, within};
use super::{Scenario, ScenarioError};

/// Transactions over a small table with a secondary index. Of a hundred steps, those that no field
/// below counts read one row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TxnLoad {
    /// The concurrency control.
    #[serde(with = "values::scheme")]
    pub scheme: Scheme,
    /// The number of keys.
    #[serde(deserialize_with = "within::<_, _, 1, 10_000>")]
    pub keys: u64,
    /// Half of all steps use one of this many keys, the lowest ones; 0: all keys alike.
    #[serde(deserialize_with = "within::<_, _, 0, 10_000>")]
    pub hot: u64,
    /// The maximum number of steps of a transaction.
    #[serde(deserialize_with = "within::<_, _, 1, 64>")]
    pub steps: u64,
    /// Of a hundred steps, the number of updates. Half of them read the row before.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub updates: u64,
    /// Of a hundred steps, the number of inserts.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub inserts: u64,
    /// Of a hundred steps, the number of deletes.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub deletes: u64,
    /// Of a hundred steps, the number of scans of a range, of either index and in either direction.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub scans: u64,
    /// Of a hundred transactions, the number that is dropped after a short time.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub dropped: u64,
    /// The most rows of a line; 0 for as many as fit.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000>")]
    pub rows_per_line: u64,
    /// The number of aborts after which a transaction is aged: others wait for it.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000>")]
    pub elder_after: u64,
}

impl Default for TxnLoad {
    fn default() -> Self {
        TxnLoad {
            scheme: Scheme::default(),
            keys: 12,
            hot: 3,
            steps: 4,
            updates: 30,
            inserts: 15,
            deletes: 10,
            scans: 15,
            dropped: 5,
            rows_per_line: 0,
            elder_after: 16,
        }
    }
}

impl TxnLoad {
    /// The least number of frames of a node with `tasks` tasks. Half of all frames may be locked,
    /// and under two-phase locking a scan locks the line of each row. Old entries of the secondary
    /// index may lead to further lines.
    pub(super) fn frames_min(&self, tasks: usize) -> usize {
        3 * self.keys as usize + 2 * tasks + 8
    }

    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |key: &str, text: String| {
            Err(ScenarioError::of_key(&format!("workload.txn{key}"), text))
        };
        let sum = self.updates + self.inserts + self.deletes + self.scans;
        if sum > 100 {
            let text = format!(
                "updates, inserts, deletes and scans make {sum} of a hundred: at most 100 would do"
            );
            return wrong("", text);
        }
        if self.hot > self.keys {
            let (hot, keys) = (self.hot, self.keys);
            return wrong(".hot", format!("{hot} of {keys} keys: 0 to {keys} would do"));
        }
        Ok(())
    }

    /// The most lines of the pool that the workload takes: the rows and the lines to which each
    /// worker adds rows, the pages of the indexes, and the tables of the database. Deleted rows
    /// make room that other rows take, so this is an estimate.
    pub(super) fn lines(&self, of: &Scenario, tasks: u64) -> u64 {
        let rows = self.steps * of.total_operations().min(20_000) / 4;
        4 * self.keys + 16 * tasks + rows + 32
    }
}
