//! A node whose permission has ended: none of its batches takes effect, and all of its batches end.

use std::rc::Rc;
use std::sync::Arc;

use latchwork_fabric::{AnyFabric, Permission, Port};
use latchwork_runtime::sync::{AtomicBool, Ordering};
use latchwork_runtime::{Executor, ExecutorConfig, Handle, RealDriver};
use latchwork_verbs::{
    ComputeNodeId, GlobalAddr, Inbox as _, MemoryNodeId, Message, Target, VerbError, WorkRequest,
};
use latchwork_verbs_shm as shm;

const MEMORY: Target = Target::Memory(MemoryNodeId(0));
const AT: GlobalAddr = GlobalAddr::new(MemoryNodeId(0), 64);

struct Setup {
    fabric: AnyFabric,
    port: Rc<Port>,
    handle: Handle,
    may: Arc<AtomicBool>,
    last: Arc<AtomicBool>,
}

impl Setup {
    fn word(&self) -> u64 {
        self.fabric.memory(AT.node()).expect("it is here").words().u64(AT.offset() as usize)
    }

    fn end_permission(&self) {
        self.may.store(false, Ordering::Relaxed);
    }

    /// Lets the permission end right after the next check, which still finds the permission valid.
    fn end_permission_behind_a_look(&self) {
        self.last.store(true, Ordering::Relaxed);
    }
}

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).expect("an id")
}

fn on(fabric: AnyFabric, test: impl AsyncFn(Setup)) {
    let mut worker = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let handle = worker.handle();
    fabric.add_memory_node(1 << 20).expect("memory");
    fabric.add_compute_node(node(1)).expect("a node");
    let may = Arc::new(AtomicBool::new(true));
    let last = Arc::new(AtomicBool::new(false));
    let asked = (Arc::clone(&may), Arc::clone(&last));
    let permission = Permission::while_it(move || match asked.1.swap(false, Ordering::Relaxed) {
        true => asked.0.swap(false, Ordering::Relaxed),
        false => asked.0.load(Ordering::Relaxed),
    });
    let port = Port::permitted(&fabric, node(1), &handle, permission).expect("a port");
    worker.block_on(test(Setup { fabric, port, handle, may, last }));
}

fn on_all(test: impl AsyncFn(Setup)) {
    on(shm::ShmFabric::default().into(), &test);
    #[cfg(feature = "tcp")]
    {
        use latchwork_verbs_tcp::{Secret, Security, TcpConfig, TcpFabric};
        let config = TcpConfig::new(Security::Secret(Secret::random().expect("random bytes")));
        on(TcpFabric::new(config).expect("a fabric").into(), &test);
    }
}

#[test]
fn what_was_not_rung_before_the_end_is_never_rung_and_ends_with_an_error() {
    on_all(async |setup| {
        let Setup { port, handle, .. } = &setup;
        let poller = port.poller();
        handle.add_poller(poller.clone());
        port.write_word(AT, 1).await.expect("it may");
        assert_eq!((setup.word(), port.is_barred()), (1, false));
        handle.remove_poller(&poller);
        // One batch with a tag, one that a future waits for, and one without a report.
        let write = |value| [WorkRequest::WriteWord { remote: AT.offset(), value }];
        port.post(MEMORY, &write(2), 7).expect("it is accepted");
        let waits = handle.spawn({
            let port = Rc::clone(port);
            async move { port.read_word(AT).await }
        });
        port.post_unreported(MEMORY, &write(3)).expect("it is accepted");
        handle.yield_now().await;
        assert_eq!(port.in_flight(), 3);
        setup.end_permission();
        port.ring();
        let mut told = Vec::new();
        let mut look = || {
            let _ = port.poll(&mut |tag, end| told.push((tag, end.map(drop))));
        };
        look();
        // Later posts change nothing.
        port.post(MEMORY, &write(4), 8).expect("it is accepted");
        port.ring();
        look();
        assert_eq!(told, [(7, Err(VerbError::SelfFenced)), (8, Err(VerbError::SelfFenced))]);
        assert_eq!(waits.await.expect("it is not aborted"), Err(VerbError::SelfFenced));
        assert_eq!((setup.word(), port.is_barred()), (1, true));
        assert_eq!((port.in_flight(), port.operations(), port.may_park()), (0, 0, true));
        // More operations than scratch slots: each slot is released.
        handle.add_poller(poller);
        for _ in 0..40 {
            assert_eq!(port.write_word(AT, 5).await, Err(VerbError::SelfFenced));
        }
        assert_eq!(setup.word(), 1);
    });
}

/// The permission ends between the check and the doorbell. No check on the node can prevent this
/// doorbell, but no later doorbell follows. The batch of this doorbell may take effect, and ends
/// with success or with [`VerbError::SelfFenced`]. A batch that is posted later neither takes
/// effect nor ends with success.
#[test]
fn a_permission_that_ends_between_the_check_and_the_doorbell_rings_once_more_and_never_again() {
    on_all(async |setup| {
        let Setup { port, handle, .. } = &setup;
        let poller = port.poller();
        handle.add_poller(poller.clone());
        port.write_word(AT, 1).await.expect("it may");
        handle.remove_poller(&poller);
        let write = |value| [WorkRequest::WriteWord { remote: AT.offset(), value }];
        port.post(MEMORY, &write(2), 7).expect("it is accepted");
        setup.end_permission_behind_a_look();
        port.ring();
        assert!(port.is_barred());
        port.post(MEMORY, &write(3), 8).expect("it is accepted");
        let mut ends = Vec::new();
        while port.in_flight() > 0 {
            port.ring();
            let _ = port.poll(&mut |tag, end| ends.push((tag, end.map(drop))));
        }
        ends.sort_unstable_by_key(|(tag, _)| *tag);
        let [(7, first), (8, Err(VerbError::SelfFenced))] = ends[..] else { panic!("{ends:?}") };
        assert!(matches!(first, Ok(()) | Err(VerbError::SelfFenced)), "{first:?}");
        // After an error the batch may have taken effect. After success the batch has taken effect.
        let word = setup.word();
        assert!(word == 2 || word == 1 && first.is_err(), "{word}");
        assert_eq!((port.in_flight(), port.operations(), port.may_park()), (0, 0, true));
    });
}

/// A message that finds no room waits at its sender, with the rest of its batch, and every poll
/// tries it again. After the end of the permission no poll does.
#[test]
fn what_had_been_pushed_back_stays_where_it_is() {
    on(shm::ShmFabric::new(shm::ShmConfig { inbox_capacity: 4 }).into(), async |setup| {
        let Setup { fabric, port, .. } = &setup;
        fabric.add_compute_node(node(2)).expect("a node");
        let message = Message { from: node(1), body: [0; Message::WORDS] };
        let region = latchwork_verbs::Region::zeroed(64).expect("memory");
        let key = fabric.register(node(2), Arc::clone(&region)).expect("a key");
        let batch = [WorkRequest::Send(message), WorkRequest::WriteWord { remote: 0, value: 9 }];
        let mut ended = 0;
        for tag in 0..5 {
            port.post(Target::Compute(node(2), key.0), &batch[..1 + usize::from(tag == 4)], tag)
                .expect("it is accepted");
        }
        port.ring();
        let _ = port.poll(&mut |_, end| ended += u32::from(end.is_ok()));
        assert_eq!((ended, port.in_flight()), (4, 1), "there is room for four");
        let inbox = fabric.inbox(node(2)).expect("an inbox");
        let mut received = 0;
        while inbox.receive(&mut |_| received += 1) {}
        setup.end_permission();
        let mut end = None;
        let _ = port.poll(&mut |tag, result| end = Some((tag, result.map(drop))));
        assert_eq!(end, Some((4, Err(VerbError::SelfFenced))));
        while inbox.receive(&mut |_| received += 1) {}
        assert_eq!((received, region.words().u64(0)), (4, 0));
    });
}

/// After a node of another process was cut off, the next post on shared memory submits the earlier
/// batches. So no replacement of the node gets these batches. After the end of the permission the
/// post submits nothing.
#[test]
#[cfg(target_os = "linux")]
fn a_post_that_finds_a_lost_node_rings_nothing_either() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let process = || {
        let place =
            shm::Place { path: directory.path().join("shm"), huge_pages: Default::default() };
        shm::ShmFabric::in_directory(place, shm::ShmConfig::default()).expect("a fabric")
    };
    let (own, other) = (process(), process());
    other.serve_memory_as(MemoryNodeId(1), 4096).expect("memory");
    let gone = shm::ShmNodeName::Memory(MemoryNodeId(1));
    own.add_peer(gone, &other.contact(gone).expect("it is there")).expect("a peer");
    let fabric = own.clone();
    on(fabric.into(), async |setup| {
        let Setup { port, .. } = &setup;
        let write = [WorkRequest::WriteWord { remote: AT.offset(), value: 2 }];
        port.post(MEMORY, &write, 1).expect("it is accepted");
        own.disconnect_memory(MemoryNodeId(1)).expect("it was there");
        setup.end_permission();
        port.post(MEMORY, &write, 2).expect("it is accepted");
        assert_eq!(setup.word(), 0);
        let mut ends = Vec::new();
        let _ = port.poll(&mut |tag, end| ends.push((tag, end.map(drop))));
        assert_eq!(ends, [(1, Err(VerbError::SelfFenced)), (2, Err(VerbError::SelfFenced))]);
    });
}
