//! The five transaction types, and the standard's times and shares of each.

use std::time::Duration;

use latchwork_report::histogram::OperationKindSet;

use crate::WorkloadError;

/// A transaction type, in the order of `--weight`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TransactionKind {
    /// Clause 2.4.
    NewOrder,
    /// Clause 2.5.
    Payment,
    /// Clause 2.6.
    OrderStatus,
    /// Clause 2.7.
    Delivery,
    /// Clause 2.8.
    StockLevel,
}

impl TransactionKind {
    /// All types.
    pub const ALL: [TransactionKind; 5] = [
        TransactionKind::NewOrder,
        TransactionKind::Payment,
        TransactionKind::OrderStatus,
        TransactionKind::Delivery,
        TransactionKind::StockLevel,
    ];

    /// The type's name on a command line.
    pub fn flag(self) -> &'static str {
        ["neworder", "payment", "orderstatus", "delivery", "stocklevel"][self.index()]
    }

    /// The constant time for which a terminal keys in the input (clause 5.2.5.2).
    pub fn keying_time(self) -> Duration {
        Duration::from_secs([18, 3, 2, 2, 2][self.index()])
    }

    /// The mean time for which a terminal thinks after the answer (clause 5.2.5.4).
    pub fn mean_think_time(self) -> Duration {
        Duration::from_secs([12, 12, 10, 5, 5][self.index()])
    }

    /// The limit for 90 % of the response times (clauses 5.2.5.3 and 5.2.5.7). In the standard a
    /// delivery answers when it is queued, and may take 80 s to finish (clause 2.7.2.2). Here the
    /// limit of the answer applies to the whole delivery, which is stricter.
    pub fn response_time_limit(self) -> Duration {
        Duration::from_secs([5, 5, 5, 5, 20][self.index()])
    }

    /// The minimum share in the mix, in percent (clause 5.2.3). New orders have the rest.
    pub(crate) fn least_percent(self) -> u32 {
        [0, 43, 4, 4, 4][self.index()]
    }
}

impl std::str::FromStr for TransactionKind {
    type Err = WorkloadError;

    /// Parses the names of [`flag`](TransactionKind::flag).
    fn from_str(text: &str) -> Result<TransactionKind, WorkloadError> {
        let found = TransactionKind::ALL.into_iter().find(|kind| kind.flag() == text);
        found.ok_or_else(|| {
            let flags = TransactionKind::ALL.map(TransactionKind::flag).join(", ");
            WorkloadError::Conflict(format!(
                "there is no transaction `{text}`: give one of {flags}"
            ))
        })
    }
}

impl OperationKindSet for TransactionKind {
    const NAMES: &'static [&'static str] =
        &["NEW_ORDER", "PAYMENT", "ORDER_STATUS", "DELIVERY", "STOCK_LEVEL"];

    fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_by_their_flags() {
        for kind in TransactionKind::ALL {
            assert_eq!(kind.flag().parse::<TransactionKind>().unwrap(), kind);
        }
        let error = "NewOrder".parse::<TransactionKind>().unwrap_err().to_string();
        assert!(error.contains("give one of neworder, payment, orderstatus"), "{error}");
    }

    #[test]
    fn the_table_of_clause_5_2_5_7_is_complete() {
        let seconds = TransactionKind::ALL.map(|kind| {
            [kind.keying_time(), kind.mean_think_time(), kind.response_time_limit()]
                .map(|time| time.as_secs())
        });
        assert_eq!(seconds, [[18, 12, 5], [3, 12, 5], [2, 10, 5], [2, 5, 5], [2, 5, 20]]);
        let shares = TransactionKind::ALL.map(TransactionKind::least_percent);
        assert_eq!(shares, [0, 43, 4, 4, 4]);
    }
}
