//! Messages and completions wake idle workers of a simulated world.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use latchwork_runtime::{ExecutorConfig, Poller, Time, VirtualWorker};
use latchwork_simulation::{Kernel, RunEnd};
use latchwork_verbs::contract::parking::{Counts, Serve};
use latchwork_verbs::{ComputeNodeId, Endpoint as _, Message, Target, WorkRequest};
use latchwork_verbs_sim::{SimConfig, SimEndpoint, SimFabric};

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

struct Submit {
    endpoint: RefCell<SimEndpoint>,
    completed: Cell<u64>,
}

impl Poller for Submit {
    fn poll(&self, _now: Time) -> bool {
        self.endpoint.borrow_mut().poll(&mut |completion| {
            assert!(completion.result.is_ok());
            self.completed.set(self.completed.get() + 1);
        })
    }

    fn flush(&self) {
        self.endpoint.borrow_mut().ring();
    }

    fn may_park(&self) -> bool {
        self.endpoint.borrow().may_park()
    }
}

/// Two workers of node 1 serve its inbox, and one of node 2 sends `messages`. Returns how many
/// messages each server received. The first server leaves after it has received `leaves_after`
/// messages.
fn serve(seed: u64, messages: u64, leaves_after: u64) -> [u64; 2] {
    let kernel = Kernel::new(seed);
    let config = SimConfig { inbox_capacity: 4, ..SimConfig::default() };
    let fabric = SimFabric::new(&kernel, config);
    (1..=2).for_each(|id| fabric.add_compute_node(node(id)).unwrap());
    let worker = || VirtualWorker::spawn(&kernel, ExecutorConfig { seed, ..Default::default() });

    let mut servers: Vec<_> = (0..2)
        .map(|_| {
            let worker = worker();
            let inbox = fabric.inbox(node(1)).unwrap();
            let subscription = inbox.subscribe(worker.handle().notifier());
            let counts = Arc::<Counts>::default();
            let poller = Serve::new((Box::new(inbox), Box::new(subscription)), &counts);
            worker.handle().add_poller(Rc::new(poller));
            (Some(worker), counts)
        })
        .collect();

    let sender = worker();
    let endpoint = fabric.endpoint(node(2), &sender.handle()).unwrap();
    let submit = Rc::new(Submit { endpoint: RefCell::new(endpoint), completed: Cell::new(0) });
    sender.handle().add_poller(submit.clone());
    for token in 0..messages {
        let message = Message { from: node(2), body: [token; Message::WORDS] };
        let target = Target::Compute(node(1), 0);
        submit.endpoint.borrow_mut().post(target, token, &[WorkRequest::Send(message)]).unwrap();
    }

    let counts = [Arc::clone(&servers[0].1), Arc::clone(&servers[1].1)];
    let received = || counts.each_ref().map(|counts| counts.received.load(Ordering::Relaxed));
    let end = kernel.run_until(kernel.now() + Duration::from_secs(1), || {
        if received()[0] >= leaves_after {
            servers[0].0 = None;
        }
        received().iter().sum::<u64>() == messages && submit.completed.get() == messages
    });
    assert_eq!(end, RunEnd::Done, "seed {seed}: a message or a completion waits for ever");
    received()
}

#[test]
fn every_message_wakes_some_worker_and_no_worker_always() {
    let mut sums = [0; 2];
    for seed in 0..50 {
        let got = serve(seed, 40, u64::MAX);
        sums = [sums[0] + got[0], sums[1] + got[1]];
    }
    assert!(sums.iter().all(|&sum| sum > 200), "{sums:?}");
}

#[test]
fn a_worker_that_leaves_hands_its_messages_to_another() {
    for seed in 0..50 {
        for leaves_after in [0, 1, 7] {
            serve(seed, 40, leaves_after);
        }
    }
}
