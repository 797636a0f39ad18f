//! Several nodes on one table in virtual time, under both protocols, against a map: every task owns a key
//! while it works on it, and lines, index pages, tombstones and slots are everybody's.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Protocol, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_txn::{NodeClock, NodeId, Reading, Seen, Table, TableId, Timestamp, TxnError};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;

const LIMIT: Duration = Duration::from_secs(60);
const TABLE: TableId = TableId(7);
const KEYS: u64 = 40;

fn start(seed: u64, protocol: Protocol, nodes: usize, memory_bytes: u64) -> Simulated {
    let mut config = ClusterConfig {
        compute_nodes: nodes,
        memory_nodes: 2,
        workers: 1,
        inflight: 16,
        memory_bytes,
        cache_bytes: Cache::footprint(12, 512),
        line_size: 512,
        chunk_size: 64 << 10,
        seed,
        ..ClusterConfig::default()
    };
    config.node.policy = protocol.policy();
    let network = if seed.is_multiple_of(2) { SimConfig::rough() } else { SimConfig::default() };
    Simulated::start(config, network).expect("a good configuration")
}

/// Of each row that is there, when it was written and what.
type Rows = BTreeMap<Vec<u8>, (Timestamp, Vec<u8>)>;

/// What the tasks of a world share, outside of the memory under test.
struct World {
    root: RefCell<Option<GlobalAddr>>,
    rows: RefCell<Rows>,
    taken: RefCell<BTreeSet<Vec<u8>>>,
    /// One clock for all, so that every write is later than the one before.
    clock: Arc<NodeClock>,
}

impl World {
    fn new() -> Rc<World> {
        let clock = Arc::new(NodeClock::new(NodeId(1)));
        let (root, rows, taken) = Default::default();
        Rc::new(World { root, rows, taken, clock })
    }

    fn draw(&self) -> Timestamp {
        self.clock.draw(Timestamp::ZERO).expect("room")
    }

    async fn table<M: CoherentMemory>(&self, memory: &M, first: bool) -> Table<M> {
        if first {
            let table = Table::create(memory.clone(), TABLE).await.expect("room");
            *self.root.borrow_mut() = Some(table.root());
            return table;
        }
        loop {
            let root = *self.root.borrow();
            if let Some(root) = root {
                return Table::open(memory.clone(), TABLE, root).await.expect("it is there");
            }
            memory.handle().sleep(Duration::from_micros(20)).await;
        }
    }
}

fn value_of(random: u64) -> Vec<u8> {
    // Mostly short, sometimes most of a line: rows grow, move away and come back.
    let len = if random.is_multiple_of(5) { random / 8 % 400 } else { random / 8 % 50 };
    vec![(random >> 32) as u8; len as usize]
}

async fn operate<M: CoherentMemory>(world: &World, table: &Table<M>, operations: usize) {
    let handle = table.primary().memory().handle().clone();
    for _ in 0..operations {
        let (random, choice) = (handle.random(), handle.random() % 10);
        let key = (random % KEYS).to_be_bytes().to_vec();
        if choice == 0 {
            // Of any row, whoever is at work on it.
            table.purge(&key, world.draw()).await.expect("memory is in order");
            continue;
        }
        if !world.taken.borrow_mut().insert(key.clone()) {
            handle.yield_now().await;
            continue;
        }
        let old = world.rows.borrow().get(&key).cloned();
        let (cts, value) = (world.draw(), value_of(handle.random()));
        let new = match choice {
            1..=3 => match table.insert(&key, &value, cts).await {
                Ok(_) if old.is_none() => Some((cts, value)),
                Err(TxnError::Exists) if old.is_some() => old,
                other => panic!("insert of {key:?} over {old:?}: {other:?}"),
            },
            4..=5 => match (table.update(&key, &value, cts).await, old) {
                (Ok(()), Some(_)) => Some((cts, value)),
                (Err(TxnError::NotFound), None) => None,
                (other, old) => panic!("update of {key:?} over {old:?}: {other:?}"),
            },
            6 => match (table.update_part(&key, 5, &[1, 2, 3], cts).await, old) {
                (Ok(()), Some((_, mut value))) if value.len() >= 8 => {
                    value[5..8].copy_from_slice(&[1, 2, 3]);
                    Some((cts, value))
                }
                (Err(TxnError::OutsideValue { .. }), Some(old)) if old.1.len() < 8 => Some(old),
                (Err(TxnError::NotFound), None) => None,
                (other, old) => panic!("part of {key:?} over {old:?}: {other:?}"),
            },
            7 => match (table.delete(&key, cts).await, old) {
                (Ok(()), Some(_)) | (Err(TxnError::NotFound), None) => None,
                (other, old) => panic!("delete of {key:?} over {old:?}: {other:?}"),
            },
            _ => {
                let mut found = Vec::new();
                match (table.get(&key, &mut found).await.expect("memory is in order"), &old) {
                    (Seen::Live(cts), Some((there, value))) => {
                        assert_eq!((cts, &found), (*there, value), "{key:?}");
                    }
                    (Seen::Deleted(_) | Seen::Absent, None) => {}
                    (seen, old) => panic!("{key:?} is {old:?}, seen {seen:?}"),
                }
                old
            }
        };
        match new {
            Some(new) => drop(world.rows.borrow_mut().insert(key.clone(), new)),
            None => drop(world.rows.borrow_mut().remove(&key)),
        }
        world.taken.borrow_mut().remove(&key);
    }
}

async fn work(world: Rc<World>, member: Member) {
    let _operation = member.memory.enter().await.expect("memory is in order");
    let table = world.table(&member.memory, member.index == 0).await;
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let (world, table) = (world.clone(), table.clone());
            member.handle.spawn(async move { operate(&world, &table, 60).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("it ends");
    }
}

async fn check(world: Rc<World>, member: Member) {
    let table = world.table(&member.memory, false).await;
    let mut found = BTreeMap::new();
    let visit = |key: &[u8], value: &[u8], cts| {
        found.insert(key.to_vec(), (cts, value.to_vec()));
        ControlFlow::Continue(())
    };
    table.scan(Bound::Unbounded, visit).await.expect("memory is in order");
    assert_eq!(found, *world.rows.borrow());
    if member.index == 0 {
        for key in 0..KEYS {
            table.purge(&key.to_be_bytes(), world.draw()).await.expect("memory is in order");
        }
        let statistics = table.primary().validate().await.expect("in order");
        assert_eq!(statistics.entries, found.len() as u64, "entries that lead to nothing");
    }
}

#[test]
fn a_table_is_a_map_for_several_nodes_at_once() {
    let (mut rows, mut deleted) = (0, 0);
    for seed in 0..24 {
        for protocol in Protocol::ALL {
            let cluster = start(seed, protocol, 3, 1 << 20);
            let world = World::new();
            let here = world.clone();
            let run = cluster.run(LIMIT, move |member| work(here.clone(), member));
            run.unwrap_or_else(|error| panic!("seed {seed}, {protocol}: {error}"));
            let here = world.clone();
            let run = cluster.run(LIMIT, move |member| check(here.clone(), member));
            run.unwrap_or_else(|error| panic!("seed {seed}, {protocol}: {error}"));
            rows += world.rows.borrow().len();
            deleted += KEYS as usize - world.rows.borrow().len();
        }
    }
    assert!(
        rows > 300 && deleted > 300,
        "{rows} rows and {deleted} none: one of them is hardly tested"
    );
}

#[test]
fn of_several_inserts_of_one_key_exactly_one_succeeds() {
    for seed in 0..12 {
        let protocol = Protocol::ALL[(seed / 2 % 2) as usize];
        let cluster = start(seed, protocol, 4, 1 << 20);
        let world = World::new();
        let won = cluster.run(LIMIT, move |member| {
            let world = world.clone();
            async move {
                let _operation = member.memory.enter().await.expect("memory is in order");
                let table = world.table(&member.memory, member.index == 0).await;
                let mut won = 0;
                for key in 0..50_u64 {
                    match table.insert(&key.to_be_bytes(), &[1; 40], world.draw()).await {
                        Ok(_) => won += 1,
                        Err(TxnError::Exists) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                won
            }
        });
        assert_eq!(won.expect("it ends").into_iter().sum::<u64>(), 50, "seed {seed}");
    }
}

#[test]
fn space_of_deleted_rows_is_used_again() {
    let cluster = start(3, Protocol::Selcc, 1, 192 << 10);
    let world = World::new();
    let run = cluster.run(LIMIT, move |member| {
        let world = world.clone();
        async move {
            let _operation = member.memory.enter().await.expect("memory is in order");
            let table = world.table(&member.memory, true).await;
            // Ten times what memory there is.
            for round in 0..400_u64 {
                for key in 0..24_u64 {
                    let key = (round * 24 + key).to_be_bytes();
                    table.insert(&key[4..], &[7; 200], world.draw()).await.expect("room");
                    table.delete(&key[4..], world.draw()).await.expect("it is there");
                    assert!(table.purge(&key[4..], world.draw()).await.expect("in order"));
                }
            }
        }
    });
    run.expect("it ends");
}

#[test]
fn a_row_that_grew_and_came_back_has_one_name_and_is_never_older_than_it_was() {
    let cluster = start(5, Protocol::Selcc, 1, 1 << 20);
    let world = World::new();
    let run = cluster.run(LIMIT, move |member| {
        let world = world.clone();
        async move {
            let _operation = member.memory.enter().await.expect("memory is in order");
            let table = world.table(&member.memory, true).await;
            for key in 0..8_u64 {
                table.insert(&key.to_be_bytes(), &[1; 30], world.draw()).await.expect("room");
            }
            let key = 3_u64.to_be_bytes();
            let id = table.find(&key).await.expect("in order").expect("it is there");
            let mut value = Vec::new();
            for len in [400, 410, 30, 420, 0, 30] {
                let cts = world.draw();
                table.update(&key, &vec![9; len], cts).await.expect("room");
                assert_eq!(table.get(&key, &mut value).await.expect("in order"), Seen::Live(cts));
                assert_eq!(value, vec![9; len]);
                assert_eq!(table.find(&key).await.expect("in order"), Some(id));
                let late = table.update(&key, &[0], cts).await;
                assert!(
                    matches!(late, Err(TxnError::Stale { there, .. }) if there == cts),
                    "{late:?}"
                );
            }
            let max = table.heap().row_max();
            let long = table.update(&key, &vec![0; max - 7], world.draw()).await;
            assert!(matches!(long, Err(TxnError::RowTooLong { .. })), "{long:?}");
            table.update(&key, &vec![0; max - 8], world.draw()).await.expect("room");
            // A line of the index is none of the table's.
            let mut out = Vec::new();
            let wrong = latchwork_txn::TupleId::from_bits(table.root().bits());
            let wrong = table.heap().get(wrong, &key, &mut out).await;
            assert!(matches!(wrong, Err(TxnError::Corrupt { .. })), "{wrong:?}");
        }
    });
    run.expect("it ends");
}

#[test]
fn a_reader_of_a_row_that_moves_sees_value_and_time_of_one_write() {
    let (mut seen, mut late) = (0, 0);
    for seed in 0..16 {
        let cluster = start(seed, Protocol::ALL[(seed / 2 % 2) as usize], 3, 1 << 20);
        let world = World::new();
        let run = cluster.run(LIMIT, move |member| {
            let world = world.clone();
            async move {
                let _operation = member.memory.enter().await.expect("memory is in order");
                let table = world.table(&member.memory, member.index == 0).await;
                let (key, fill) = ([1; 4], |cts: Timestamp| cts.counter() as u8);
                let (mut value, mut last, mut seen) = (Vec::new(), Timestamp::ZERO, 0);
                if member.index == 0 {
                    for key in 0..8 {
                        let cts = world.draw();
                        table.insert(&[key; 4], &[fill(cts); 30], cts).await.expect("room");
                    }
                }
                for round in 0..400_u64 {
                    if member.index == 0 {
                        let (cts, long) = (world.draw(), 300 + (round % 100) as usize);
                        let len = if round % 8 == 7 { 30 } else { long };
                        table.update(&key, &vec![fill(cts); len], cts).await.expect("room");
                    } else if let Seen::Live(cts) =
                        table.get(&key, &mut value).await.expect("memory is in order")
                    {
                        assert!(value.iter().all(|byte| *byte == fill(cts)), "{cts}: {value:?}");
                        assert!(cts >= last, "{cts} after {last}");
                        seen += u64::from(cts > last);
                        last = cts;
                    }
                }
                seen
            }
        });
        let ends = run.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        seen += ends.iter().sum::<u64>();
        late += u64::from(ends.iter().sum::<u64>() > 20);
    }
    assert!(seen > 400 && late > 4, "{seen} versions seen: readers and the writer hardly met");
}

#[test]
fn a_read_that_stopped_on_its_way_notices_that_the_row_moved_meanwhile() {
    // Without a cache a read stops between the stub and what it leads to.
    let cluster = start(4, Protocol::Sel, 1, 1 << 20);
    let world = World::new();
    let run = cluster.run(LIMIT, move |member| {
        let world = world.clone();
        async move {
            let _operation = member.memory.enter().await.expect("memory is in order");
            let table = world.table(&member.memory, true).await;
            for key in 0..8 {
                table.insert(&[key; 4], &[0; 30], world.draw()).await.expect("room");
            }
            let (key, mut value) = ([3; 4], Vec::new());
            let update = async |fill| {
                let cts = world.draw();
                table.update(&key, &[fill; 400], cts).await.expect("room");
                cts
            };
            let mut last = (update(9).await, 9);
            for moves in 1..6 {
                let id = table.find(&key).await.expect("in order").expect("it is there");
                let mut at = Reading::default();
                let (mut stops, mut written) = (0, vec![last]);
                let seen = loop {
                    match table.heap().try_get(&mut at, id, &key, &mut value) {
                        Ok(Some(seen)) => break seen,
                        Ok(None) => {}
                        Err(need) => {
                            stops += 1;
                            if stops == 2 {
                                for fill in 0..moves {
                                    written.push((update(fill).await, fill));
                                }
                            }
                            let _ticket = member.memory.ensure(need).await.expect("in order");
                            if let Ok(Some(seen)) =
                                table.heap().try_get(&mut at, id, &key, &mut value)
                            {
                                break seen;
                            }
                        }
                    }
                };
                assert!(stops >= 2, "{stops}: it never stopped on its way");
                // What it was when the read began, or later: never the time of one and the value of another.
                let is = |(cts, fill): &(Timestamp, u8)| {
                    seen == Seen::Live(*cts) && value == [*fill; 400]
                };
                assert!(written.iter().any(is), "{seen:?} {} of {written:?}", value[0]);
                last = written.pop().expect("the first one");
            }
        }
    });
    run.expect("it ends");
}
