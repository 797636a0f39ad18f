//! Rows that are replaced as a whole or in part, moved and deleted, several times in one
//! transaction. Whichever of these changes affect an index, the index leads to the existing rows
//! and to nothing else.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_txn::schema::{ColumnType, Order};
use latchwork_txn::{
    Database, DatabaseId, NodeId, Range, Schema, Scheme, TransactionNode, TransactionSettings,
    TxnError,
};
use latchwork_verbs_sim::SimConfig;

const TRANSACTIONS: u32 = 400;

fn schema() -> Schema {
    let schema = Schema::builder("things")
        .column("id", ColumnType::U8)
        .column("place", ColumnType::U8)
        .column("weight", ColumnType::U8)
        .column("name", ColumnType::Text(3))
        .column("note", ColumnType::Blob)
        .primary_key(["id"])
        .index("by_place", [("place", Order::Ascending)])
        .index("by_name", [("name", Order::Ascending)]);
    schema.build().expect("a good schema")
}

/// A row: a place and a weight, the length of the name, the name, and a note.
fn row(place: u8, weight: u8, name: &[u8], note: &[u8]) -> Vec<u8> {
    [&[place, weight, name.len() as u8], name, note].concat()
}

async fn play(scheme: Scheme, member: Member) {
    let memory = member.memory.clone();
    let _operation = memory.enter().await.expect("memory is in order");
    let node = TransactionNode::new(
        NodeId(0),
        None,
        TransactionSettings { scheme, ..TransactionSettings::default() },
    );
    let database = Database::create(memory.clone(), node, DatabaseId(1)).await.expect("room");
    let table = database.create_table(schema()).await.expect("room");
    let below = |n| member.handle.random_below(n) as u8;
    let mut rows = BTreeMap::new();
    for _ in 0..TRANSACTIONS {
        let mut model = rows.clone();
        let mut tx = database.begin().await.expect("memory is in order");
        for _ in 0..=below(6) {
            let id = below(4);
            let key = [id];
            let names: [&[u8]; 3] = [b"", b"ab", b"ac"];
            let other =
                row(below(3), below(3), names[usize::from(below(3))], &b"notes"[..below(6).into()]);
            let Some(there) = model.get_mut(&id) else {
                match tx.update(&table, &key, &other).await {
                    Err(TxnError::NotFound) => {}
                    ended => panic!("{ended:?}"),
                }
                tx.insert(&table, &key, &other).await.expect("nobody is in the way");
                model.insert(id, other);
                continue;
            };
            match below(5) {
                0 => {
                    tx.delete(&table, &key).await.expect("it is there");
                    model.remove(&id);
                    continue;
                }
                1 => {
                    let at = usize::from(below(2));
                    there[at] = below(3);
                    tx.update_part(&table, &key, at, &there[at..=at]).await.expect("it is there");
                    continue;
                }
                // The place and the name stay; the row grows or shrinks.
                2 | 3 => {
                    let end = 3 + usize::from(there[2]);
                    there.truncate(end);
                    there[1] = below(3);
                    there.extend_from_slice(&b"notes"[..below(6).into()]);
                }
                _ => there.clone_from(&other),
            }
            tx.update(&table, &key, there).await.expect("it is there");
        }
        if below(5) == 0 {
            tx.abort();
        } else {
            tx.commit().await.expect("nobody is in the way");
            rows = model;
        }
        for index in 0..2 {
            let mut tx = database.begin().await.expect("memory is in order");
            let mut found = Vec::new();
            let visit = |key: &[u8], row: &[u8]| {
                found.push((key[0], row.to_vec()));
                ControlFlow::Continue(())
            };
            tx.scan_index(&table, index, Range::all(), visit).await.expect("nobody is in the way");
            tx.commit().await.expect("nobody is in the way");
            let mut expected: Vec<_> = rows.iter().map(|(id, row)| (*id, row.clone())).collect();
            let name = |row: &[u8]| row[3..3 + usize::from(row[2])].to_vec();
            match index {
                0 => expected.sort_by_key(|(id, row)| (row[0], *id)),
                _ => expected.sort_by_key(|(id, row)| (name(row), *id)),
            }
            assert_eq!(found, expected, "{scheme}, index {index}");
        }
    }
}

#[test]
fn indexes_lead_to_what_is_there_whatever_became_of_rows() {
    for scheme in Scheme::ALL {
        for seed in 1..4 {
            let config = ClusterConfig {
                compute_nodes: 1,
                memory_nodes: 1,
                workers: 1,
                memory_bytes: 64 << 20,
                cache_bytes: Cache::footprint(2048, 1024),
                line_size: 1024,
                chunk_size: 128 << 10,
                seed,
                ..ClusterConfig::default()
            };
            let cluster =
                Simulated::start(config, SimConfig::default()).expect("a good configuration");
            let ran = cluster.run(Duration::from_secs(60), move |member| play(scheme, member));
            ran.expect("it ends");
        }
    }
}
