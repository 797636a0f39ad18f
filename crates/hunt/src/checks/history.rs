//! Whether what the clients were told can be explained by one order.

use latchwork_workload::history::{Call, RegisterOperation, check_register};

use super::{Verdict, listed};
use crate::Check;
use crate::workloads::lines::{LineCall, Stamp};

/// The calls on one line of the workload `lines`, which held `Stamp::default()` at first.
pub(crate) fn check_line(name: &str, calls: &[LineCall]) -> Verdict {
    let register: Vec<_> = calls
        .iter()
        .map(|call| Call {
            invoked: call.invoked,
            returned: call.returned,
            operation: match call.wrote {
                Some(stamp) => RegisterOperation::Write(stamp),
                None => RegisterOperation::Read(call.saw),
            },
        })
        .collect();
    check_register(Stamp::default(), &register).map_err(|violation| {
        let mut calls = calls.to_vec();
        calls.sort_by_key(|call| call.invoked);
        (Check::Linearizability, format!("{name}: {violation}{}", listed(&calls, 60)))
    })
}
