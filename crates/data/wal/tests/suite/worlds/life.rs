//! [`Life`]: one life of the database in virtual time, from its start to its end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::{ExecutorConfig, Handle, Time, VirtualWorker, run_all};
use latchwork_simulation::{Kernel, Random};
use latchwork_wal::storage::Torn;
use latchwork_wal::{
    CheckpointWriter, CommitMode, Device, Log, LogDirectory, LogEntry, LogRecord, LogRecordKind,
    LogSettings, NodeId, TableId, Timestamp, WalError,
};

use crate::worlds::ledger::{Fate, Key, Ledger, Tables, Value};

pub(crate) const NODES: u8 = 2;
const COMMITTERS: u64 = 4;
const KEYS: u64 = 12;

pub(crate) struct Life {
    pub(crate) mode: CommitMode,
    pub(crate) torn: Torn,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    pub(crate) tables: RefCell<Tables>,
    pub(crate) clocks: [Cell<u64>; NODES as usize],
    /// Commits that began and have not ended.
    in_flight: RefCell<BTreeSet<Timestamp>>,
    locked: RefCell<BTreeSet<Key>>,
    pub(crate) checkpoints: Cell<u32>,
    /// The logs are being closed: a waiting flush batch is tried once more, and then refused.
    closing: Cell<bool>,
    /// All logs were opened, so each has begun a segment.
    pub(crate) begun: Cell<bool>,
    /// All logs were closed without an error.
    pub(crate) clean: Cell<bool>,
    /// Checkpoints do not wait until the commits that they have seen are durable. This is a seeded
    /// bug for the asynchronous mode.
    pub(crate) careless: bool,
    /// All checkpoints settle how much of each log they need.
    pub(crate) settles: bool,
}

fn deadline(handle: &Handle) -> Time {
    handle.now() + Duration::from_millis(100)
}

impl Life {
    pub(crate) fn new(
        mode: CommitMode,
        torn: Torn,
        ledger: Rc<RefCell<Ledger>>,
        tables: Tables,
        highest: Timestamp,
    ) -> Rc<Life> {
        Rc::new(Life {
            mode,
            torn,
            ledger,
            tables: RefCell::new(tables),
            clocks: [0; NODES as usize].map(|_| Cell::new(highest.counter())),
            in_flight: RefCell::default(),
            locked: RefCell::default(),
            checkpoints: Cell::new(0),
            closing: Cell::new(false),
            begun: Cell::new(false),
            clean: Cell::new(false),
            careless: false,
            settles: false,
        })
    }

    /// Runs commits and checkpoints until all have ended or the power goes off.
    pub(crate) fn run(
        self: &Rc<Life>,
        directory: &Arc<LogDirectory>,
        seed: u64,
    ) -> Result<(), String> {
        let kernel = Kernel::new(seed);
        let mut random = Random::new(seed);
        let settings = LogSettings {
            mode: self.mode,
            interval: Duration::from_micros(200),
            segment_bytes: 1024 << random.below(4),
            backlog_bytes: 16 << 10,
            witness: Duration::from_millis(1 + random.below(4)),
            ..LogSettings::default()
        };
        let device = Device { sync: Duration::from_micros(20), bytes_per_second: 100_000_000 };
        let workers: Vec<_> =
            (0..NODES).map(|_| VirtualWorker::spawn(&kernel, ExecutorConfig::default())).collect();
        let mut logs = Vec::new();
        for (node, worker) in (0..).map(NodeId).zip(&workers) {
            let handle = worker.handle();
            match Log::simulated(directory, node, settings.clone(), &handle, device) {
                Ok(log) => logs.push(log),
                // The cause may be any injected fault. The next life checks the result.
                Err(_) => return Ok(()),
            }
        }
        self.begun.set(true);
        let mut tasks = Vec::new();
        for (log, worker) in logs.iter().zip(&workers) {
            for _ in 0..COMMITTERS {
                let (life, log, handle) = (self.clone(), log.clone(), worker.handle());
                let random = Random::new(random.draw());
                tasks.push(worker.handle().spawn(life.commits(log, handle, random)));
            }
        }
        let rounds = random.below(4);
        let (life, handle, own) = (self.clone(), workers[0].handle(), directory.clone());
        let random = Random::new(random.draw());
        tasks.push(handle.clone().spawn(life.coordinate(own, logs, handle, random, rounds)));
        let ended = run_all(&kernel, Duration::from_secs(10), tasks);
        let ended = ended.map_err(|end| format!("the world ended by {end:?}"))?;
        ended.into_iter().collect()
    }

    async fn commits(
        self: Rc<Life>,
        log: Log,
        handle: Handle,
        mut random: Random,
    ) -> Result<(), String> {
        let mut group = LogRecord::new(LogRecordKind::Commit, Timestamp::ZERO);
        for _ in 0..random.below(30) {
            handle.sleep(Duration::from_nanos(random.below(60_000))).await;
            let keys: BTreeSet<Key> = (0..1 + random.below(3))
                .map(|_| (TableId(random.below(2) as u32), vec![random.below(KEYS) as u8]))
                .collect();
            if keys.iter().any(|key| self.locked.borrow().contains(key)) {
                continue;
            }
            self.locked.borrow_mut().extend(keys.iter().cloned());
            let at = self.draw(log.node(), &keys);
            group.reset(LogRecordKind::Commit, at);
            let mut entries: Vec<(Key, Value)> = Vec::new();
            for key in &keys {
                let length = if random.below(20) == 0 { 3000 } else { random.below(200) };
                let value = (random.below(4) > 0).then(|| vec![at.0 as u8; length as usize]);
                match &value {
                    Some(value) => group.put(key.0, &key.1, value),
                    None => group.remove(key.0, &key.1),
                }
                .map_err(|e| e.to_string())?;
                entries.push((key.clone(), value));
            }
            self.in_flight.borrow_mut().insert(at);
            let waits = match log.append(&group) {
                Err(WalError::Backlog { .. }) => {
                    let _ = log.room(&handle, deadline(&handle)).await;
                    None
                }
                Err(_) => return Ok(()),
                Ok(position) => {
                    self.ledger.borrow_mut().append(at, log.node(), entries.clone());
                    Some(position)
                }
            };
            let appended = waits.is_some();
            if let Some(position) = waits {
                if self.mode == CommitMode::Async {
                    self.install(at, &entries);
                    // From now on both nodes see the commit.
                    self.locked.borrow_mut().retain(|key| !keys.contains(key));
                }
                match log.durable(&handle, &position, deadline(&handle)).await {
                    Ok(()) => {
                        self.ledger.borrow_mut().fate(at, Fate::Lasting);
                        if self.mode == CommitMode::Sync {
                            self.install(at, &entries);
                        }
                    }
                    Err(WalError::Refused { .. }) => {
                        self.ledger.borrow_mut().fate(at, Fate::Refused);
                        if self.mode == CommitMode::Async && !self.closing.get() {
                            return Err(format!("{at} was acknowledged and then refused"));
                        }
                    }
                    Err(WalError::Failed { .. }) => return Ok(()),
                    Err(WalError::Timeout { .. }) if self.mode == CommitMode::Async => {
                        return Ok(());
                    }
                    Err(other) => return Err(format!("{at}: {other}")),
                }
            }
            self.in_flight.borrow_mut().remove(&at);
            if self.mode == CommitMode::Sync || !appended {
                self.locked.borrow_mut().retain(|key| !keys.contains(key));
            }
        }
        Ok(())
    }

    fn draw(&self, node: NodeId, keys: &BTreeSet<Key>) -> Timestamp {
        let tables = self.tables.borrow();
        let read = keys.iter().filter_map(|key| tables.get(key)).map(|(at, _)| at.counter());
        let clock = &self.clocks[usize::from(node.0)];
        clock.set(read.fold(clock.get(), u64::max) + 1);
        Timestamp::new(clock.get(), node).expect("in range")
    }

    fn install(&self, at: Timestamp, entries: &[(Key, Value)]) {
        let mut tables = self.tables.borrow_mut();
        tables.extend(entries.iter().map(|(key, value)| (key.clone(), (at, value.clone()))));
    }

    async fn coordinate(
        self: Rc<Life>,
        directory: Arc<LogDirectory>,
        logs: Vec<Log>,
        handle: Handle,
        mut random: Random,
        rounds: u64,
    ) -> Result<(), String> {
        for _ in 0..rounds {
            handle.sleep(Duration::from_micros(random.below(1000))).await;
            match self.checkpoint(&directory, &logs, &handle, &mut random).await {
                Ok(()) => self.checkpoints.set(self.checkpoints.get() + 1),
                // The device is full, an injected fault occurred, or the power is off. The log goes
                // on or reports a failure.
                Err(WalError::Io { .. } | WalError::Full { .. } | WalError::Refused { .. }) => {}
                Err(WalError::Failed { .. } | WalError::Timeout { .. }) => {}
                Err(other) => return Err(format!("checkpoint: {other}")),
            }
        }
        if random.below(2) == 0 {
            handle.sleep(Duration::from_millis(random.below(4))).await;
            for log in &logs {
                // Committers that have not finished get an error, which ends them.
                let _ = log.flush(&handle, deadline(&handle)).await;
            }
        }
        if random.below(3) == 0 {
            self.closing.set(true);
            let mut closed = 0;
            for log in &logs {
                closed += usize::from(log.close(&handle, deadline(&handle)).await.is_ok());
            }
            self.clean.set(closed == logs.len() && self.torn.is_on());
        }
        Ok(())
    }

    async fn checkpoint(
        &self,
        directory: &Arc<LogDirectory>,
        logs: &[Log],
        handle: &Handle,
        random: &mut Random,
    ) -> Result<(), WalError> {
        let highest = self.clocks.iter().map(Cell::get).max().unwrap_or(0);
        let floor = Timestamp::new(highest, NodeId(Timestamp::NODES_MAX - 1)).expect("in range");
        self.clocks.iter().for_each(|clock| clock.set(highest));
        let until = deadline(handle);
        while self.in_flight.borrow().first().is_some_and(|first| *first <= floor) {
            if handle.now() > until {
                return Err(WalError::Timeout { what: "older commits", waited: Duration::ZERO });
            }
            handle.sleep(Duration::from_micros(20)).await;
        }
        let mut continues = Vec::new();
        for log in logs {
            continues.push((log.node(), log.rotate(handle, until).await?));
        }
        let mut writer = CheckpointWriter::begin(directory, floor, continues)?;
        let mut parts = [writer.part()?, writer.part()?];
        // Key by key, while commits go on.
        let mut last: Option<Key> = None;
        loop {
            let next = {
                let tables = self.tables.borrow();
                let above = |key: &&Key| last.as_ref().is_none_or(|last| *key > last);
                let key = tables.keys().find(above).cloned();
                key.map(|key| (tables[&key].clone(), key))
            };
            let Some(((at, value), key)) = next else { break };
            if value.is_some() || at > floor {
                let (table, bytes, value) = (key.0, &key.1[..], value.as_deref());
                let entry = LogEntry { timestamp: at, table, key: bytes, value };
                parts[random.below(2) as usize].put(entry)?;
            }
            last = Some(key);
            if random.below(4) == 0 {
                handle.sleep(Duration::from_micros(random.below(40))).await;
            }
        }
        let [a, b] = parts;
        a.finish()?;
        b.finish()?;
        // The commits that the scan has seen must be durable before the checkpoint is in place.
        if self.settles || !self.careless && random.below(2) == 0 {
            writer.settle(&logs.iter().collect::<Vec<_>>(), handle, until).await?;
            // Commits go on until the checkpoint is in place.
            handle.sleep(Duration::from_micros(random.below(200))).await;
        } else if !self.careless {
            for log in logs {
                log.flush(handle, until).await?;
            }
        }
        if random.below(4) == 0 {
            // These few steps matter most, and a random step rarely hits them.
            self.torn.power_off_after(random.below(12));
        }
        writer.publish()?;
        for log in logs {
            log.remove_through(floor)?;
        }
        let forgotten = |(at, value): &(Timestamp, Value)| value.is_none() && *at <= floor;
        let locked = self.locked.borrow();
        self.tables.borrow_mut().retain(|key, latest| locked.contains(key) || !forgotten(latest));
        Ok(())
    }
}
