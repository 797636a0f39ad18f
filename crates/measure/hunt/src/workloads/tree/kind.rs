//! [`Kind`]: the operations of an ordered index.

#[derive(Clone, Copy)]
pub(in crate::workloads) enum Kind {
    Get,
    TryGet,
    Insert,
    Update,
    UpdateRange,
    Upsert,
    Remove,
    Modify,
    Replace,
    ScanUp,
    ScanDown,
}
