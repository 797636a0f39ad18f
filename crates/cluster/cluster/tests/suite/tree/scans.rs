//! Scans while other workers split and empty the pages.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;
use std::time::Duration;

use latchwork_blink::{Tree, TreeError};
use latchwork_cluster::{Embedded, Member, Protocol, Simulated, Worker};

use crate::tree::shape::{Shape, seeds};
use crate::tree::shared::{key, number, pass_time, shared_tree};

const LIMIT: Duration = Duration::from_secs(30);

/// The number of keys that are in the tree all the time. All other keys come and go.
const STABLE: u64 = 20;
const STABLE_EVERY: u64 = 16;
const KEYS: u64 = STABLE * STABLE_EVERY;

/// The first worker of each node scans `scans` times in each direction. Meanwhile the other workers
/// insert and remove keys between the stable keys. Returns the number of unstable keys that the
/// scans saw.
async fn scan_while_others_write(member: Member, scans: u64) -> Result<u64, TreeError> {
    let tree = shared_tree(&member, async |tree| {
        for k in 0..STABLE {
            tree.insert(&key(k * STABLE_EVERY), b"stable").await?;
        }
        Ok(())
    })
    .await?;
    let running = Rc::new(Cell::new(true));
    let writer = member.handle.spawn(write(member.clone(), tree.clone(), running.clone()));
    let mut between = 0;
    for round in 0..2 * scans {
        let (mut stable, mut last) = (Vec::new(), None);
        let upwards = round % 2 == 0;
        let visit = |key: &[u8], value: &[u8]| {
            let n = number(key).unwrap_or_else(|what| panic!("{what}"));
            let in_order = last.replace(n).is_none_or(|last| (last < n) == upwards && last != n);
            assert!(in_order, "{n} after {last:?}");
            if n.is_multiple_of(STABLE_EVERY) {
                assert_eq!(value, b"stable");
                stable.push(n);
            } else {
                assert_eq!(value, key);
                between += 1;
            }
            ControlFlow::Continue(())
        };
        let expected = (0..STABLE).map(|k| k * STABLE_EVERY);
        let expected: Vec<_> = if upwards {
            tree.scan_up(Bound::Unbounded, usize::MAX, visit).await?;
            expected.collect()
        } else {
            tree.scan_down(Bound::Unbounded, usize::MAX, visit).await?;
            expected.rev().collect()
        };
        assert_eq!(stable, expected, "upwards: {upwards}");
        pass_time(&member).await;
    }
    running.set(false);
    writer.await.expect("nobody aborts it")?;
    tree.release_spares().await?;
    Ok(between)
}

async fn write(
    member: Member,
    tree: Tree<Worker>,
    running: Rc<Cell<bool>>,
) -> Result<(), TreeError> {
    while running.get() {
        let n = member.handle.random_below(KEYS);
        if !n.is_multiple_of(STABLE_EVERY) {
            let key = key(n);
            if member.handle.random_below(4) > 0 {
                tree.upsert(&key, &key).await?;
            } else {
                tree.remove(&key).await?;
            }
        }
        pass_time(&member).await;
    }
    Ok(())
}

fn shape(seed: u64, protocol: Protocol) -> Shape {
    Shape { nodes: 3, workers: 1, ..Shape::drawn(seed, protocol) }
}

#[test]
fn scans_see_every_permanent_key_once_and_in_order_while_pages_split() {
    for (seed, protocol) in seeds(5 << 20, 10).flat_map(|seed| Protocol::ALL.map(|p| (seed, p))) {
        let shape = shape(seed, protocol);
        let cluster = Simulated::start(shape.config(), shape.network()).expect("a configuration");
        let between = cluster
            .run(LIMIT, |member| scan_while_others_write(member, 3))
            .unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        let between = between.into_iter().sum::<Result<u64, _>>();
        let between = between.unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        assert!(between > 0, "{shape:?}: nobody wrote meanwhile");
    }
}

#[test]
fn scans_of_threads_see_every_permanent_key_once() {
    for protocol in Protocol::ALL {
        let shape = Shape { workers: 2, frames: 12, ..shape(1, protocol) };
        let cluster = Embedded::start(shape.config()).expect("a configuration");
        let between = cluster
            .run(|member| scan_while_others_write(member, 10))
            .unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        for worker in between {
            worker.unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        }
    }
}
