//! Two processes share one tree, and each is one compute node. The first inserts keys, and both
//! find them. Then both insert the same other keys at the same time. One command starts both:
//!
//! ```text
//! cargo run --release -p latchwork --example two_processes
//! ```
//!
//! Or start each in a terminal of its own. The first also serves the memory:
//!
//! ```text
//! cargo run --release -p latchwork --example two_processes -- file:/tmp/two memory
//! cargo run --release -p latchwork --example two_processes -- file:/tmp/two
//! ```

use std::process::{Child, Command};
use std::time::Duration;
use std::{env, fs, process, thread};

use latchwork::cluster::{MemoryHost, Transport};
use latchwork::membership::{self, Joining, Membership, Role};
use latchwork::runtime::Clock;
use latchwork::{Cluster, ClusterConfig, ClusterWorker, Result};

const KEYS: u64 = 20_000;
/// How long a process waits for the other one. A process that is silent for so long is dead.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts what the arguments ask for.
pub fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args[..] {
        [] => {
            let directory = env::temp_dir().join(format!("two_processes-{}", process::id()));
            let endpoint = format!("file:{}", directory.display());
            let program = env::current_exe()?;
            let end = both(&endpoint, Command::new(program).arg(&endpoint), PATIENCE);
            let _ = fs::remove_dir_all(directory);
            end
        }
        [endpoint] => compute(endpoint, PATIENCE),
        [endpoint, role] if role == "memory" => memory_and_compute(endpoint, PATIENCE),
        _ => Err("usage: two_processes [file:/DIRECTORY/NAME [memory]]".into()),
    }
}

/// The second process. It does not outlive this value.
struct Second(Child);

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the second process, and is the first one.
pub fn both(endpoint: &str, second: &mut Command, patience: Duration) -> Result<()> {
    let mut second = Second(second.spawn()?);
    memory_and_compute(endpoint, patience)?;
    // The second process has left the cluster, so it is about to end.
    let clock = Clock::start();
    let deadline = clock.now() + patience;
    loop {
        match second.0.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("the second process: {status}").into()),
            None if clock.now() > deadline => return Err("the second process does not end".into()),
            None => thread::park_timeout(Duration::from_millis(1)),
        }
    }
}

/// Serves the memory, and is one of the two compute nodes beside it.
pub fn memory_and_compute(endpoint: &str, patience: Duration) -> Result<()> {
    let role = Role::Memory { bytes: 64 << 20, chip_bytes: 0 };
    let memory = MemoryHost::start(&Transport::default(), member(endpoint, role)?, false)?;
    let end = compute(endpoint, patience);
    // The memory stays until the other process has left, and leaves after an error, too. A memory
    // node that dies takes its cluster with it.
    let is_alone = memory.leave(patience)?;
    end?;
    if is_alone { Ok(()) } else { Err("the other process has not left".into()) }
}

/// A member of the cluster of this endpoint.
fn member(endpoint: &str, role: Role) -> Result<Membership> {
    let (store, name) = membership::open(endpoint)?;
    Ok(Membership::join(store, &name, Joining { ttl: PATIENCE, ..Joining::new(role) })?)
}

/// Is one of the two compute nodes.
pub fn compute(endpoint: &str, patience: Duration) -> Result<()> {
    let config =
        ClusterConfig { compute_nodes: 2, cache_bytes: 16 << 20, ..ClusterConfig::default() };
    let membership = member(endpoint, Role::Compute)?;
    let node = membership.me().node;
    let cluster = Cluster::join(config, &Transport::default(), membership, patience)?;
    let cluster = cluster.with_patience(patience);
    // `run` covers the worker of this process. The exchange waits for the other process.
    cluster.run(insert)?;
    cluster.exchange("inserted", b"")?;
    let found: u64 = cluster.run(find)?.into_iter().sum();
    println!("{node} found {found} of {KEYS} keys");
    cluster.exchange("found", b"")?;
    let first: u64 = cluster.run(race)?.into_iter().sum();
    println!("{node} was the first at {first} of {KEYS} keys");
    let firsts = cluster.exchange("first", &first.to_le_bytes())?;
    let number =
        |value: &Vec<u8>| value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if found != KEYS || firsts.iter().map(number).sum::<u64>() != KEYS {
        return Err("keys are missing, or were new twice".into());
    }
    cluster.close()
}

/// The worker of the first process inserts the keys.
async fn insert(worker: ClusterWorker) -> Result<()> {
    // The first worker that asks for the name makes the tree.
    let tree = worker.tree("numbers").await?;
    let mine = if worker.index == 0 { 0..KEYS } else { 0..0 };
    for key in mine {
        tree.insert(&key.to_be_bytes(), b"hello").await?;
    }
    Ok(())
}

/// Counts these keys, on both.
async fn find(worker: ClusterWorker) -> Result<u64> {
    let tree = worker.tree("numbers").await?;
    let mut found = 0;
    for key in 0..KEYS {
        found += u64::from(tree.get(&key.to_be_bytes()).await?.is_some());
    }
    Ok(found)
}

/// Inserts other keys, on both at once. Returns how many were new here.
async fn race(worker: ClusterWorker) -> Result<u64> {
    let tree = worker.tree("numbers").await?;
    let mut first = 0;
    // Each in an order of its own, so that both write to all pages, and neither is always behind.
    let step = if worker.index == 0 { 7_001 } else { 9_001 };
    for number in 0..KEYS {
        let key = KEYS + number * step % KEYS;
        first += u64::from(tree.upsert(&key.to_be_bytes(), b"hello").await?);
    }
    Ok(first)
}
