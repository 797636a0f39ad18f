//! [`Answers`]: the answers of all workers.

use latchwork_harness::{AppError, RunCluster};
use latchwork_runtime::sync::Mutex;
use serde::{Deserialize, Serialize};

use crate::digest;

/// The most answers of a query.
pub(crate) const ANSWERS_MAX: usize = 20_000_000;

/// Answers that a process sends at once to the others. Each has some 18 bytes, and a value of the
/// membership store has a mebibyte at most.
const BATCH: usize = 40_000;

/// One answer: a row of the indexed file.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The number of the question, or the row of the second file of a join.
    pub(crate) query: u64,
    /// The row.
    pub(crate) id: u64,
    /// The distance, in the unit of the space.
    pub(crate) distance: f64,
}

/// The answers of a process so far.
#[derive(Default)]
pub(crate) struct Answers(Mutex<Vec<Answer>>);

impl Answers {
    /// Adds answers. Returns whether there is room for more.
    pub(crate) fn add(&self, answers: impl IntoIterator<Item = Answer>) -> bool {
        let mut all = self.0.lock();
        all.extend(answers);
        all.len() <= ANSWERS_MAX
    }

    /// Removes all answers.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// The answers of all processes, in the order of questions, then distances, then rows. All
    /// processes call this method.
    ///
    /// # Errors
    /// When another process died or left.
    pub(crate) fn gather(&self, cluster: &RunCluster) -> Result<Vec<Answer>, AppError> {
        let own = std::mem::take(&mut *self.0.lock());
        let mut all = Vec::new();
        if cluster.process().1 == 1 {
            all = own;
        } else {
            let most = cluster.share(own.len())?.into_iter().max().unwrap_or(0);
            let mut batches = own.chunks(BATCH);
            for _ in 0..most.div_ceil(BATCH) {
                let batch = batches.next().unwrap_or_default().to_vec();
                all.extend(cluster.share(batch)?.into_iter().flatten());
            }
        }
        all.sort_by(|a, b| {
            let by_distance = a.query.cmp(&b.query).then(a.distance.total_cmp(&b.distance));
            by_distance.then(a.id.cmp(&b.id))
        });
        Ok(all)
    }
}

/// A hash of answers in order. It has 48 bits, so that a float holds it.
pub(crate) fn digest(answers: &[Answer]) -> u64 {
    let words = answers.iter().flat_map(|a| [a.query, a.id, a.distance.to_bits()]);
    words.fold(0, digest::add) >> 16
}
