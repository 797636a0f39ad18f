//! Tuples that a transaction placed and did not use, and entries of the location cache.

use std::time::Duration;

use latchwork_coherence::CoherentMemory;
use latchwork_runtime::JoinHandle;
use latchwork_txn::{Conflict, Scheme, Timestamp, TxnError};

use crate::scenarios::left::with_an_entry_that_waits;
use crate::scenarios::stage::{Part, Stage, Tx, row};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// An outdated entry leads to a location that `B` has just taken for row 9. `B` inserts row 9
/// without a lookup. But the tombstone of row 9 exists, in a line for which `B` waits, because `C`
/// owns that line and is paused. Later `B` will give its new location up.
fn with_a_place_to_be_given_up(
    scheme: Scheme,
    patience: Duration,
) -> (Stage, JoinHandle<Option<Result<Timestamp, TxnError>>>) {
    let stage = with_an_entry_that_waits(scheme, 3);
    stage.run(C, async |tx, table| {
        tx.insert(table, &8_u32.to_be_bytes(), &row(108, 0)).await?;
        tx.insert(table, &9_u32.to_be_bytes(), &row(109, 0)).await
    });
    stage.commit_and_leave((C, A), 2, 8, async |tx, table| {
        tx.delete(table, &9_u32.to_be_bytes()).await
    });
    let locked = stage.lock(C, false, 8);
    stage.unlock(C, locked);
    // `B` has the leaves that it needs.
    let comes = stage.on(B, async |part: Part| {
        let mut tx = part.database.begin().await.expect("memory is in order");
        let put = tx.insert(&part.table, &50_u32.to_be_bytes(), &row(150, 0)).await;
        put.expect("it is not there");
        tx.prepare().await.expect("nobody is in the way")
    });
    stage.unlock(B, comes);
    stage.pass(micros(100));
    stage.cluster.pause(C, micros(300));
    let adds = stage.start(B, async move |part: Part| {
        let mut tx = part.database.begin().await.expect("memory is in order");
        tx.insert_blind(&part.table, &9_u32.to_be_bytes(), &row(9, 0)).expect("nothing is wrong");
        let handle = part.memory.handle().clone();
        handle.timeout(handle.now() + patience, tx.commit()).await.ok()
    });
    stage.pass(micros(100));
    (stage, adds)
}

/// Checks that no transaction takes a tuple in this location for a pending row.
fn the_place_is_free(stage: &Stage) {
    stage.run(C, async |tx, table| tx.insert(table, &5_u32.to_be_bytes(), &row(1, 0)).await);
    assert_eq!((stage.count(A, 1), stage.count(B, 1)), (1, 1));
}

#[test]
fn a_row_location_that_is_left_while_its_line_is_locked() {
    for scheme in Scheme::ALL {
        let (stage, adds) = with_a_place_to_be_given_up(scheme, micros(100_000));
        let locked = stage.lock(A, false, 0);
        let added = stage.end(adds).expect("it ends soon");
        assert_eq!(added.err().and_then(|e| e.conflict()), Some(Conflict::Locked), "{scheme}");
        stage.unlock(A, locked);
        stage.pass(micros(20_000));
        the_place_is_free(&stage);
        stage.run(B, async |tx, table| tx.insert(table, &9_u32.to_be_bytes(), &row(9, 0)).await);
        assert_eq!(stage.count(A, 9), 1);
        stage.finish();
    }
}

#[test]
fn a_commit_that_is_dropped_while_it_leaves_a_row_location_on_a_locked_line() {
    // Under timestamp ordering `B` would wait for a leaf that `A` has.
    for scheme in [Scheme::TwoPhaseLocking, Scheme::Optimistic] {
        // `B` has the line of row 9 at 300 µs, and requests the line of its location. No answer
        // says that this line is locked.
        let (stage, adds) = with_a_place_to_be_given_up(scheme, micros(500));
        let locked = stage.lock(A, false, 0);
        stage.cluster.pause(A, micros(600));
        assert!(stage.end(adds).is_none(), "{scheme}: it was to be dropped");
        stage.pass(micros(5_000));
        stage.unlock(A, locked);
        stage.pass(micros(20_000));
        the_place_is_free(&stage);
        let health = stage.health(B);
        assert!(health.retries > 0 && health.is_good(), "{health}");
        let locked =
            Some("another transaction has locked a row; abort the transaction and try it again");
        assert_eq!(health.last.as_deref(), locked);
        stage.finish();
    }
}

#[test]
fn a_row_location_that_a_lock_holds_up_is_reported_until_the_lock_is_released() {
    let (stage, adds) = with_a_place_to_be_given_up(Scheme::TwoPhaseLocking, micros(100_000));
    let locked = stage.lock(A, false, 0);
    assert!(stage.end(adds).expect("it ends soon").is_err());
    assert!(stage.health(B).is_good() && stage.health(A).is_good());
    // Contention alone is not a fault.
    stage.pass(Duration::from_secs(5));
    let health = stage.health(B);
    assert!(health.retries > 0 && health.is_good(), "{health}");
    stage.pass(Duration::from_secs(7));
    let health = stage.health(B);
    assert!(!health.is_good() && health.held_up == 1 && health.given_up == 0, "{health}");
    let cause = health.cause.expect("why it is held up");
    assert!(cause.contains("another transaction has locked a row"), "{cause}");
    stage.unlock(A, locked);
    stage.pass(micros(20_000));
    the_place_is_free(&stage);
    assert!(stage.health(B).is_good() && stage.health(B).cause.is_none());
    stage.finish();
}

/// The location cache of `A` has row 1 beside row 0, and `A` owns their line. Since then row 4 has
/// taken that slot, and row 1 has another location.
fn with_a_place_that_is_none(scheme: Scheme) -> Stage {
    let stage = Stage::new(scheme, 2);
    stage.run(A, async |tx, table| {
        tx.insert(table, &0_u32.to_be_bytes(), &row(100, 0)).await?;
        tx.insert(table, &1_u32.to_be_bytes(), &row(101, 0)).await
    });
    let locked = stage.lock(A, false, 1);
    stage.unlock(A, locked);
    stage.run(B, async |tx, table| tx.delete(table, &1_u32.to_be_bytes()).await);
    for id in [4_u32, 1] {
        stage.run(B, async move |tx, table| {
            tx.insert(table, &id.to_be_bytes(), &row(200 + id, id)).await
        });
    }
    let locked = stage.lock(A, false, 0);
    stage.unlock(A, locked);
    stage
}

/// Reads rows to write them.
async fn read<const N: usize>(part: &Part, keys: [u32; N]) -> Result<Tx, TxnError> {
    let mut tx = part.database.begin().await?;
    for key in keys {
        let mut found = Vec::new();
        assert!(tx.get_for_update(&part.table, &key.to_be_bytes(), &mut found).await?);
        let amount = if key == 1 { row(201, 1) } else { row(100, 0) };
        assert_eq!(found, amount);
    }
    Ok(tx)
}

#[test]
fn a_cached_location_that_has_another_row_by_now_is_not_kept_locked() {
    for scheme in Scheme::ALL {
        let stage = with_a_place_that_is_none(scheme);
        let tx = stage.on(A, async |part: Part| read(&part, [1]).await).expect("it is elsewhere");
        stage.run(B, async |tx, table| tx.update(table, &4_u32.to_be_bytes(), &row(204, 5)).await);
        stage
            .on(A, async move |part: Part| {
                let mut tx = tx;
                tx.update(&part.table, &1_u32.to_be_bytes(), &row(201, 6)).await?;
                tx.commit().await
            })
            .expect("nobody is in the way");
        stage.finish();
    }
}

#[test]
fn a_line_that_is_locked_for_a_row_stays_so_when_another_is_looked_for_there_in_vain() {
    let stage = with_a_place_that_is_none(Scheme::TwoPhaseLocking);
    let tx = stage.on(A, async |part: Part| read(&part, [0, 1]).await).expect("they are there");
    let locked = stage.on(B, async |part: Part| {
        let mut tx = part.database.begin().await?;
        tx.update(&part.table, &0_u32.to_be_bytes(), &row(100, 5)).await
    });
    assert_eq!(locked.err().and_then(|error| error.conflict()), Some(Conflict::Locked));
    stage.on(A, async move |_| tx.commit().await).expect("nobody is in the way");
    stage.finish();
}

#[test]
fn a_transaction_that_meets_a_lock_at_a_stale_cached_location_aborts_once() {
    let stage = with_a_place_that_is_none(Scheme::TwoPhaseLocking);
    let locked = stage.lock(A, false, 0);
    let mut conflicts = 0;
    while let Err(error) = stage.on(A, async |part: Part| read(&part, [1]).await) {
        assert_eq!(error.conflict(), Some(Conflict::Locked));
        conflicts += 1;
    }
    assert_eq!(conflicts, 1);
    stage.unlock(A, locked);
    stage.finish();
}
