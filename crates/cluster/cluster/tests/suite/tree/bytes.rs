//! The bytes that the tree's operations write back.

use std::time::Duration;

use latchwork_blink::{Tree, TreeConfig, TreeError};
use latchwork_cluster::{Member, Simulated};
use latchwork_verbs_sim::SimConfig;

use crate::common::small;

const LIMIT: Duration = Duration::from_secs(60);
const KEYS: u64 = 400;
const VALUE: usize = 24;
const LINE: u64 = 512;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// The bytes that each operation writes back on average. Every line is released after the
/// operation.
async fn each<F>(member: &Member, mut act: F) -> Result<f64, TreeError>
where
    F: AsyncFnMut(u64) -> Result<(), TreeError>,
{
    let written = || member.memory.node().counters().bytes_written_back;
    // Releases the lines that the loading left in the cache.
    give_back(member);
    member.handle.sleep(Duration::from_millis(1)).await;
    let before = written();
    for n in 0..KEYS {
        act(n * 7919 % KEYS).await?;
        give_back(member);
        member.handle.sleep(Duration::from_micros(50)).await;
    }

    Ok((written() - before) as f64 / KEYS as f64)
}

fn give_back(member: &Member) {
    let lines: Vec<_> = member.memory.node().cache().lines().map(|(line, _)| line).collect();
    lines.into_iter().for_each(|line| _ = member.memory.evict(line));
}

async fn measure(member: Member) -> Result<[f64; 3], TreeError> {
    let tree = Tree::create(member.memory.clone(), TreeConfig::default()).await?;
    for n in 0..KEYS {
        tree.insert(&key(2 * n), &[1; VALUE]).await?;
    }
    let gets = each(&member, async |n| tree.get(&key(2 * n)).await.map(drop)).await?;
    let update = async |n| tree.update(&key(2 * n), &[2; VALUE]).await.map(drop);
    let updates = each(&member, update).await?;
    let insert = async |n| tree.insert(&key(2 * n + 1), &[3; VALUE]).await.map(drop);
    let inserts = each(&member, insert).await?;
    assert_eq!(tree.validate().await?.entries, 2 * KEYS);
    Ok([gets, updates, inserts])
}

fn written(bounds: bool) -> [f64; 3] {
    let mut config = small(1, 1, 128, 3);
    config.node.dirty_bounds = bounds;
    let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
    let mut done = cluster.run(LIMIT, measure).expect("a world that ends in order");
    done.remove(0).expect("no error")
}

/// A read writes nothing back. An update writes only its value, and an insert without a split only
/// a part of its page. Without dirty bounds an update and an insert each write at least a whole
/// line.
#[test]
fn an_update_writes_its_value_back_and_not_its_page() {
    let [gets, updates, inserts] = written(true);
    println!("bytes: get {gets}, update {updates}, insert {inserts}");
    assert_eq!((gets, updates), (0.0, VALUE as f64));
    let [gets, updates, more] = written(false);
    println!("bytes without bounds: get {gets}, update {updates}, insert {more}");
    assert_eq!((gets, updates), (0.0, LINE as f64));
    // Some inserts split a page, and write two new pages.
    assert!(more >= LINE as f64 && inserts < 0.9 * more, "{inserts} and {more}");
}
