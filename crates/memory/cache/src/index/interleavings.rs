//! Lookups beside insertions and removals, under every interleaving; `scripts/loom.sh` runs this. A
//! bucket has one slot here, so that entries pass full buckets at once.

use latchwork_runtime::sync::Arc;
use latchwork_verbs::MemoryNodeId;
use loom::thread;

use super::*;

/// The `n`th address whose home is bucket `home`.
fn at_home(index: &Index, home: usize, n: usize) -> GlobalAddr {
    let lines = (0..).map(|k| GlobalAddr::new(MemoryNodeId(0), 4096 + k * 2048));
    lines.filter(|&addr| index.place(addr).0 == home).nth(n).expect("half of all addresses")
}

fn has(index: &Index, addr: GlobalAddr, frame: FrameId) -> bool {
    index.find(addr, |found| found == frame) == Some(frame)
}

const FRAMES: [FrameId; 3] = [FrameId(0), FrameId(1), FrameId(2)];

/// `first` entries with one home bucket, in the order of insertion.
fn index(first: usize) -> (Arc<Index>, [GlobalAddr; 3]) {
    let index = Index::new(4);
    let addrs = [0, 1, 2].map(|n| at_home(&index, 0, n));
    for n in 0..first {
        index.insert(addrs[n], FRAMES[n]);
    }
    (Arc::new(index), addrs)
}

#[test]
fn an_entry_that_passed_a_full_bucket_is_found_while_that_bucket_changes() {
    loom::model(|| {
        let (index, [first, second, third]) = index(2);
        let changer = thread::spawn({
            let index = index.clone();
            move || {
                index.remove(first, FRAMES[0]);
                index.insert(third, FRAMES[2]);
            }
        });
        assert!(has(&index, second, FRAMES[1]), "there all the time");
        changer.join().unwrap();
        assert!(has(&index, second, FRAMES[1]) && has(&index, third, FRAMES[2]));
        assert_eq!(index.find(first, |_| true), None);
    });
}

#[test]
fn an_entry_is_found_while_another_that_passed_the_same_bucket_leaves() {
    loom::model(|| {
        let (index, [first, second, third]) = index(3);
        let leaver = thread::spawn({
            let index = index.clone();
            move || index.remove(second, FRAMES[1])
        });
        assert!(has(&index, third, FRAMES[2]), "there all the time");
        leaver.join().unwrap();
        assert!(has(&index, first, FRAMES[0]) && has(&index, third, FRAMES[2]));
    });
}

#[test]
fn insertions_into_one_bucket_lose_no_entry() {
    loom::model(|| {
        let (index, [first, second, third]) = index(1);
        let other = thread::spawn({
            let index = index.clone();
            move || index.insert(second, FRAMES[1])
        });
        index.insert(third, FRAMES[2]);
        other.join().unwrap();
        for (addr, frame) in [first, second, third].into_iter().zip(FRAMES) {
            assert!(has(&index, addr, frame), "{frame:?} is lost");
        }
        for (addr, frame) in [first, second, third].into_iter().zip(FRAMES) {
            index.remove(addr, frame);
        }
        assert!(index.buckets.iter().all(|b| b.meta.load(Ordering::Relaxed) == 0));
    });
}

#[test]
fn an_insertion_and_a_removal_in_one_bucket_do_not_undo_each_other() {
    loom::model(|| {
        let (index, [first, second, third]) = index(2);
        let remover = thread::spawn({
            let index = index.clone();
            move || index.remove(first, FRAMES[0])
        });
        index.insert(third, FRAMES[2]);
        remover.join().unwrap();
        assert_eq!(index.find(first, |frame| frame == FRAMES[0]), None);
        assert!(has(&index, second, FRAMES[1]) && has(&index, third, FRAMES[2]));
    });
}

#[test]
fn a_task_that_learns_of_an_insertion_finds_it() {
    loom::model(|| {
        let (index, [_, second, _]) = index(1);
        let told = Arc::new(latchwork_runtime::sync::AtomicBool::new(false));
        let inserter = thread::spawn({
            let (index, told) = (index.clone(), told.clone());
            move || {
                index.insert(second, FRAMES[1]);
                told.store(true, Ordering::Release);
            }
        });
        if told.load(Ordering::Acquire) {
            assert!(has(&index, second, FRAMES[1]));
        } else if let Some(found) = index.find(second, |_| true) {
            assert_eq!(found, FRAMES[1], "an entry of another address");
        }
        inserter.join().unwrap();
    });
}
