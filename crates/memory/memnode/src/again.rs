//! The repetition of operations with an unknown outcome.

use latchwork_verbs::VerbError;

/// The maximum number of repetitions. After that the connection counts as failed.
const AGAIN_MAX: u32 = 16;
const _: () = assert!(AGAIN_MAX > 0, "an ambiguous outcome is tried again");

/// Repeats `operation` while its outcome is ambiguous, at most [`AGAIN_MAX`] times. The operation
/// must have the same effect whether it was applied before or not.
pub(crate) async fn repeatedly<T>(
    operation: impl AsyncFn() -> Result<T, VerbError>,
) -> Result<T, VerbError> {
    let mut again = 0;
    loop {
        match operation().await {
            Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
            end => return end,
        }
    }
}
