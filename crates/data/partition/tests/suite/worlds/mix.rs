//! Random transactions over several parts.

use std::ops::ControlFlow;

use latchwork_coherence::{LineLocks, MemoryError, UserMessages};
use latchwork_partition::{
    OperationAnswer, PartitionOperation, Partitioned, PartitionedTransaction, RowOperation,
    TransactionRows,
};
use latchwork_runtime::Handle;
use latchwork_txn::{Range, Table, TxnError};
use latchwork_verbs::VerbError;

/// A row: the number of its part, and its number in the part.
type Id = (u8, u8);

#[derive(Clone, Debug)]
enum Step {
    Get(Id),
    /// Reads a row and adds one.
    Count(Id),
    Put(Id, u8),
    Part(Id, u64),
    Delete(Id),
    Scan(Id, u8, usize, bool),
    Bucket(u8, u8),
    /// Moves one from a row to another row, by `batch`.
    Move(Id, Id),
}

fn draw(handle: &Handle, parts: u8, keys: u8) -> Step {
    let below = |n: u8| handle.random_below(n.into()) as u8;
    let id = || (below(parts), below(keys));
    match handle.random_below(16) {
        0..=2 => Step::Get(id()),
        3..=5 => Step::Count(id()),
        6..=8 => Step::Put(id(), below(3)),
        9 => Step::Part(id(), handle.random()),
        10..=11 => Step::Delete(id()),
        12 => {
            let limit = if below(3) == 0 { 2 } else { usize::MAX };
            Step::Scan(id(), below(keys), limit, below(2) == 0)
        }
        13 => Step::Bucket(below(parts), below(3)),
        _ => Step::Move(id(), id()),
    }
}

fn key_of((part, id): Id) -> [u8; 2] {
    [part, id]
}

fn row_of(amount: u64, part: u8, bucket: u8) -> Vec<u8> {
    let mut row = amount.to_le_bytes().to_vec();
    row.push(part);
    row.push(bucket);
    row
}

/// Runs one transaction until it commits or is given up.
pub(crate) async fn transaction<M: LineLocks + UserMessages>(
    node: &Partitioned<M>,
    tables: &[Table<M>],
    keys: u8,
    skew: bool,
) {
    let handle = node.database().memory().handle().clone();
    let mut steps: Vec<_> =
        (0..1 + handle.random_below(5)).map(|_| draw(&handle, tables.len() as u8, keys)).collect();
    if skew {
        // Reads in one part and writes in another, while another transaction does the reverse.
        let parts = tables.len() as u64;
        let (one, on) = (handle.random_below(parts), 1 + handle.random_below(parts - 1));
        let other = ((one + on) % parts) as u8;
        let id = |part| (part, handle.random_below(keys.into()) as u8);
        steps = vec![Step::Get(id(one as u8)), Step::Put(id(other), 0)];
    }
    let give_up = handle.random_below(10) == 0;
    let ran = node
        .run(async |tx| {
            for step in &steps {
                self::step(tx, tables, step).await?;
            }
            if give_up { Err(TxnError::NotFound) } else { Ok(()) }
        })
        .await;
    match ran {
        Ok(()) if !give_up => {}
        Err(TxnError::NotFound) if give_up => {}
        // The outcome of an atomic operation on the global counter is unknown.
        Err(TxnError::Memory(error))
            if matches!(*error, MemoryError::Fabric(VerbError::Ambiguous { .. })) => {}
        // An error of a node that was away for too long.
        Err(TxnError::NoAnswer { .. } | TxnError::Contended { .. }) => {}
        other => panic!("{steps:?}: {other:?}"),
    }
}

async fn step<M: LineLocks + UserMessages>(
    tx: &mut PartitionedTransaction<M>,
    tables: &[Table<M>],
    step: &Step,
) -> Result<(), TxnError> {
    let mut row = Vec::new();
    let of = |part: u8| &tables[usize::from(part)];
    match *step {
        Step::Get(id) => {
            tx.get(of(id.0), &key_of(id), &mut row).await?;
        }
        Step::Count(id) => {
            if tx.get_for_update(of(id.0), &key_of(id), &mut row).await? {
                let amount = u64::from_le_bytes(row[..8].try_into().expect("8 bytes"));
                let amount = amount.wrapping_add(1).to_le_bytes();
                tx.update_part(of(id.0), &key_of(id), 0, &amount).await?;
            }
        }
        Step::Put(id, bucket) => {
            let new = row_of(1, id.0, bucket);
            match tx.insert(of(id.0), &key_of(id), &new).await {
                Err(TxnError::Exists) => tx.update(of(id.0), &key_of(id), &new).await?,
                other => other?,
            }
            // The transaction sees what it wrote, on any node.
            assert!(tx.get(of(id.0), &key_of(id), &mut row).await? && row == new);
        }
        Step::Part(id, amount) => {
            let changed = tx.update_part(of(id.0), &key_of(id), 0, &amount.to_le_bytes()).await;
            if !matches!(changed, Err(TxnError::NotFound)) {
                changed?;
            }
        }
        Step::Delete(id) => {
            let deleted = tx.delete(of(id.0), &key_of(id)).await;
            if !matches!(deleted, Err(TxnError::NotFound)) {
                deleted?;
                assert!(!tx.get(of(id.0), &key_of(id), &mut row).await?);
            }
        }
        Step::Scan((part, one), other, limit, descending) => {
            let (from, to) = ([part, one.min(other)], [part, one.max(other) + 1]);
            let range = Range { descending, ..Range::between(&from, &to).limit(limit) };
            let mut keys = Vec::new();
            tx.scan(of(part), range, |key, _| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            })
            .await?;
            let ordered = match descending {
                true => keys.is_sorted_by(|a, b| a > b),
                false => keys.is_sorted_by(|a, b| a < b),
            };
            assert!(ordered && keys.len() <= limit, "{keys:?}");
        }
        Step::Bucket(part, bucket) => {
            let (from, to) = ([part, bucket], [part, bucket + 1]);
            tx.scan_index(of(part), 0, Range::between(&from, &to), |_, row| {
                assert_eq!(row[8..10], [part, bucket]);
                ControlFlow::Continue(())
            })
            .await?;
        }
        Step::Move(from, to) => {
            for (id, add) in [(from, u64::MAX), (to, 1)] {
                let on = |what| PartitionOperation { table: of(id.0).id(), what };
                let key = key_of(id).to_vec();
                let get = on(RowOperation::Get { key: key.clone(), for_update: true });
                let [OperationAnswer::Row(Some(row))] = &tx.batch(id.0, vec![get]).await?[..]
                else {
                    return Ok(());
                };
                let amount = u64::from_le_bytes(row[..8].try_into().expect("8 bytes"));
                let bytes = amount.wrapping_add(add).to_le_bytes().to_vec();
                let put = on(RowOperation::UpdatePart {
                    key: key.clone(),
                    offset: 0,
                    bytes: bytes.clone(),
                });
                let again = on(RowOperation::Get { key, for_update: false });
                let answers = tx.batch(id.0, vec![put, again]).await?;
                let [OperationAnswer::Done, OperationAnswer::Row(Some(row))] = &answers[..] else {
                    panic!("{answers:?}")
                };
                assert_eq!(row[..8], bytes);
            }
        }
    }
    Ok(())
}
