//! The storage that loses unsynced data: what it may lose, and what it may not.

use latchwork_wal::storage::torn::{Lie, StorageOperation};
use latchwork_wal::storage::{Locked, Storage, Torn};

const SEEDS: u64 = 300;

fn bytes(torn: &Torn, name: &str) -> Option<Vec<u8>> {
    let file = torn.open(name).ok()?;
    let mut bytes = vec![0; file.length().expect("read") as usize];
    file.read(0, &mut bytes).expect("read");
    Some(bytes)
}

/// A file with a first write that is durable, and a second one.
fn world(seed: u64, sync: bool) -> Torn {
    let torn = Torn::new(seed);
    let file = torn.create("a").expect("made");
    file.append(&[1; 700]).expect("written");
    file.sync().expect("synced");
    torn.sync_directory().expect("synced");
    file.append(&[2; 5000]).expect("written");
    torn.create("b").expect("made");
    torn.rename("a", "c").expect("renamed");
    if sync {
        file.sync().expect("synced");
        torn.sync_directory().expect("synced");
    }
    torn.crash(seed)
}

#[test]
fn what_was_synced_is_there_and_the_rest_may_be_or_not() {
    let (mut whole, mut gone, mut torn_up, mut renamed, mut made) = (0, 0, 0, 0, 0);
    for seed in 0..SEEDS {
        let torn = world(seed, true);
        assert_eq!(torn.list().expect("listed"), ["b", "c"], "seed {seed}");
        assert_eq!(bytes(&torn, "c"), Some([vec![1; 700], vec![2; 5000]].concat()));

        let torn = world(seed, false);
        let names = torn.list().expect("listed");
        renamed += u32::from(names.contains(&"c".to_owned()));
        made += u32::from(names.contains(&"b".to_owned()));
        let name = if names.contains(&"a".to_owned()) { "a" } else { "c" };
        let content = bytes(&torn, name).expect("one of both names is there");
        assert_eq!(content[..700], [1; 700], "seed {seed}: synced bytes are lost");
        let rest = &content[700..];
        match rest.iter().filter(|byte| **byte == 2).count() {
            5000 => whole += 1,
            0 => gone += 1,
            _ => torn_up += 1,
        }
        // A sector is there as a whole or not at all.
        for sector in content.chunks(512).skip(2).filter(|sector| sector.len() == 512) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "seed {seed}: half a sector");
        }
    }
    for (what, n) in [("whole", whole), ("gone", gone), ("torn", torn_up)] {
        assert!(n > SEEDS as u32 / 20, "{what}: {n} of {SEEDS}");
    }
    for n in [renamed, made] {
        assert!((SEEDS as u32 / 4..SEEDS as u32 * 3 / 4).contains(&n), "{n} of {SEEDS}");
    }
}

#[test]
fn a_process_that_ends_loses_nothing_but_its_files() {
    let torn = Torn::new(1);
    let file = torn.create("a").expect("made");
    file.append(&[1; 700]).expect("written");
    let Ok(Locked::Taken(_lock)) = torn.lock("LOCK") else { panic!("nobody has it") };
    assert!(matches!(torn.lock("LOCK"), Ok(Locked::Held { .. })));
    let next = torn.kill();
    assert_eq!(bytes(&next, "a"), Some(vec![1; 700]));
    assert!(matches!(next.lock("LOCK"), Ok(Locked::Taken(_))));
    file.append(&[2]).expect_err("it belongs to a process that has ended");
    torn.create("b").expect_err("and so does this");
}

/// The pages that a failed sync could not write count as written, so a second sync has nothing to
/// do.
#[test]
fn what_a_failed_sync_left_is_lost_although_the_next_one_succeeds() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let torn = Torn::new(seed);
        let file = torn.create("a").expect("made");
        torn.sync_directory().expect("synced");
        file.append(&[1; 4096]).expect("written");
        torn.fail(StorageOperation::Sync, 0);
        file.sync().expect_err("told to fail");
        file.sync().expect("it says so");
        assert_eq!(bytes(&torn, "a"), Some(vec![1; 4096]), "reading gives what is in memory");
        lost += u64::from(bytes(&torn.crash(seed), "a") != Some(vec![1; 4096]));
    }
    assert!(lost > SEEDS / 4 && lost < SEEDS, "{lost} of {SEEDS}");
}

#[test]
fn a_truncation_may_be_undone_until_it_is_synced() {
    let lengths = |sync: bool| -> Vec<usize> {
        let of = |seed| {
            let torn = Torn::new(seed);
            let file = torn.create("a").expect("made");
            file.append(&[1; 3000]).expect("written");
            file.sync().expect("synced");
            torn.sync_directory().expect("synced");
            file.truncate(1000).expect("truncated");
            if sync {
                file.sync().expect("synced");
            }
            bytes(&torn.crash(seed), "a").expect("there").len()
        };
        (0..SEEDS).map(of).collect()
    };
    assert!(lengths(true).iter().all(|length| *length == 1000));
    let unsynced = lengths(false);
    assert!(unsynced.contains(&3000) && unsynced.contains(&1000));
}

#[test]
fn a_full_device_takes_what_fits() {
    let torn = Torn::new(1);
    torn.set_capacity(1000);
    let file = torn.create("a").expect("made");
    let error = file.append(&[1; 1500]).expect_err("full");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(file.length().expect("read"), 1000);
    file.truncate(400).expect("truncated");
    file.append(&[1; 600]).expect("there is room again");
}

#[test]
fn the_power_goes_off_at_the_operation_that_was_named_and_nothing_follows() {
    let torn = Torn::new(1);
    torn.power_off_after(2);
    let file = torn.create("a").expect("made");
    file.append(&[1; 10]).expect("written");
    file.sync().expect_err("off");
    assert!(!torn.is_on());
    torn.sync_directory().expect_err("off");
    torn.list().expect_err("off");
    assert!(torn.crash(1).is_on());
}

#[test]
fn a_device_that_lies_loses_what_it_said_to_have_synced() {
    let lost = (0..SEEDS).filter(|seed| {
        let torn = Torn::new(*seed);
        torn.lie(Lie::Sync(".log"));
        let file = torn.create("a.log").expect("made");
        file.append(&[1; 2000]).expect("written");
        file.sync().expect("it says so");
        torn.sync_directory().expect("synced");
        bytes(&torn.crash(*seed), "a.log") != Some(vec![1; 2000])
    });
    assert!(lost.count() > 100);
}
