//! The store in a directory: damage to its files.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use latchwork_membership::{
    FileStore, Joining, MemberState, Membership, MembershipError, Store, open,
};

use crate::common;
use crate::common::{LONG, Place, compute, compute_as, now};

fn directory(place: &Place) -> PathBuf {
    PathBuf::from(place.endpoint.strip_prefix("file:").unwrap())
}

/// Changes the body of the state file, and updates its checksum.
fn rewrite(place: &Place, change: impl Fn(&str) -> String) {
    let path = directory(place).join("state");
    let text = fs::read_to_string(&path).unwrap();
    let (first, body) = text.split_once('\n').unwrap();
    let body = change(body);
    let mut words: Vec<_> = first.split(' ').map(str::to_owned).collect();
    words[4] = body.len().to_string();
    words[5] = format!("{:08x}", crc32fast::hash(body.as_bytes()));
    fs::write(path, format!("{}\n{body}", words.join(" "))).unwrap();
}

#[test]
fn a_store_from_before_the_machine_was_started_anew_has_only_dead_nodes() {
    let place = Place::file();
    // The next process watches the store for the length of the lease.
    let ttl = Duration::from_secs(2);
    let node = place.join(Joining { ttl, ..compute_as(5) }).unwrap();
    let left = place.join(Joining { ttl, ..compute_as(6) }).unwrap();
    left.leave().unwrap();
    node.decide("fact", b"stays").unwrap();
    // The leaked copy is never dropped, so the node does not end during the test.
    std::mem::forget(node.clone());
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    rewrite(&place, |body| body.replace(boot.trim(), "another-boot"));

    let (store, cluster) = open(&place.endpoint).unwrap();
    let error = Membership::join(store.clone(), &cluster, compute_as(5)).unwrap_err();
    assert!(matches!(error, MembershipError::Dead { .. }), "{error}");
    let next = Membership::join(store, &cluster, compute_as(6)).unwrap();
    assert_eq!(next.view().state(node.me().node), Some(MemberState::Dead));
    assert_eq!(next.fact("fact").unwrap().unwrap(), b"stays");
    assert!(next.me().epoch > left.me().epoch);
    let text = fs::read_to_string(directory(&place).join("state")).unwrap();
    assert!(text.contains(boot.trim()), "it has the present start now");
}

#[test]
fn a_state_file_that_is_torn_or_foreign_is_an_error_that_says_so() {
    let place = Place::file();
    let node = place.join(compute()).unwrap();
    let path = directory(&place).join("state");
    let whole = fs::read(&path).unwrap();
    let mut changed = whole.clone();
    let last = changed.len() - 2;
    changed[last] ^= 1;
    for (bytes, why) in [
        (&whole[..whole.len() / 2], "checksum"),
        (&changed[..], "checksum"),
        (b"", "none of its lines"),
        (b"# my notes\n", "none of its lines"),
        (b"\x7fELF\0\xff", "none of its lines"),
        (b"latchwork-cluster 9 1 0 0 00000000\n", "format 9"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = node.fact("x").unwrap_err();
        assert!(matches!(error, MembershipError::Damaged { .. }), "{error}");
        let error = open(&place.endpoint).err().unwrap();
        let text = error.to_string();
        assert!(text.contains(why) && text.contains("state") && !text.contains('\n'), "{text}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "left as it is");
    }
    // The test ends with the whole file, as it was before the damage.
    fs::write(&path, whole).unwrap();
}

#[test]
fn a_node_loses_its_lease_when_its_directory_is_removed() {
    let place = Place::file();
    let node = place.join(common::compute_for(Duration::from_secs(1))).unwrap();
    // The node may be about to write a file.
    while fs::remove_dir_all(directory(&place)).is_err() && directory(&place).exists() {}
    let begin = now();
    let error = node.wait(4 * LONG, |_| false).unwrap_err();
    assert_eq!(error, MembershipError::LeaseEnded);
    assert!(begin.elapsed() < LONG);
    let error = node.fact("x").unwrap_err();
    assert!(error.to_string().contains("removed"), "{error}");
}

/// A directory at the place of a new state file: no write succeeds.
fn fill_disk(place: &Place) -> PathBuf {
    let new = directory(place).join("state.new");
    while fs::create_dir(&new).is_err() {}
    new
}

#[test]
fn a_node_outlives_a_disk_that_is_full_for_less_than_its_lease() {
    let place = Place::file();
    let ttl = Duration::from_secs(4);
    let node = place.join(common::compute_for(ttl)).unwrap();
    let full = fill_disk(&place);
    let error = node.wait(ttl / 2, |_| false).unwrap_err();
    assert!(matches!(error, MembershipError::Deadline { .. }), "{error}");
    assert!(error.to_string().contains("is there space left"), "{error}");
    fs::remove_dir(full).unwrap();
    let error = node.wait(ttl, |_| false).unwrap_err();
    assert!(matches!(error, MembershipError::Deadline { .. }), "{error}");
    assert!(node.lease().is_valid());
    node.leave().unwrap();
}

#[test]
fn a_node_ends_on_a_full_disk_when_its_lease_is_over_and_not_before() {
    let place = Place::file();
    let ttl = Duration::from_secs(2);
    let node = place.join(common::compute_for(ttl)).unwrap();
    let before = now();
    let _full = fill_disk(&place);
    let error = node.wait(LONG, |_| false).unwrap_err();
    assert_eq!(error, MembershipError::LeaseEnded);
    // The last renewal was at most one interval, a fifth of the lease, before the disk was full.
    let lasted = before.elapsed();
    assert!(lasted > ttl / 2 && lasted < ttl, "{lasted:?}");
}

#[test]
fn a_lock_that_is_kept_is_an_error_that_names_the_process() {
    let place = Place::file();
    let lock = fs::File::options().read(true).write(true).open(directory(&place).join("lock"));
    let lock = lock.unwrap();
    fs::write(directory(&place).join("lock"), "4711\n").unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let begin = now();
    let limit = Duration::from_millis(200);
    let error = place.store.grant(LONG, limit).unwrap_err();
    assert!(
        matches!(&error, MembershipError::Locked { holder, .. } if holder == "4711"),
        "{error}"
    );
    assert!(begin.elapsed() >= limit && begin.elapsed() < LONG);
    // A read needs no lock.
    assert_eq!(place.store.get("/x", limit), Ok(None));
    drop(lock);
    place.store.grant(LONG, limit).unwrap();
}

#[test]
fn waiting_uses_next_to_no_cpu() {
    let place = Place::file();
    // The process only waits, so its CPU time is the cost of waiting.
    let store = FileStore::open(directory(&place), LONG).unwrap();
    let revision = store.range("/", LONG).unwrap().revision;
    let used = (0..4).map(|_| {
        let begin = common::cpu();
        assert!(!store.wait("/", revision, Duration::from_millis(500)).unwrap());
        common::cpu() - begin
    });
    // Other load makes single measurements slow. The smallest of the four is the least disturbed.
    let used = used.min().unwrap();
    println!("half a second of waiting uses {used:?} of CPU");
    assert!(used < Duration::from_millis(15), "{used:?}: three per cent of a core");
}

#[test]
fn the_state_is_text_that_an_operator_can_read() {
    let place = Place::file();
    let node = place.join(compute()).unwrap();
    node.decide("pool", b"4 GiB").unwrap();
    let output = Command::new("cat").arg(directory(&place).join("state")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("latchwork-cluster 1 "), "{text}");
    assert!(text.contains("key /latchwork/bench/fact/pool 2 0 4\\x20GiB\n"), "{text}");
}
