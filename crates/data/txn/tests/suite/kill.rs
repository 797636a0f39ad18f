//! Processes that are killed while they commit, on a real directory: two nodes on threads,
//! checkpoints, and a recovery at each start. A kill loses no data that the operating system has
//! accepted. So this test does not check syncs; the tests in `crashes` do. This test checks the
//! whole path on real files, with a process that ends at any instruction.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Embedded, Member};
use latchwork_coherence::{CoherentMemory, LineLocks};
use latchwork_runtime::Handle;
use latchwork_txn::schema::{ColumnType, Order};
use latchwork_txn::{
    Database, DatabaseId, Key, NodeId, Range, Recovery, Schema, Scheme, Table, Transaction,
    TransactionNode, TransactionSettings, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_wal::storage::Disk;
use latchwork_wal::{Log, LogDirectory};

const DIRECTORY: &str = "LATCHWORK_TXN_KILL_DIRECTORY";
const SCHEME: &str = "LATCHWORK_TXN_KILL_SCHEME";
/// If set, commits release their locks early.
const EARLY: &str = "LATCHWORK_TXN_KILL_EARLY";
const DATABASE: DatabaseId = DatabaseId(7);
const NODES: usize = 2;
const TASKS: u32 = 3;
const ACCOUNTS: u32 = 40;
const START: i64 = 1000;

fn open(path: &Path) -> Arc<LogDirectory> {
    let disk = Disk::new(path).expect("a directory");
    LogDirectory::open(Arc::new(disk), DATABASE)
        .expect("what a killed process leaves can be opened")
}

/// Accounts with balances, and an index that changes with the balances.
fn accounts() -> Schema {
    let schema = Schema::builder("accounts")
        .column("id", ColumnType::U32)
        .column("balance", ColumnType::I64)
        .primary_key(["id"])
        .index("by_balance", [("balance", Order::Descending)]);
    schema.build().expect("a good schema")
}

/// For each task, the number of its last transfer, as a row that replaces the previous one.
fn markers() -> Schema {
    let schema = Schema::builder("markers")
        .column("task", ColumnType::U32)
        .column("number", ColumnType::U32)
        .column("from", ColumnType::U32)
        .primary_key(["task", "number"]);
    schema.build().expect("a good schema")
}

struct Tables<M: LineLocks> {
    database: Database<M>,
    accounts: Table<M>,
    markers: Table<M>,
}

impl<M: LineLocks> Tables<M> {
    async fn open(database: Database<M>) -> Tables<M> {
        let accounts = database.table("accounts").await.expect("it is there");
        let markers = database.table("markers").await.expect("it is there");
        Tables { database, accounts, markers }
    }

    async fn balance(&self, tx: &mut Transaction<M>, id: u32) -> Result<i64, TxnError> {
        let mut row = Vec::new();
        let found = tx.get_for_update(&self.accounts, &id.to_be_bytes(), &mut row).await?;
        assert!(found, "accounts stay");
        Ok(i64::from_le_bytes(row[..8].try_into().expect("8 bytes")))
    }

    /// Moves one unit, and replaces the previous marker by the marker `number`.
    async fn transfer(&self, task: u32, number: u32) -> Result<(), TxnError> {
        let handle = self.database.memory().handle();
        let account = || handle.random_below(ACCOUNTS.into()) as u32;
        let (from, to) = (account(), account());
        self.database
            .run(async |tx| {
                for (id, change) in [(from, -1), (to, 1)] {
                    let balance = self.balance(tx, id).await? + change;
                    tx.update(&self.accounts, &id.to_be_bytes(), &balance.to_le_bytes()).await?;
                }
                let marker = |number: u32| Key::new().u32(task).u32(number).done();
                tx.insert(&self.markers, &marker(number), &from.to_le_bytes()).await?;
                if number > 1 {
                    tx.delete(&self.markers, &marker(number - 1)).await?;
                }
                Ok(())
            })
            .await
    }

    /// Reads everything and checks that it is consistent. Returns the last number of each task.
    async fn audit(&self) -> BTreeMap<u32, u32> {
        let (mut by_id, mut by_balance, mut last) = (Vec::new(), Vec::new(), BTreeMap::new());
        let read = self.database.run(async |tx| {
            (by_id, by_balance, last) = Default::default();
            let on = ControlFlow::Continue(());
            let all = tx.scan(&self.accounts, Range::all(), |key, row| {
                by_id.push((i64::from_le_bytes(row.try_into().expect("8 bytes")), key.to_vec()));
                on
            });
            all.await?;
            let all = tx.scan_index(&self.accounts, 0, Range::all(), |key, row| {
                by_balance
                    .push((i64::from_le_bytes(row.try_into().expect("8 bytes")), key.to_vec()));
                on
            });
            all.await?;
            let all = tx.scan(&self.markers, Range::all(), |key, _| {
                let number = |at: usize| u32::from_be_bytes(key[at..at + 4].try_into().expect("4"));
                let twice = last.insert(number(0), number(4));
                assert_eq!(twice, None, "one marker of each task");
                on
            });
            all.await
        });
        read.await.expect("memory is in order");
        assert_eq!(by_id.len(), ACCOUNTS as usize);
        assert_eq!(
            by_id.iter().map(|(balance, _)| balance).sum::<i64>(),
            START * i64::from(ACCOUNTS)
        );
        assert!(by_balance.is_sorted_by(|one, two| one.0 >= two.0), "{by_balance:?}");
        by_id.sort_unstable();
        by_balance.sort_unstable();
        assert_eq!(by_id, by_balance, "the indexes lead to the same rows");
        last
    }
}

/// The state that the workers of a life share.
struct Life {
    directory: Arc<LogDirectory>,
    recovery: Recovery,
    scheme: Scheme,
    root: Mutex<Option<GlobalAddr>>,
    nodes: Mutex<Vec<Arc<TransactionNode>>>,
    arrived: AtomicUsize,
    /// Whether the life ends after the audit.
    looks_only: bool,
}

impl Life {
    /// Ends a step together with all workers. A waiting worker serves the requests of the other
    /// workers.
    async fn step(&self, number: usize, handle: &Handle) {
        self.arrived.fetch_add(1, SeqCst);
        while self.arrived.load(SeqCst) < number * NODES {
            handle.sleep(Duration::from_micros(50)).await;
        }
    }
}

fn config() -> ClusterConfig {
    ClusterConfig {
        compute_nodes: NODES,
        memory_nodes: 1,
        workers: 1,
        memory_bytes: 16 << 20,
        cache_bytes: 4 << 20,
        line_size: 1024,
        chunk_size: 128 << 10,
        ..ClusterConfig::default()
    }
}

async fn live(life: Arc<Life>, member: Member) -> BTreeMap<u32, u32> {
    let (memory, handle) = (member.memory.clone(), member.handle.clone());
    let _operation = memory.enter().await.expect("memory is in order");
    let settings = latchwork_wal::LogSettings { segment_bytes: 30_000, ..Default::default() };
    let id = NodeId(member.node as u8);
    let log = || Log::threaded(&life.directory, id, settings).expect("a log");
    let early_release = std::env::var_os(EARLY).is_some();
    let transactions = TransactionSettings {
        scheme: life.scheme,
        early_release,
        ..TransactionSettings::default()
    };
    let node = TransactionNode::new(id, (!life.looks_only).then(log), transactions);
    life.nodes.lock().expect("whole").push(node.clone());
    let first = member.node == 0;
    let mut database = None;
    if first {
        let made = Database::create(memory.clone(), node.clone(), DATABASE).await.expect("room");
        life.recovery.tables(&made).await.expect("room");
        *life.root.lock().expect("whole") = Some(made.root());
        database = Some(made);
    }
    life.step(1, &handle).await;
    let root = life.root.lock().expect("whole").expect("made");
    let database = match database {
        Some(database) => database,
        None => Database::open(memory, node, root).await.expect("it is there"),
    };
    life.recovery.rows(&database).await.expect("room");
    life.step(2, &handle).await;
    life.recovery.indexes(&database).await.expect("room");
    life.step(3, &handle).await;
    if first && matches!(database.table("markers").await, Err(TxnError::NoTable { .. })) {
        begin(&database).await;
    }
    life.step(4, &handle).await;
    let tables = std::rc::Rc::new(Tables::open(database).await);
    let last = if first { tables.audit().await } else { BTreeMap::new() };
    life.step(5, &handle).await;
    if life.looks_only {
        return last;
    }
    for task in 0..TASKS {
        let task = member.node as u32 * TASKS + task;
        let tables = tables.clone();
        drop(handle.spawn(async move {
            let mine = Key::new().u32(task).done();
            let last = tables.database.run(async |tx| {
                let mut last = 0;
                let mine = Range::between(&mine, &[0xff; 8]).limit(1);
                tx.scan(&tables.markers, mine, |key, _| {
                    if key[..4] == task.to_be_bytes() {
                        last = u32::from_be_bytes(key[4..].try_into().expect("4 bytes"));
                    }
                    ControlFlow::Continue(())
                })
                .await?;
                Ok(last)
            });
            let last = last.await.expect("memory is in order");
            // The loop has a bound, for a process that is never killed.
            for number in last + 1..1_000_000 {
                tables.transfer(task, number).await.expect("it commits");
                say(&format!("{task} {number}\n"));
            }
        }));
    }
    loop {
        handle.sleep(Duration::from_millis(5)).await;
        if first {
            let nodes = life.nodes.lock().expect("whole").clone();
            let until = handle.now() + Duration::from_secs(60);
            let written = tables.database.checkpoint(&nodes, &life.directory, until).await;
            say(&format!("checkpoint {}\n", written.expect("written").segments_removed));
        }
    }
}

/// Makes the tables in the first life.
async fn begin<M: LineLocks>(database: &Database<M>) {
    // An earlier process may have been killed between the two tables.
    for schema in [accounts(), markers()] {
        match database.create_table(schema).await {
            Ok(_) | Err(TxnError::Exists) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let accounts = database.table("accounts").await.expect("made");
    let load = database.run(async |tx| {
        for id in 0..ACCOUNTS {
            match tx.insert(&accounts, &id.to_be_bytes(), &START.to_le_bytes()).await {
                Ok(()) | Err(TxnError::Exists) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    });
    load.await.expect("room");
}

/// Recovers from `path`, and runs transfers there until the process is killed, or only audits.
fn run(path: &Path, scheme: Scheme, looks_only: bool) -> BTreeMap<u32, u32> {
    let directory = open(path);
    let recovery = Recovery::new(directory.replay(2).expect("whole"));
    let (root, nodes) = (Mutex::default(), Mutex::default());
    let arrived = AtomicUsize::new(0);
    let life = Life { directory, recovery, scheme, root, nodes, arrived, looks_only };
    let life = Arc::new(life);
    let cluster = Embedded::start(config()).expect("a cluster");
    let ends = cluster.run(move |member| live(life.clone(), member)).expect("no worker fails");
    ends.into_iter().next().expect("two workers")
}

/// One write, so that the reader sees whole lines.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let said = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    said.expect("somebody listens");
}

/// The process that is killed.
#[test]
#[ignore = "started by the test that kills it"]
fn child() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    let scheme = std::env::var(SCHEME).expect("a scheme").parse().expect("a scheme");
    // The parent must see each panic of this process.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        std::process::abort()
    }));
    // The output of the test harness ends here, so that the transfers begin on a new line.
    say("\n");
    run(Path::new(&path), scheme, false);
}

fn spawn(path: &Path, scheme: Scheme, early: bool) -> Child {
    let test = std::env::current_exe().expect("this test");
    let mut command = Command::new(test);
    command.args(["--exact", "kill::child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(DIRECTORY, path).env(SCHEME, scheme.name()).stdout(Stdio::piped());
    if early {
        command.env(EARLY, "");
    }
    command.spawn().expect("started")
}

/// Kills the process after `lines` transfers. Returns the last printed number of each task.
fn kill_after(child: &mut Child, lines: u64, removed: &mut u64) -> BTreeMap<u32, u32> {
    let mut said = BTreeMap::new();
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let mut seen = 0;
    for line in out.lines().map_while(Result::ok) {
        if let Some(segments) = line.strip_prefix("checkpoint ") {
            *removed += segments.parse::<u64>().unwrap_or(0);
        }
        let mut words = line.split(' ').map(str::parse);
        if let (Some(Ok(task)), Some(Ok(number)), None) = (words.next(), words.next(), words.next())
        {
            said.insert(task, number);
            seen += 1;
            if seen == lines {
                // The lines that the process printed before its death count, so the loop goes on
                // reading.
                child.kill().expect("killed");
            }
        }
    }
    child.wait().expect("ended");
    assert!(seen >= lines, "it ended by itself after {seen} of {lines} transfers");
    said
}

fn kills(count: u64, seed: u64) {
    let home = tempfile::tempdir().expect("a directory");
    let mut random = seed;
    let mut expected: BTreeMap<u32, u32> = BTreeMap::new();
    let mut removed = 0;
    // More kills follow until there has been a checkpoint, which may come late on a busy machine.
    for kill in 0..20 * count {
        if kill >= count && removed > 0 {
            break;
        }
        let scheme = Scheme::ALL[kill as usize % 3];
        let mut child = spawn(home.path(), scheme, kill % 2 == 0);
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        for (task, number) in kill_after(&mut child, 1 + (random >> 40) % 150, &mut removed) {
            let before = expected.insert(task, number).unwrap_or(0);
            assert!(before <= number, "kill {kill}: task {task} went back to {number}");
        }
        let found = run(home.path(), scheme, true);
        for (task, &number) in &expected {
            let last = found.get(task).copied().unwrap_or(0);
            let (told, one_more) = (last == number, last == number + 1);
            assert!(told || one_more, "kill {kill}: {task} was told {number}, there is {last}");
        }
    }
    println!("{count} kills or more, last transfers {expected:?}, {removed} segments removed");
    assert!(removed > 0, "no checkpoint made a segment unnecessary");
}

#[test]
fn a_database_that_is_killed_loses_nothing_that_it_acknowledged() {
    kills(12, 1);
}

/// `KILLS=1000 cargo test --release -p latchwork-txn --test suite kill:: -- --ignored --exact
/// more_kills`
#[test]
#[ignore = "as many kills as KILLS says"]
fn more_kills() {
    let count = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(200);
    kills(count, 2);
}
