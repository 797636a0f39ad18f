//! [`TransactionRules`]: the rules of the schemes that a checker can break.

/// The rules that make transactions serializable, also when nodes die. A checker breaks one, to
/// show that it would find the bug. Everywhere else all rules hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransactionRules {
    /// A scan, and a lookup that finds no row, is a read of index leaves: a row that comes or goes
    /// there is a conflict.
    pub leaves_count: bool,
    /// An optimistic transaction that has read a row validates that the row is unchanged.
    pub rows_are_validated: bool,
    /// Two-phase locking keeps its read locks at least until the validation.
    pub keeps_read_locks: bool,
    /// Under timestamp ordering a write below the read timestamp of its page is too late.
    pub read_timestamps_count: bool,
    /// A pending row whose node has ended is erased.
    pub abandoned_rows_go: bool,
}

impl TransactionRules {
    /// All rules hold.
    pub const ALL: TransactionRules = TransactionRules {
        leaves_count: true,
        rows_are_validated: true,
        keeps_read_locks: true,
        read_timestamps_count: true,
        abandoned_rows_go: true,
    };
}

impl Default for TransactionRules {
    fn default() -> Self {
        TransactionRules::ALL
    }
}
