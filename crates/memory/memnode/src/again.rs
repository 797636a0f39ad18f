//! Operations that may be done again when nobody knows whether they were applied.

use latchwork_verbs::VerbError;

/// How often at most. Then the connection counts as gone.
const AGAIN_MAX: u32 = 16;

/// Does `operation` again for as long as its end is ambiguous. For operations of which it makes no
/// difference whether they were applied before.
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
