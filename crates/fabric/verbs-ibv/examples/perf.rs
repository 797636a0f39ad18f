//! Measures latencies and a message rate of the RDMA fabric between the first two devices. Prints
//! one line for each: name, bytes, value, unit. `scripts/rdma-perf.sh` compares the values with
//! those of perftest.

#[cfg(target_os = "linux")]
fn main() {
    if let Err(error) = perf::run() {
        eprintln!("perf: {error}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("perf: libibverbs is for Linux");
    std::process::exit(1);
}

#[cfg(target_os = "linux")]
mod perf {
    use std::error::Error;
    use std::time::Duration;

    use latchwork_runtime::Clock;
    use latchwork_verbs::{
        ComputeNodeId, Endpoint as _, Inbox as _, LocalBuffer, Message, Region, RegionKey, Target,
        WorkRequest,
    };
    use latchwork_verbs_ibv::{IbvConfig, IbvEndpoint, IbvFabric};

    const WARM_UP: usize = 200;

    pub(crate) fn run() -> Result<(), Box<dyn Error>> {
        let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
        let (Some(Ok(count @ 100..)), None) = (arguments.next(), arguments.next()) else {
            return Err("usage: perf ITERATIONS, a hundred at least".into());
        };
        let fabric = IbvFabric::open(IbvConfig::default())?;
        // The memory node is on the first device, and the posting compute node on the second one.
        let memory = Target::Memory(fabric.add_memory_node(1 << 20)?);
        let (poster, receiver) = (node(2), node(1));
        for node in [poster, receiver] {
            fabric.add_compute_node(node)?;
            fabric.register(node, Region::zeroed(1 << 20)?)?;
        }
        let mut endpoint = fabric.endpoint(poster, None)?;
        for bytes in [64, 2048] {
            let local = LocalBuffer { region: RegionKey(0), offset: 0, len: bytes };
            let read = [WorkRequest::Read { remote: 0, local }];
            let median = latency(&mut endpoint, memory, &read, count)?;
            println!("read_lat {bytes} {:.2} us", median.as_nanos() as f64 / 1e3);
        }
        let add = [WorkRequest::FetchAdd { remote: 0, add: 1 }];
        let median = latency(&mut endpoint, memory, &add, count)?;
        println!("atomic_lat 8 {:.2} us", median.as_nanos() as f64 / 1e3);
        println!("send_rate 120 {:.0} /s", send_rate(&fabric, &mut endpoint, receiver, 5 * count)?);
        Ok(())
    }

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).expect("1 to 58")
    }

    /// The median time from the posting of one batch to its completion, with no other batch in
    /// flight.
    fn latency(
        endpoint: &mut IbvEndpoint,
        target: Target,
        batch: &[WorkRequest],
        count: usize,
    ) -> Result<Duration, Box<dyn Error>> {
        let clock = Clock::start();
        let mut times = Vec::with_capacity(count);
        let mut before = clock.now();
        for i in 0..WARM_UP + count {
            endpoint.post(target, 0, batch)?;
            endpoint.ring();
            let mut result = None;
            while !endpoint.poll(&mut |completion| result = Some(completion.result)) {}
            result.ok_or("no completion")??;
            let now = clock.now();
            if i >= WARM_UP {
                times.push(now - before);
            }
            before = now;
        }
        times.sort_unstable();
        Ok(times[count / 2])
    }

    /// Messages per second from one sender, with 64 messages in flight, to one receiver on another
    /// thread.
    fn send_rate(
        fabric: &IbvFabric,
        endpoint: &mut IbvEndpoint,
        to: ComputeNodeId,
        count: usize,
    ) -> Result<f64, Box<dyn Error>> {
        let inbox = fabric.inbox(to)?;
        let send = [WorkRequest::Send(Message { from: node(2), body: [0; Message::WORDS] })];
        let clock = Clock::start();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut left = count;
                while left > 0 {
                    if !inbox.receive(&mut |_| left -= 1) {
                        std::thread::yield_now();
                    }
                }
            });
            let begin = clock.now();
            let (mut posted, mut failed) = (0, None);
            while posted < count || endpoint.in_flight() > 0 {
                while posted < count && endpoint.in_flight() < 64 {
                    endpoint.post(Target::Compute(to, 0), 0, &send)?;
                    posted += 1;
                }
                endpoint.ring();
                endpoint.poll(&mut |completion| failed = failed.or(completion.result.err()));
            }
            match failed {
                Some(error) => Err(error.into()),
                None => Ok(count as f64 / (clock.now() - begin).as_secs_f64()),
            }
        })
    }
}
