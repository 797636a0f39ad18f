//! Dropped operations, failing connections, and the death of lock holders.

use std::time::Duration;

use latchwork_sherman::{Config, ShermanError};
use latchwork_verbs::ComputeNodeId;
use latchwork_verbs_sim::{Faults, SimConfig};

use crate::common::{World, get, increment, key};

const KEYS: u64 = 40;

#[test]
fn a_dropped_operation_leaves_no_lock_and_no_half_write() {
    for config in [Config::SHERMAN, Config { locks: 1, ..Config::SHERMAN }, Config::FG_PLUS] {
        for seed in 0..60 {
            let world = World::new(seed, (2, 2, 2), 512, config);
            let tasks = world.all().enumerate().map(|(index, worker)| {
                let (tree, handle) = (worker.tree, worker.handle.clone());
                worker.handle.spawn(async move {
                    for step in 0..30_u64 {
                        let n = (step * 5 + index as u64) % KEYS;
                        let value = [index as u8; 8];
                        let limit = handle.now() + Duration::from_nanos(handle.random() % 20_000);
                        let key = key(n);
                        let upsert = handle.timeout(limit, tree.upsert(&key, &value));
                        if let Ok(ended) = upsert.await {
                            ended.unwrap();
                        }
                    }
                })
            });
            let tasks = tasks.collect();
            world.run_all(tasks);
            let worker = world.worker(1, 1);
            let (tree, handle) = (worker.tree, worker.handle.clone());
            world.run(worker.handle.spawn(async move {
                handle.sleep(Duration::from_millis(50)).await;
                tree.validate().await.unwrap();
                for n in 0..KEYS {
                    tree.upsert(&key(n), &key(n)).await.unwrap();
                    assert_eq!(get(&tree, n).await.unwrap(), Some(n));
                }
            }));
            assert!(world.all().all(|worker| worker.tree.shared().locked() == 0));
        }
    }
}

#[test]
fn a_failing_connection_costs_nothing_but_time() {
    for config in [Config::SHERMAN, Config::FG_PLUS, Config::FG] {
        for seed in 0..40 {
            let faults = Faults { fail_one_in: 15, ..Faults::NONE };
            let world = World::new(seed, (2, 3, 1), 512, config);
            world.sim.set_faults(faults);
            let tasks = world.all().map(|worker| {
                let tree = worker.tree;
                worker.handle.spawn(async move {
                    for step in 0..40_u64 {
                        increment(&tree, step * 3 % KEYS).await;
                    }
                })
            });
            let tasks: Vec<_> = tasks.collect();
            let count = 40 * world.run_all(tasks).len() as u64;
            world.sim.set_faults(Faults::NONE);
            let sum = world.first(|tree| async move {
                tree.validate().await.unwrap();
                let mut sum = 0;
                for n in 0..KEYS {
                    sum += get(&tree, n).await.unwrap().unwrap_or(0);
                }
                sum
            });
            assert_eq!(sum, count, "seed {seed}");
        }
    }
}

/// The tasks of one compute node want a lock all the time. With the limit of hand-overs another
/// node gets it within the deadline, and without a limit it does not.
#[test]
fn hand_overs_without_a_limit_starve_other_nodes() {
    for (hand_overs, is_served) in [(4, true), (u32::MAX, false)] {
        let deadline = Duration::from_millis(2);
        let config = Config { hand_overs, deadline, ..Config::SHERMAN };
        let world = World::new(3, (1, 2, 1), 512, config);
        world.first(|tree| async move { tree.insert(&key(1), &key(0)).await.unwrap() });
        let (greedy, other) = (world.worker(0, 0), world.worker(1, 0));
        for _ in 0..6 {
            let tree = greedy.tree.clone();
            drop(greedy.handle.spawn(async move {
                for n in 0..10_000 {
                    tree.update(&key(1), &key(n)).await.unwrap();
                }
            }));
        }
        let (tree, handle) = (other.tree, other.handle.clone());
        let ended = world.run(other.handle.spawn(async move {
            handle.sleep(Duration::from_micros(200)).await;
            tree.update(&key(1), &[7; 8]).await
        }));
        match ended {
            Ok(()) => assert!(is_served),
            Err(ShermanError::Locked { holder, .. }) => {
                assert!(!is_served);
                assert_eq!(holder, ComputeNodeId::new(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// The holder of a lock dies at each of many times. What needs its lock fails by the deadline with
/// the lock's name, and everything else goes on.
#[test]
fn the_death_of_a_lock_holder_costs_what_needs_its_lock() {
    let mut blocked = 0;
    for config in [Config::SHERMAN, Config::FG_PLUS] {
        let deadline = Duration::from_millis(5);
        let config = Config { deadline, ..config };
        for step in 0..150_u64 {
            let world = World::with(step, (1, 2, 1), 512, config, SimConfig::rough());
            world.first(|tree| async move {
                tree.bulk_load((0..KEYS).map(|n| (key(n), key(0))), 0.9).await.unwrap();
            });
            let dying = world.worker(1, 0);
            let tree = dying.tree;
            drop(dying.handle.spawn(async move {
                for round in 1..100_u64 {
                    for n in 0..KEYS + 20 {
                        let _ = tree.upsert(&key(n), &[round as u8; 8]).await;
                    }
                }
            }));
            let died = Duration::from_nanos(1000 + step * 733);
            let worker = world.worker(0, 0);
            let handle = worker.handle.clone();
            world.run(worker.handle.spawn(async move { handle.sleep(died).await }));
            let dead = ComputeNodeId::new(2).unwrap();
            world.sim.kill(dead).unwrap();
            world.running[1][0].power().stop();
            let (tree, handle) = (worker.tree, worker.handle.clone());
            blocked += world.run(worker.handle.spawn(async move {
                let mut blocked = 0;
                for n in 0..KEYS {
                    let begun = handle.now();
                    let ended = tree.update(&key(n), &[200; 8]).await;
                    let wrote = match ended {
                        Ok(()) => true,
                        Err(ShermanError::Locked { holder, lock, waited }) => {
                            assert_eq!(holder, Some(dead));
                            assert!(!lock.is_null() && waited >= deadline);
                            false
                        }
                        Err(error) => panic!("{error}"),
                    };
                    blocked += u64::from(!wrote);
                    let mut value = Vec::new();
                    match tree.get(&key(n), &mut value).await {
                        Ok(found) => {
                            assert!(found && value.iter().all(|&byte| byte == value[0]));
                            assert!(!wrote || value[0] == 200);
                        }
                        Err(ShermanError::Locked { holder, .. }) => {
                            assert_eq!(holder, Some(dead));
                            assert!(!wrote);
                        }
                        Err(error) => panic!("{error}"),
                    }
                    assert!(handle.now() - begun < 3 * deadline, "an operation took too long");
                }
                blocked
            }));
        }
    }
    assert!(blocked > 100, "{blocked} operations met a dead holder");
}
