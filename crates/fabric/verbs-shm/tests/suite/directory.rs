//! The files of a directory: which processes may be stopped, which files are removed, and which
//! requests are refused with a reason.
#![cfg(target_os = "linux")]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use latchwork_verbs::{
    Endpoint as _, MemoryNodeId, Region, RegionKey, SetupError, Target, VerbError, WorkRequest,
};
use latchwork_verbs_shm::{HugePages, Place, ProcessEnd, ShmConfig, ShmError, ShmFabric};

use crate::common::{
    Directory, PATIENCE, Process, compute, hear, introduce, memory, node, role, say,
};

fn fabric(directory: &Directory) -> ShmFabric {
    ShmFabric::in_directory(&directory.0, ShmConfig::default()).unwrap()
}

/// Serves a memory node until the parent process has ended.
#[test]
fn child() {
    let Some(role) = role() else { return };
    let fabric = ShmFabric::in_directory(role[0].as_str(), ShmConfig::default()).unwrap();
    fabric.serve_memory_as(MemoryNodeId(0), 1 << 16).unwrap();
    say(&fabric.contact(memory(0)).unwrap());
    while hear().is_some() {}
}

fn serve(directory: &Directory) -> (Process, String) {
    let mut process = Process::start("directory::child", &[directory.0.to_str().unwrap()]);
    let contact = process.hear();
    (process, contact)
}

#[test]
fn a_process_is_stopped_by_its_contact_and_its_files_go_with_the_next_start() {
    let directory = Directory::new();
    let own = fabric(&directory);
    let (_process, contact) = serve(&directory);
    own.add_peer(memory(0), &contact).unwrap();
    assert!(own.lives(memory(0), &contact).unwrap());
    assert_eq!(own.stop(memory(0), &contact, PATIENCE).unwrap(), ProcessEnd::Killed);
    assert!(!own.lives(memory(0), &contact).unwrap());
    assert_eq!(own.stop(memory(0), &contact, PATIENCE).unwrap(), ProcessEnd::WasGone);
    // A process that had mapped the memory keeps the mapping.
    assert_eq!(own.memory(MemoryNodeId(0)).unwrap().len(), 1 << 16);
    assert_eq!(directory.files().len(), 3);
    let next = fabric(&directory);
    assert_eq!(directory.files().len(), 2, "two owners' files: {:?}", directory.files());
    assert!(matches!(next.add_peer(memory(0), &contact), Err(ShmError::Ended { .. })));
    assert_eq!(own.stop(memory(0), &contact, PATIENCE).unwrap(), ProcessEnd::WasGone);
}

#[test]
fn no_process_is_stopped_without_a_certain_identity() {
    let directory = Directory::new();
    let (own, other) = (fabric(&directory), fabric(&directory));
    other.add_compute_node(node(1)).unwrap();
    let contact = other.contact(compute(1)).unwrap();
    let refused = own.stop(compute(1), &contact, Duration::ZERO);
    assert!(matches!(refused, Err(ShmError::OwnProcess { .. })), "{refused:?}");
    // The owner's file of a living process, with the identity of another living process.
    let (mut process, contact) = serve(&directory);
    let owner = directory.files().into_iter().find(|name| {
        name.ends_with("-owner") && contact.contains(&name["latchwork-".len()..][..16])
    });
    let owner = directory.0.join(owner.unwrap());
    let text = fs::read_to_string(&owner).unwrap();
    let mut bystander = Process::start("directory::child", &[directory.0.to_str().unwrap()]);
    bystander.hear();
    let lie =
        text.replace(&format!("process {}", process.id()), &format!("process {}", bystander.id()));
    for false_text in [lie.as_str(), "", "process 1\n", &text.replace("namespace ", "namespace 1")]
    {
        fs::write(&owner, false_text).unwrap();
        let refused = own.stop(memory(0), &contact, Duration::ZERO);
        assert!(matches!(refused, Err(ShmError::Unproven { .. })), "{refused:?}");
    }
    fs::write(&owner, text).unwrap();
    assert_eq!(own.stop(memory(0), &contact, PATIENCE).unwrap(), ProcessEnd::Killed);
    process.kill();
    bystander.finish();
}

#[test]
fn only_files_of_processes_that_ended_are_removed() {
    let directory = Directory::new();
    let foreign = [
        "notes",
        "latchwork-notes",
        "latchwork-0000000000000001",
        "latchwork-000000000000000z-owner",
        "latchwork-0000000000000001-other-3",
        "sem.latchwork-0000000000000001-owner",
    ];
    for name in foreign {
        fs::write(directory.0.join(name), "precious").unwrap();
    }
    // The first file is an owner's file without a lock: its process has ended, or a cleaner died
    // before it removed its last file. The owner's files of the other files are missing.
    for name in [
        "latchwork-00000000000000aa-owner",
        "latchwork-00000000000000bb-memory-7",
        "latchwork-00000000000000cc-ring-1-00000000000000bb-2",
        "latchwork-00000000000000dd-temporary-0",
    ] {
        fs::write(directory.0.join(name), "").unwrap();
    }
    let living = fabric(&directory);
    living.add_compute_node(node(1)).unwrap();
    let region = living.new_region(4096).unwrap();
    living.register(node(1), region).unwrap();
    let next = fabric(&directory);
    assert_eq!(directory.files().len(), foreign.len() + 4);
    drop((living, next));
    let mut left = foreign.map(str::to_owned);
    left.sort();
    assert_eq!(directory.files(), left);
}

#[test]
fn a_link_in_place_of_a_file_is_not_followed() {
    let directory = Directory::new();
    let elsewhere = Directory::new();
    let precious = elsewhere.0.join("precious");
    fs::write(&precious, vec![7; 4096]).unwrap();
    let (mut process, contact) = serve(&directory);
    let path = contact.splitn(4, ':').nth(3).unwrap();
    fs::remove_file(path).unwrap();
    symlink(&precious, path).unwrap();
    let own = fabric(&directory);
    let refused = own.add_peer(memory(0), &contact);
    assert!(matches!(refused, Err(ShmError::Foreign { .. })), "{refused:?}");
    process.kill();
    drop(fabric(&directory));
    assert_eq!(fs::read(&precious).unwrap(), vec![7; 4096]);
}

#[test]
fn what_a_contact_does_not_say_truly_is_found_before_anything_is_touched() {
    let directory = Directory::new();
    let (own, other) = (fabric(&directory), fabric(&directory));
    other.serve_memory_as(MemoryNodeId(3), 8192).unwrap();
    other.add_compute_node(node(5)).unwrap();
    let contact = other.contact(memory(3)).unwrap();
    let [longer, shorter] = ["12288", "8184"].map(|bytes| contact.replace("8192", bytes));
    let refused = own.add_peer(memory(3), &longer);
    assert!(matches!(refused, Err(ShmError::Layout { .. })), "{refused:?}");
    for text in ["", "nonsense", "shm1:12", &contact[1..]] {
        let refused = own.add_peer(memory(3), text);
        assert!(matches!(refused, Err(ShmError::Contact { .. })), "{refused:?}");
    }
    let refused = own.add_peer(memory(4), &contact);
    assert!(matches!(refused, Err(ShmError::OtherDirectory { .. })), "{refused:?}");
    let strangers = Directory::new();
    let refused = fabric(&strangers).add_peer(memory(3), &contact);
    assert!(matches!(refused, Err(ShmError::OtherDirectory { .. })), "{refused:?}");
    // A page with wrong content.
    let page = other.contact(compute(5)).unwrap();
    let path = page.splitn(4, ':').nth(3).unwrap();
    let bytes = fs::metadata(path).unwrap().len();
    File::create(path).unwrap().set_len(bytes).unwrap();
    let refused = own.add_peer(compute(5), &page);
    assert!(matches!(refused, Err(ShmError::Layout { .. })), "{refused:?}");
    own.add_peer(memory(3), &shorter).unwrap();
    assert!(matches!(own.add_peer(memory(3), &contact), Err(ShmError::Known { .. })));
    assert!(matches!(own.contact(memory(3)), Err(ShmError::Unknown { .. })));
    let alone = ShmFabric::default();
    assert!(matches!(alone.add_peer(memory(3), &contact), Err(ShmError::OneProcess)));
}

#[test]
fn more_memory_than_there_is_room_for_is_one_error_and_leaves_nothing() {
    let directory = Directory::new();
    let own = fabric(&directory);
    let before = directory.files();
    for bytes in [1 << 46, 1 << 60] {
        let refused = own.serve_memory_as(MemoryNodeId(0), bytes).unwrap_err();
        let ShmError::NoRoom { bytes: asked, free, .. } = refused else { panic!("{refused}") };
        assert!(asked == bytes as u64 && free > 0 && free < asked);
        let refused = own.new_region(bytes).unwrap_err();
        assert!(matches!(refused, SetupError::NoRoom { .. }), "{refused}");
    }
    assert_eq!(directory.files(), before);
    assert!(own.add_memory_node(12).is_err());
    assert_eq!(
        own.add_memory_node(1 << 16).unwrap(),
        MemoryNodeId(0),
        "and there is room for less"
    );
}

#[test]
fn a_directory_that_is_none_is_refused() {
    let directory = Directory::new();
    let file = directory.0.join("file");
    OpenOptions::new().write(true).create_new(true).open(&file).unwrap();
    let deep = directory.0.join("not/there");
    for path in [file.as_path(), &deep, Path::new("")] {
        let refused = ShmFabric::in_directory(path, ShmConfig::default()).err();
        assert!(matches!(refused, Some(ShmError::File { .. })), "{refused:?}");
    }
    let made = directory.0.join("new");
    drop(ShmFabric::in_directory(&made, ShmConfig::default()).unwrap());
    assert!(made.is_dir());
    let advised = Place { huge_pages: HugePages::Advised, ..Place::from(&made) };
    let advised = ShmFabric::in_directory(advised, ShmConfig::default()).unwrap();
    advised.add_memory_node(64 << 20).unwrap();
    advised.prefault();
}

#[test]
fn large_files_may_lie_in_another_directory_and_go_with_their_process() {
    let (directory, large) = (Directory::new(), Directory::new());
    fs::write(large.0.join("notes"), "precious").unwrap();
    let place =
        || Place { path: directory.0.clone(), huge_pages: HugePages::Directory(large.0.clone()) };
    let open = || ShmFabric::in_directory(place(), ShmConfig::default()).unwrap();
    let (one, two) = (open(), open());
    one.serve_memory_as(MemoryNodeId(0), 1 << 16).unwrap();
    assert_eq!(large.files().len(), 2);
    two.add_peer(memory(0), &one.contact(memory(0)).unwrap()).unwrap();
    one.memory(MemoryNodeId(0)).unwrap().words().set_u64(8, 7);
    assert_eq!(two.memory(MemoryNodeId(0)).unwrap().words().u64(8), 7);
    drop(one);
    assert_eq!(large.files(), ["notes"]);
    let living = open();
    living.serve_memory_as(MemoryNodeId(1), 1 << 16).unwrap();
    let served = large.files();
    assert_eq!(served.len(), 2);
    // The remains of a killed process: files, and an owner's file without a lock.
    let dead = "latchwork-00000000000000aa";
    let text = format!("process 1\nstarted 1\nnamespace 1\nlarge {}\nend\n", large.0.display());
    fs::write(directory.0.join(format!("{dead}-owner")), text).unwrap();
    fs::write(large.0.join(format!("{dead}-memory-0")), "").unwrap();
    drop((open(), two));
    assert_eq!(large.files(), served, "the dead process's file is gone, the others are there");
    drop(living);
    assert_eq!((large.files(), directory.files()), (vec!["notes".to_owned()], vec![]));
}

/// Needs huge pages: `LATCHWORK_HUGE_PAGES` names a directory on a file system of huge pages with 8
/// MiB free.
#[test]
fn memory_of_huge_pages_has_whole_ones_or_is_refused() {
    let Some(large) = std::env::var_os("LATCHWORK_HUGE_PAGES") else {
        println!("skipped: no LATCHWORK_HUGE_PAGES");
        return;
    };
    let directory = Directory::new();
    let place = || Place {
        path: directory.0.clone(),
        huge_pages: HugePages::Directory(large.clone().into()),
    };
    let open = || ShmFabric::in_directory(place(), ShmConfig::default()).unwrap();
    let (one, two) = (open(), open());
    // The length is not a multiple of the page size.
    one.serve_memory_as(MemoryNodeId(0), (2 << 20) + 8).unwrap();
    two.add_peer(memory(0), &one.contact(memory(0)).unwrap()).unwrap();
    one.prefault();
    one.memory(MemoryNodeId(0)).unwrap().words().set_u64(2 << 20, 7);
    assert_eq!(two.memory(MemoryNodeId(0)).unwrap().words().u64(2 << 20), 7);
    let refused = one.serve_memory_as(MemoryNodeId(1), 1 << 36).unwrap_err();
    assert!(matches!(refused, ShmError::NoRoom { .. }), "{refused}");
    drop((one, two));
    assert_eq!(std::fs::read_dir(&large).unwrap().count(), 0);
}

#[test]
fn a_node_that_was_cut_off_comes_back_under_its_name_as_another() {
    let directory = Directory::new();
    let own = fabric(&directory);
    own.add_compute_node(node(1)).unwrap();
    let mut endpoint = own.endpoint(node(1)).unwrap();
    let target = Target::Compute(node(2), 0);
    let write = |value| [WorkRequest::WriteWord { remote: 8, value }];
    let mut last: Option<(ShmFabric, String)> = None;
    for round in 0..5_u64 {
        let other = fabric(&directory);
        other.add_compute_node(node(2)).unwrap();
        let region = other.new_region(4096 << round).unwrap();
        other.register(node(2), region.clone()).unwrap();
        // A region that peers cannot address.
        other.register(node(2), Region::zeroed(64).unwrap()).unwrap();
        other.serve_memory_as(MemoryNodeId(7), 4096).unwrap();
        let served = other.memory(MemoryNodeId(7)).unwrap();
        other.register(node(2), served.clone()).unwrap();
        introduce(&[(&own, &[compute(1)]), (&other, &[compute(2)])]);
        endpoint.post(target, round, &write(round + 1)).unwrap();
        endpoint.post(Target::Compute(node(2), 2), round, &write(round + 3)).unwrap();
        let hidden = Target::Compute(node(2), 1);
        let refused = endpoint.post(hidden, 0, &write(1)).unwrap_err();
        assert_eq!(refused, VerbError::UnknownTarget { target: hidden });
        endpoint.ring();
        endpoint.poll(&mut |completion| assert!(completion.result.is_ok()));
        assert_eq!([&region, &served].map(|it| it.words().u64(8)), [round + 1, round + 3]);
        // A batch that is posted and not rung before the cut-off fails, as does the batch that is
        // posted after the cut-off.
        endpoint.post(target, 0, &write(99)).unwrap();
        own.disconnect(node(2)).unwrap();
        own.disconnect(node(2)).unwrap();
        endpoint.post(target, 0, &write(99)).unwrap();
        endpoint.ring();
        let mut failed = 0;
        endpoint.poll(&mut |completion| {
            assert_eq!(completion.result, Err(VerbError::Disconnected { target }));
            failed += 1;
        });
        assert_eq!((failed, region.words().u64(8)), (2, round + 1));
        if let Some((_, contact)) =
            last.replace((other.clone(), other.contact(compute(2)).unwrap()))
        {
            assert!(matches!(
                own.add_peer(compute(2), &contact),
                Err(ShmError::Known { .. } | ShmError::Ended { .. })
            ));
        }
        assert!(matches!(
            own.add_peer(compute(2), &other.contact(compute(2)).unwrap()),
            Err(ShmError::Known { .. })
        ));
    }
    assert_eq!(
        own.register(node(2), Region::zeroed(64).unwrap()),
        Err(SetupError::UnknownNode(node(2)))
    );
    assert!(own.endpoint(node(2)).is_err() && own.inbox(node(2)).is_err());
    assert_eq!(own.register(node(1), Region::zeroed(64).unwrap()), Ok(RegionKey(0)));
}

/// Bug: verbs of an endpoint went to the file of a dead node, without an error. Mechanism: the node
/// was replaced before the endpoint's next call. This call found memory under the same id and took
/// it for the old memory. Fix: the endpoint compares the region, not the id.
#[test]
fn a_memory_node_that_was_replaced_at_once_fails_its_batches() {
    let directory = Directory::new();
    let (own, dead) = (fabric(&directory), fabric(&directory));
    own.add_compute_node(node(1)).unwrap();
    let mut endpoint = own.endpoint(node(1)).unwrap();
    let target = Target::Memory(MemoryNodeId(0));
    let add = [WorkRequest::FetchAdd { remote: 8, add: 1 }];
    dead.serve_memory_as(MemoryNodeId(0), 4096).unwrap();
    own.add_peer(memory(0), &dead.contact(memory(0)).unwrap()).unwrap();
    endpoint.post(target, 0, &add).unwrap();
    own.disconnect_memory(MemoryNodeId(0)).unwrap();
    // The file of the dead node is still mapped here.
    let region = dead.memory(MemoryNodeId(0)).unwrap();
    drop(dead);
    let next = fabric(&directory);
    next.serve_memory_as(MemoryNodeId(0), 4096).unwrap();
    own.add_peer(memory(0), &next.contact(memory(0)).unwrap()).unwrap();
    endpoint.ring();
    let failed = Err(VerbError::Disconnected { target });
    endpoint.poll(&mut |completion| assert_eq!(completion.result.map(drop), failed));
    endpoint.post(target, 0, &add).unwrap();
    endpoint.ring();
    endpoint.poll(&mut |completion| assert!(completion.result.is_ok()));
    assert_eq!(region.words().u64(8), 0, "the dead node's memory");
    assert_eq!(next.memory(MemoryNodeId(0)).unwrap().words().u64(8), 1);
}

#[test]
fn a_memory_node_that_was_cut_off_fails_its_batches() {
    let directory = Directory::new();
    let (own, other) = (fabric(&directory), fabric(&directory));
    own.add_compute_node(node(1)).unwrap();
    let mut endpoint = own.endpoint(node(1)).unwrap();
    let target = Target::Memory(MemoryNodeId(0));
    let add = [WorkRequest::FetchAdd { remote: 8, add: 1 }];
    assert_eq!(endpoint.post(target, 0, &add), Err(VerbError::UnknownTarget { target }));
    other.serve_memory_as(MemoryNodeId(0), 4096).unwrap();
    own.add_peer(memory(0), &other.contact(memory(0)).unwrap()).unwrap();
    for expected in [Ok(()), Err(VerbError::Disconnected { target })] {
        endpoint.post(target, 0, &add).unwrap();
        if expected.is_err() {
            own.disconnect_memory(MemoryNodeId(0)).unwrap();
            endpoint.post(target, 0, &add).unwrap();
            let beyond = [WorkRequest::FetchAdd { remote: 4096, add: 1 }];
            assert!(endpoint.post(target, 0, &beyond).is_err());
        }
        endpoint.ring();
        endpoint.poll(&mut |completion| assert_eq!(completion.result.map(drop), expected));
        assert_eq!(endpoint.in_flight(), 0);
    }
    assert_eq!(other.memory(MemoryNodeId(0)).unwrap().words().u64(8), 1);
    drop(other);
    let next = fabric(&directory);
    next.serve_memory_as(MemoryNodeId(0), 8192).unwrap();
    own.add_peer(memory(0), &next.contact(memory(0)).unwrap()).unwrap();
    endpoint.post(target, 0, &[WorkRequest::FetchAdd { remote: 8184, add: 1 }]).unwrap();
    endpoint.ring();
    endpoint.poll(&mut |completion| assert!(completion.result.is_ok()));
    assert_eq!(next.memory(MemoryNodeId(0)).unwrap().words().u64(8184), 1);
}
