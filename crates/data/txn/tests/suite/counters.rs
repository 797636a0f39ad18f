//! Bug, found by a hunt: the next table got the number of another one, and timestamps were drawn
//! twice. Mechanism: the creator's cache kept the new line of counters with a changed header. With
//! the setting `dirty-bounds` off, its eviction wrote the whole line back, over the counters. Fix:
//! such a line leaves the cache before its first atomic.

use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{Database, DatabaseId, NodeId, Schema, TransactionNode, TransactionSettings};
use latchwork_verbs_sim::SimConfig;

#[test]
fn the_eviction_of_a_new_line_of_counters_leaves_the_counters() {
    for bounds in ["on", "off"] {
        let mut config = ClusterConfig {
            compute_nodes: 1,
            memory_nodes: 1,
            workers: 1,
            memory_bytes: 1 << 20,
            cache_bytes: Cache::footprint(64, 1024),
            line_size: 1024,
            chunk_size: 64 << 10,
            ..ClusterConfig::default()
        };
        config.set("dirty-bounds", bounds).expect("a setting of the protocol");
        let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
        let work = move |member: latchwork_cluster::Member| async move {
            let memory = member.memory.clone();
            let _operation = memory.enter().await.expect("memory is in order");
            let node = TransactionNode::new(NodeId(0), None, TransactionSettings::default());
            let database = Database::create(memory.clone(), node, DatabaseId(1)).await;
            let database = database.expect("room");
            let mut tables = Vec::new();
            for name in ["one", "two", "three"] {
                let schema = Schema::builder(name).column("id", ColumnType::U8).primary_key(["id"]);
                let schema = schema.build().expect("a good schema");
                let table = database.create_table(schema).await.expect("a number of its own");
                tables.push(table.id().0);
                memory.evict(database.counters());
                memory.handle().sleep(Duration::from_millis(1)).await;
                assert!(memory.node().cache().find(database.counters()).is_none());
            }
            assert_eq!(tables, [1, 2, 3], "dirty-bounds {bounds}");
        };
        cluster.run(Duration::from_secs(10), work).expect("it ends");
    }
}
