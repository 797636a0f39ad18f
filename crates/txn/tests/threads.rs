//! Threads on shared memory: reads are torn by real writers here.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::Mutex;

use latchwork_cluster::{ClusterConfig, Embedded};
use latchwork_coherence::CoherentMemory;
use latchwork_txn::{NodeClock, NodeId, Seen, Table, TableId, Timestamp, TxnError};
use latchwork_verbs::GlobalAddr;

/// All bytes of a value are the same.
fn is_whole(value: &[u8]) -> bool {
    value.iter().all(|byte| Some(byte) == value.first())
}

#[test]
fn rows_are_never_seen_half_written_and_none_is_lost() {
    const EACH: u64 = 16;
    const ROUNDS: u64 = 400;
    let config = ClusterConfig {
        compute_nodes: 2,
        workers: 2,
        memory_bytes: 16 << 20,
        cache_bytes: 2 << 20,
        line_size: 512,
        chunk_size: 64 << 10,
        ..ClusterConfig::default()
    };
    let cluster = Embedded::start(config).expect("a good configuration");
    let root = Arc::new(Mutex::new(None::<GlobalAddr>));
    let clock = Arc::new(NodeClock::new(NodeId(1)));
    let ends = cluster.run(|member| {
        let (root, clock) = (root.clone(), clock.clone());
        async move {
            let memory = member.memory.clone();
            let _operation = memory.enter().await?;
            let table = if member.index == 0 {
                let table = Table::create(memory.clone(), TableId(1)).await?;
                *root.lock().expect("no panic") = Some(table.root());
                table
            } else {
                loop {
                    let known = *root.lock().expect("no panic");
                    if let Some(root) = known {
                        break Table::open(memory.clone(), TableId(1), root).await?;
                    }
                    member.handle.sleep(std::time::Duration::from_millis(1)).await;
                }
            };
            let draw = || clock.draw(Timestamp::ZERO);
            let workers = 4;
            let mine = |k: u64| (k * workers + member.index as u64).to_be_bytes();
            let mut value = Vec::new();
            for round in 0..ROUNDS {
                let (k, fill) = (round % EACH, round as u8);
                let len = if round % 7 == 0 { 300 } else { 10 + (round % 60) as usize };
                match table.get(&mine(k), &mut value).await? {
                    Seen::Live(_) if round % 5 == 0 => table.delete(&mine(k), draw()?).await?,
                    Seen::Live(_) => table.update(&mine(k), &vec![fill; len], draw()?).await?,
                    _ => drop(table.insert(&mine(k), &vec![fill; len], draw()?).await?),
                }
                // Others' rows: read, and purged while they come and go.
                let other = (member.handle.random() % (EACH * workers)).to_be_bytes();
                table.get(&other, &mut value).await?;
                assert!(is_whole(&value), "{value:?}");
                table.purge(&other, draw()?).await?;
                if round % 50 == 0 {
                    let visit = |_: &[u8], value: &[u8], _| {
                        assert!(is_whole(value), "{value:?}");
                        ControlFlow::Continue(())
                    };
                    table.scan(Bound::Unbounded, visit).await?;
                }
            }
            for k in 0..EACH {
                match table.insert(&mine(k), &[k as u8; 20], draw()?).await {
                    Ok(_) => {}
                    Err(TxnError::Exists) => {
                        table.update(&mine(k), &[k as u8; 20], draw()?).await?
                    }
                    Err(error) => return Err(error),
                }
            }
            let mut found = 0;
            for k in 0..EACH {
                found += u64::from(matches!(table.get(&mine(k), &mut value).await?, Seen::Live(_)));
                assert_eq!(value, [k as u8; 20]);
            }
            Ok::<u64, TxnError>(found)
        }
    });
    for end in ends.expect("it ends") {
        assert_eq!(end.expect("no error"), EACH);
    }
}
