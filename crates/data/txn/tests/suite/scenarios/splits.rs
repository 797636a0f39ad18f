//! Index leaves that a transaction has read, and that its own inserts split.

use std::ops::ControlFlow;

use latchwork_txn::{Conflict, Range, Scheme, TxnError};

use crate::scenarios::stage::{Part, Stage, row};

const A: usize = 0;
const B: usize = 1;

/// Adds a row at the first attempt.
async fn add(part: &Part, id: u32) -> Result<(), TxnError> {
    let mut tx = part.database.begin().await?;
    tx.insert(&part.table, &id.to_be_bytes(), &row(1000 + id, 0)).await?;
    tx.commit().await.map(drop)
}

#[test]
fn a_transaction_that_splits_a_leaf_that_it_has_read_does_not_conflict_with_itself() {
    for scheme in Scheme::ALL {
        let stage = Stage::new(scheme, 1);
        // In ascending order, and into the middle of the existing rows.
        let ids = (0..300_u32).chain((0..300).map(|id| 100_000 - 7 * (id * 37 % 300)));
        for id in ids {
            stage
                .on(A, async move |part: Part| add(&part, id).await)
                .expect("nobody is in the way");
        }
        stage.finish();
    }
}

/// One transaction reads all rows and adds some in between, which may split the leaf. Another
/// transaction adds one row anywhere meanwhile. Returns whether the conflict was detected in time.
fn meets(scheme: Scheme, rows: u32, other: u32) -> bool {
    let stage = Stage::new(scheme, 2);
    stage.run(A, async move |tx, table| {
        for id in 0..rows {
            tx.insert(table, &(100 * id).to_be_bytes(), &row(id, 0)).await?;
        }
        Ok(())
    });
    let comes = stage.on(A, async move |part: Part| {
        let mut tx = part.database.begin().await.expect("memory is in order");
        let visit = |_: &[u8], _: &[u8]| ControlFlow::Continue(());
        let seen = tx.scan(&part.table, Range::all(), visit).await.expect("nobody is in the way");
        assert_eq!(seen, rows as usize);
        for id in 0..16_u32 {
            let put = tx.insert(&part.table, &(1001 + id).to_be_bytes(), &row(3000 + id, 0)).await;
            put.expect("it is not there");
        }
        tx.prepare().await.expect("nobody is in the way")
    });
    let added = stage.on(B, async move |part: Part| {
        let mut tx = part.database.begin().await?;
        tx.insert(&part.table, &other.to_be_bytes(), &row(5000, 0)).await?;
        tx.commit().await
    });
    let validated = stage.on(A, async move |_| comes.validate().await.map(drop));
    let met = match (&validated, &added) {
        (Err(TxnError::Conflict(Conflict::Phantom)), Ok(_)) => true,
        // Under timestamp ordering the other transaction may come later than the reader.
        (Ok(()), Ok(_)) if scheme == Scheme::TimestampOrdering => true,
        (Ok(()), Err(error)) => error.conflict().is_some(),
        _ => false,
    };
    stage.pass(std::time::Duration::from_millis(50));
    stage.finish();
    met
}

#[test]
fn what_others_add_to_either_half_is_noticed() {
    for scheme in Scheme::ALL {
        // A leaf takes about 40 entries.
        for rows in (12..90).step_by(6) {
            for other in [50, 550, 1050, 100 * (rows - 2) + 50, 100 * rows + 50] {
                assert!(meets(scheme, rows, other), "{scheme}, {rows} rows, and {other}");
            }
        }
    }
}
