//! Journal slots: which chunks they take, which workers get them, and which of them are valid.

use latchwork_memnode::journal::{SLOT_HEAD, entries, forget};
use latchwork_memnode::{Journal, PoolError, PoolSettings};
use latchwork_verbs::{GlobalAddr, MemoryNodeId, Region};

use crate::common::{LINE, Node, World, geometry, node};

const FIRST: MemoryNodeId = MemoryNodeId(0);

/// The owner word of a chunk of memory node 0.
fn owner(world: &World, chunk: u64) -> u64 {
    world.word((32 << 10) + 8 * chunk)
}

/// The node in the owner word of a chunk with slots; `Some(0)` without a node.
fn slots_of(world: &World, chunk: u64) -> Option<u64> {
    let owner = owner(world, chunk);
    (owner >> 63 == 1).then_some(owner >> 56 & 63)
}

fn claim(world: &World, id: u8, of: &Node, workers: usize) -> Result<Journal, PoolError> {
    let (worker, epochs) = (world.worker(id), of.epochs.clone());
    world
        .run(&world.worker(id), async move { Journal::claim(&epochs, &worker.port, workers).await })
}

/// Writes a slot of `journal` whose bytes are the numbers from 1 on, without its last `torn` words.
fn write(world: &World, id: u8, journal: &Journal, (slot, line): (u64, GlobalAddr), torn: usize) {
    let region = Region::zeroed(SLOT_HEAD + 40).expect("memory");
    let image = region.words();
    (0..5).for_each(|word| image.set_word(SLOT_HEAD / 8 + word, 1 + word as u64));
    journal.seal(image, line, 64..104);
    let words: Vec<u64> = (0..image.len() / 8 - torn).map(|word| image.word(word)).collect();
    let worker = world.worker(id);
    world.run(&world.worker(id), async move {
        let at = GlobalAddr::new(line.node(), slot);
        worker.port.write_words(at, &words).await.expect("no faults");
    });
}

fn valid(world: &World, pool: &latchwork_memnode::Pool, of: u8) -> Vec<GlobalAddr> {
    let (worker, pool) = (world.worker(2), pool.clone());
    world.run(&world.worker(2), async move {
        let found = entries(&worker.port, &pool, FIRST, node(of)).await.expect("no faults");
        assert!(found.iter().all(|entry| entry.start == 64 && entry.words == [1, 2, 3, 4, 5]));
        found.into_iter().map(|entry| entry.line).collect()
    })
}

#[test]
fn slots_take_the_last_chunks_and_lines_take_the_others() {
    let world = World::new(1, &[3, 3], 2, 1);
    let pool = world.format();
    let nodes = [1, 2].map(|id| world.register(id, &pool, PoolSettings::default()));
    let one = claim(&world, 1, &nodes[0], 4).expect("room");
    let two = claim(&world, 2, &nodes[1], 4).expect("room");
    assert_eq!([0, 1, 2].map(|chunk| slots_of(&world, chunk)), [None, Some(2), Some(1)]);
    let (worker, lines) = (world.worker(1), nodes[0].lines.clone());
    let lines = world.run(&world.worker(1), async move {
        let mut all = Vec::new();
        while let Ok(line) = lines.allocate(&worker.port, &worker.handle).await {
            all.push(line);
        }
        all
    });
    assert_eq!(lines.len() as u32, 2 * geometry().lines_per_chunk(), "one chunk of each node");
    assert!(lines.iter().all(|line| geometry().chunk_index(*line) == Some(0)));
    drop((one, two));
}

#[test]
fn workers_take_equal_shares_and_return_them() {
    let world = World::new(2, &[3, 3], 1, 1);
    let pool = world.format();
    let own = world.register(1, &pool, PoolSettings::default());
    let journal = claim(&world, 1, &own, 10).expect("room");
    let shares: Vec<_> = (0..10).map(|_| journal.take(FIRST)).collect();
    let len = shares[0].len();
    assert!((2..=16).contains(&len) && shares.iter().all(|share| share.len() == len), "{len}");
    let mut all: Vec<_> = shares.iter().flatten().copied().collect();
    all.sort_unstable();
    assert!(all.windows(2).all(|two| two[0] + u64::from(LINE) < two[1]), "slots overlap");
    let rest = std::iter::from_fn(|| Some(journal.take(FIRST)).filter(|more| !more.is_empty()));
    assert!(rest.count() < 10, "the rest is smaller than a share of each");
    journal.give_back(FIRST, shares[3].clone());
    let mut again = journal.take(FIRST);
    again.sort_unstable();
    let mut returned = shares[3].clone();
    returned.sort_unstable();
    assert_eq!(again, returned);
    assert!(journal.take(MemoryNodeId(7)).is_empty(), "there is no such memory node");
}

#[test]
fn a_pool_without_a_free_chunk_has_no_slots() {
    let world = World::new(3, &[1], 2, 1);
    let pool = world.format();
    let nodes = [1, 2].map(|id| world.register(id, &pool, PoolSettings::default()));
    claim(&world, 1, &nodes[0], 1).expect("room");
    let error = claim(&world, 2, &nodes[1], 1).expect_err("no room");
    assert_eq!(error, PoolError::NoSlots { node: FIRST });
    assert!(error.to_string().contains("survive"), "{error}");
}

#[test]
fn a_slot_is_valid_if_it_is_whole_and_of_the_present_registration() {
    let world = World::new(4, &[3], 2, 1);
    let pool = world.format();
    let [own, other] = [1, 2].map(|id| world.register(id, &pool, PoolSettings::default()));
    let journal = claim(&world, 1, &own, 1).expect("room");
    let slots = journal.take(FIRST);
    let chunk = geometry().chunk_addr(FIRST, 0);
    let lines = [0, 1, 2].map(|index| geometry().line_addr(chunk, index));
    write(&world, 1, &journal, (slots[0], lines[0]), 0);
    write(&world, 1, &journal, (slots[1], lines[1]), 1);
    let no_line = GlobalAddr::new(FIRST, lines[2].offset() + 8);
    write(&world, 1, &journal, (slots[2], no_line), 0);
    assert_eq!(valid(&world, &pool, 1), [lines[0]], "not the torn one, and no foreign address");
    assert_eq!(valid(&world, &pool, 2), []);
    // The chunk goes to another node, for which nothing in it is valid.
    for _ in 0..2 {
        let (worker, pool) = (world.worker(2), pool.clone());
        world.run(&world.worker(2), async move {
            forget(&worker.port, &pool, FIRST, node(1)).await.expect("no faults");
        });
        assert_eq!(slots_of(&world, 2), Some(0));
    }
    let journal = claim(&world, 2, &other, 1).expect("room");
    assert_eq!(slots_of(&world, 2), Some(2));
    assert_eq!([1, 2].map(|of| valid(&world, &pool, of).len()), [0, 0]);
    // A node that leaves returns the chunk, unless an operation has kept a slot.
    journal.keep();
    let leave = |journal: Journal| {
        let worker = world.worker(2);
        world.run(&world.worker(2), async move {
            journal.leave(&worker.port).await.expect("no faults");
        });
    };
    leave(journal);
    assert_eq!(slots_of(&world, 2), Some(2));
    leave(claim(&world, 2, &other, 1).expect("the same chunk again"));
    assert_eq!(slots_of(&world, 2), Some(0));
}
