//! The finisher: a task that takes the remaining steps of a transaction, when the future of its
//! caller is dropped or a step has failed.

use std::time::Duration;

use latchwork_coherence::LineLocks;
use latchwork_strict::strict_assert;
use latchwork_wal::Timestamp;

use super::phases::{Rest, Stopped};

/// The maximum number of attempts that fail because of memory, an index or the log. Attempts that
/// meet other transactions are not counted, because those transactions usually end soon.
const TRIES: u32 = 1000;
const _: () = assert!(
    TRIES > 0 && !PAUSE.is_zero() && PAUSE.as_millis() < HELD_UP_AFTER.as_millis(),
    "a task tries again before it is held up"
);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);
/// The wait for other transactions after which [`Health`](crate::Health) reports the task as held
/// up.
const HELD_UP_AFTER: Duration = Duration::from_secs(10);

impl<M: LineLocks> Rest<M> {
    /// Takes all remaining steps.
    pub(super) async fn run(self) -> Result<Timestamp, Box<Stopped<M>>> {
        let mut rest = self;
        loop {
            rest = match rest {
                Rest::Logged(logged) => logged.wait().await?,
                Rest::Committed(committed) => Rest::Installed(committed.install().await?),
                Rest::Installed(installed) => return installed.publish().await,
                Rest::Aborting(aborting) => return Err(Box::new(aborting.undo().await)),
            }
        }
    }

    /// Hands the transaction over to a task.
    pub(super) fn spawn(mut self) {
        let parts = self.parts_mut();
        strict_assert!(parts.attempts.is_none(), "a task hands its transaction over");
        parts.attempts = Some(Box::default());
        let handle = parts.database.memory().handle().clone();
        drop(handle.spawn_finisher(self.run_alone()));
    }

    /// Ends the transaction when no caller waits for it any more.
    async fn run_alone(mut self) {
        let database = &self.parts_mut().database;
        let (node, handle) = (database.node().clone(), database.memory().handle().clone());
        let patience = handle.now() + HELD_UP_AFTER;
        let mut tries = 0;
        while tries < TRIES {
            let Err(stopped) = self.run().await else { return };
            let Stopped { rest: Some(rest), error } = *stopped else { return };
            self = rest;
            let is_contended = error.conflict().is_some();
            tries += u32::from(!is_contended);
            let attempts = self.parts_mut().attempts.get_or_insert_default();
            if !is_contended || handle.now() >= patience {
                attempts.held_up.get_or_insert_with(|| node.hold_up(&error));
            }
            node.note_retry(&error);
            attempts.failure = Some(error.to_string().into());
            handle.sleep(PAUSE).await;
        }
    }
}
