//! What a transaction over several nodes costs in messages and records.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_partition::{Partitioned, Settings, Site, Stats};
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{Database, DatabaseId, Node, NodeId, Schema, Table};
use latchwork_verbs_sim::SimConfig;
use latchwork_wal::storage::Torn;
use latchwork_wal::{Device, Log, LogDirectory};

const NODES: usize = 3;

#[test]
fn messages_and_records_are_as_the_book_says() {
    let config = ClusterConfig {
        compute_nodes: NODES,
        memory_nodes: 1,
        workers: 1,
        inflight: 8,
        memory_bytes: 16 << 20,
        cache_bytes: Cache::footprint(256, 1024),
        line_size: 1024,
        chunk_size: 128 << 10,
        seed: 1,
        ..ClusterConfig::default()
    };
    let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
    let directory = LogDirectory::open(Arc::new(Torn::new(1)), DatabaseId(1)).expect("empty");
    let site = |_| Arc::new(Site::new(1, Settings::default()));
    let sites: Rc<Vec<Arc<Site>>> = Rc::new((0..NODES).map(site).collect());
    let (root, done) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(false)));
    let body = move |member: latchwork_cluster::Member| {
        let (sites, root, done, directory) =
            (sites.clone(), root.clone(), done.clone(), directory.clone());
        async move {
            let _operation = member.memory.enter().await.expect("memory is in order");
            let (id, handle, memory) =
                (NodeId(member.node as u8), member.handle.clone(), member.memory.clone());
            let settings = latchwork_wal::Settings::default();
            let log = Log::simulated(&directory, id, settings, &handle, Device::default());
            let node =
                Node::new(id, Some(log.expect("closed")), latchwork_txn::Settings::default());
            let database = if member.node == 0 {
                let database = Database::create(memory, node, DatabaseId(1)).await.expect("room");
                for part in 0..NODES {
                    let schema = Schema::builder(format!("rows{part}"))
                        .column("part", ColumnType::U8)
                        .column("amount", ColumnType::U8)
                        .primary_key(["part"]);
                    let schema = schema.build().expect("a good schema");
                    let table = database.create_table(schema).await.expect("room");
                    let row = async |tx: &mut latchwork_txn::Transaction<_>| {
                        tx.insert(&table, &[part as u8], &[0]).await
                    };
                    database.run(row).await.expect("nobody is in the way");
                }
                *root.borrow_mut() = Some(database.root());
                database
            } else {
                while root.borrow().is_none() {
                    handle.sleep(Duration::from_micros(20)).await;
                }
                let at = root.borrow().expect("it is there");
                Database::open(memory, node, at).await.expect("it is there")
            };
            let mut tables = Vec::new();
            for part in 0..NODES {
                tables.push(database.table(&format!("rows{part}")).await.expect("it is there"));
            }
            let owner = Rc::new(|_: &Table<_>, key: &[u8]| Some(key[0]));
            let site = sites[member.node].clone();
            let node = Partitioned::start(database, site, 0, tables.clone(), owner).expect("fits");
            handle.sleep(Duration::from_millis(5)).await;
            if member.node == 0 {
                // Rows written on these nodes: messages, prepare records, decision records.
                let cases: [(&[u8], [u64; 3]); 4] = [
                    (&[0], [0, 0, 0]),
                    (&[1], [4, 0, 0]),
                    (&[0, 1], [6, 1, 1]),
                    (&[0, 1, 2], [12, 2, 1]),
                ];
                let sum = |of: fn(&Stats) -> u64| sites.iter().map(|site| of(&site.stats())).sum();
                let now = || -> [u64; 3] {
                    [sum(|s| s.messages), sum(|s| s.prepared), sum(|s| s.decided)]
                };
                for (parts, costs) in cases {
                    let before = now();
                    let begin = handle.now();
                    let write = async |tx: &mut latchwork_partition::Transaction<_>| {
                        for &part in parts {
                            tx.update(&tables[usize::from(part)], &[part], &[1]).await?;
                        }
                        Ok(())
                    };
                    node.run(write).await.expect("nobody is in the way");
                    println!("{parts:?}: {:?}", handle.now() - begin);
                    // What comes behind the acknowledgement.
                    handle.sleep(Duration::from_millis(1)).await;
                    let after = now();
                    let spent = [0, 1, 2].map(|at| after[at] - before[at]);
                    assert_eq!(spent, costs, "{parts:?}");
                }
                done.set(true);
            }
            while !done.get() {
                handle.sleep(Duration::from_micros(50)).await;
            }
        }
    };
    cluster.run(Duration::from_secs(10), body).expect("it ends");
}
