//! The guarantees of the replacement policies.

use std::thread;

use latchwork_cache::{Cache, Ownership, ReplacementPolicy};
use latchwork_verbs::{GlobalAddr, MemoryNodeId};

const EPOCH: ReplacementPolicy = ReplacementPolicy::Epoch { sample: 4, share: 10 };

fn line(k: u64) -> GlobalAddr {
    GlobalAddr::new(MemoryNodeId(0), (1 << 20) + k * 512)
}

/// A cache of `frames` frames with lines 0, 1 and so on, attached in this order.
fn full(frames: u64, policy: ReplacementPolicy) -> Cache {
    let cache = Cache::with_frames(frames as usize, 512).expect("memory").with_replacement(policy);
    for k in 0..frames {
        let id = cache.attach(line(k)).expect("a free frame");
        cache.frame(id).publish(Ownership::Exclusive);
    }
    cache
}

fn victims(cache: &Cache, wanted: usize) -> Vec<GlobalAddr> {
    let mut victims = Vec::new();
    cache.victims(wanted, &mut victims);
    victims
}

fn evict(cache: &Cache, victim: GlobalAddr) {
    let id = cache.find(victim).expect("a victim is in the cache");
    assert!(cache.frame(id).try_invalidate(), "not in use");
    cache.detach(id);
}

fn read(cache: &Cache, k: u64) {
    assert!(cache.try_read(line(k)).expect("cached").validate());
}

/// The order of last use decides, for reads and writes alike, and no other order.
#[test]
fn lru_has_the_exact_order_of_last_use() {
    let cache = full(8, ReplacementPolicy::Lru);
    for k in [3, 0, 7] {
        read(&cache, k);
    }
    drop(cache.try_write(line(2)).expect("owned"));
    let order = [1, 4, 5, 6, 3, 0, 7, 2];
    for k in order {
        assert_eq!(victims(&cache, 1), [line(k)], "of {order:?}");
        evict(&cache, line(k));
    }
    assert!(victims(&cache, 1).is_empty(), "nothing is left");
}

/// The policy keeps the same order as a plain list, under any mixture of uses, evictions and lines
/// that return.
#[test]
fn lru_agrees_with_a_list() {
    let cache = full(16, ReplacementPolicy::Lru);
    let mut order: Vec<u64> = (0..16).collect();
    let mut random = 7_u64;
    for step in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let k = random >> 59;
        match order.iter().position(|&other| other == k) {
            Some(at) => {
                read(&cache, k);
                order.remove(at);
            }
            None => {
                if cache.free_frames() == 0 {
                    assert_eq!(victims(&cache, 1), [line(order[0])], "step {step}");
                    evict(&cache, line(order.remove(0)));
                }
                let id = cache.attach(line(k)).expect("a free frame");
                cache.frame(id).publish(Ownership::Shared);
            }
        }
        order.push(k);
    }
    let rest: Vec<_> = order.iter().map(|&k| line(k)).collect();
    assert_eq!(victims(&cache, 16), rest);
}

/// Lines in use at the end of the order hide no other lines, and are not examined at every call.
#[test]
fn a_line_in_use_is_no_victim_of_either_policy_and_hinders_no_eviction() {
    for policy in [EPOCH, ReplacementPolicy::Lru] {
        let cache = full(16, policy);
        let reserved = cache.find(line(0)).expect("cached");
        cache.frame(reserved).reserve();
        let written = cache.try_write(line(1)).expect("owned");
        for _ in 0..4 {
            let chosen = victims(&cache, 4);
            assert_eq!(chosen.len(), 4, "{policy:?}");
            assert!(!chosen.contains(&line(0)) && !chosen.contains(&line(1)), "{policy:?}");
        }
        drop(written);
        cache.frame(reserved).unreserve();
        assert_eq!(victims(&cache, 16).len(), 16, "{policy:?}: all of them");
    }
}

/// With both policies a line that is used all the time stays while others come and go. With a
/// sample of one frame the epochs have no effect, and the line leaves.
#[test]
fn a_hot_line_stays() {
    for (policy, stays) in [
        (EPOCH, true),
        (ReplacementPolicy::Lru, true),
        (ReplacementPolicy::Epoch { sample: 1, share: 10 }, false),
    ] {
        let cache = full(64, policy);
        let mut lost = 0;
        for k in 64..2000 {
            if cache.try_read(line(0)).is_none() {
                lost += 1;
                let id = cache.attach(line(0)).expect("a free frame");
                cache.frame(id).publish(Ownership::Shared);
            }
            while cache.free_frames() < 2 {
                // As many as make the sample at least as large as the number of wanted victims.
                victims(&cache, 16).into_iter().for_each(|victim| evict(&cache, victim));
            }
            let id = cache.attach(line(k)).expect("a free frame");
            cache.frame(id).publish(Ownership::Shared);
        }
        // In the first epoch all lines are alike.
        assert_eq!(lost <= 1, stays, "{policy:?}: lost {lost} times");
    }
}

/// Threads that read, write, evict and attach again: at the end every frame is in the list once or
/// free.
#[test]
fn an_lru_list_that_threads_share_loses_no_frame() {
    const FRAMES: u64 = 32;
    let cache = full(FRAMES, ReplacementPolicy::Lru);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = thread + 1;
                let mut own = 1000 + 1000 * thread;
                for _ in 0..20_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if let Some(read) = cache.try_read(line((random >> 32) % FRAMES)) {
                        let _ = read.validate();
                    }
                    // Lines of its own, which no other thread evicts or attaches.
                    if random >> 62 == 0
                        && let Some(id) = cache.attach(line(own))
                    {
                        cache.frame(id).publish(Ownership::Shared);
                        read_if_there(cache, own);
                        let _ = victims(cache, 2);
                        assert!(cache.frame(id).try_invalidate());
                        cache.detach(id);
                        own += 1;
                    } else if random >> 62 == 1 && thread == 0 {
                        let k = (random >> 40) % FRAMES;
                        match cache.find(line(k)) {
                            Some(id) => {
                                if cache.frame(id).try_invalidate() {
                                    cache.detach(id);
                                }
                            }
                            None => {
                                if let Some(id) = cache.attach(line(k)) {
                                    cache.frame(id).publish(Ownership::Exclusive);
                                }
                            }
                        }
                    }
                }
            });
        }
    });
    let mut listed = victims(&cache, FRAMES as usize);
    listed.sort_unstable();
    listed.dedup();
    let mut cached: Vec<_> = cache.lines().map(|(line, _)| line).collect();
    cached.sort_unstable();
    assert_eq!(listed, cached);
    assert_eq!(listed.len() + cache.free_frames(), FRAMES as usize);
}

fn read_if_there(cache: &Cache, k: u64) {
    if let Some(read) = cache.try_read(line(k)) {
        let _ = read.validate();
    }
}
