//! The speed of the fabric over sockets, next to other servers on a socket. `scripts/tcp-speed.sh`
//! runs it next to Redis.
//!
//! ```text
//! speed serve                             a memory node; prints its address
//! speed reads ADDR CONNECTIONS DEPTH SECONDS    READs of 64 bytes, DEPTH in flight per connection
//! speed latency ADDR SECONDS              one READ of 64 bytes at a time, in microseconds
//! speed echo                              answers 32 bytes with 76, by blocking calls; prints its address
//! speed ping ADDR SECONDS                 one at a time, polling in a loop as an endpoint does
//! ```

use std::env;
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, LocalBuffer, MemoryNodeId, Region, RegionKey, Target, WorkRequest,
};
use latchwork_verbs_tcp::{Secret, Security, TcpConfig, TcpEndpoint, TcpFabric, TcpNode};

const BYTES: usize = 64 << 20;
const MEMORY: MemoryNodeId = MemoryNodeId(0);
const READ: u32 = 64;
/// The bytes of a batch frame with one READ (`ASK`), and of its reply (`ANSWER`).
const ASK: usize = 28;
const ANSWER: usize = 12 + READ as usize;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["serve"] => serve(),
        ["reads", addr, connections, depth, seconds] => {
            let rate = reads(addr.parse()?, connections.parse()?, depth.parse()?, time(seconds)?)?;
            println!("{rate:.0}");
            Ok(())
        }
        ["latency", addr, seconds] => report(latencies(addr.parse()?, time(seconds)?)?),
        ["echo"] => echo(),
        ["ping", addr, seconds] => report(pings(addr.parse()?, time(seconds)?)?),
        _ => Err("speed serve | reads ADDR CONNECTIONS DEPTH SECONDS | latency ADDR SECONDS | echo | ping ADDR SECONDS".into()),
    }
}

fn time(seconds: &str) -> Outcome<Duration> {
    Ok(Duration::try_from_secs_f64(seconds.parse()?)?)
}

fn fabric() -> Outcome<TcpFabric> {
    // A fixed secret is enough for a measurement.
    Ok(TcpFabric::new(TcpConfig::new(Security::Secret(Secret::new(b"for measurements")?)))?)
}

fn serve() -> Outcome<()> {
    let fabric = fabric()?;
    let region = Region::zeroed(BYTES)?;
    region.prefault();
    let addr = fabric.serve_memory(MEMORY, region, "127.0.0.1:0".parse()?)?;
    println!("{addr}");
    // Serves until the starting process closes the input.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn client(addr: SocketAddr) -> Outcome<(TcpFabric, ComputeNodeId)> {
    let fabric = fabric()?;
    let own = ComputeNodeId::new(1).ok_or("1 is a node")?;
    fabric.add_compute_node(own)?;
    fabric.register(own, Region::zeroed(1 << 20)?)?;
    fabric.add_peer(TcpNode::Compute(own), TcpNode::Memory(MEMORY), addr)?;
    Ok((fabric, own))
}

fn post(endpoint: &mut TcpEndpoint, place: &mut u64, token: u64) -> Outcome<()> {
    // The READs are far apart, and spread over all of the memory.
    *place = (*place + 7919 * u64::from(READ)) % BYTES as u64;
    let local = LocalBuffer { region: RegionKey(0), offset: token * u64::from(READ), len: READ };
    let read = WorkRequest::Read { remote: *place, local };
    Ok(endpoint.post(Target::Memory(MEMORY), token, &[read])?)
}

fn reads(addr: SocketAddr, connections: u64, depth: u64, time: Duration) -> Outcome<f64> {
    let (fabric, own) = client(addr)?;
    let mut endpoints = Vec::new();
    let mut place = 0;
    for _ in 0..connections {
        let mut endpoint = fabric.endpoint(own)?;
        for token in 0..depth {
            post(&mut endpoint, &mut place, token)?;
        }
        endpoint.ring();
        endpoints.push(endpoint);
    }
    let (clock, mut done) = (Clock::start(), Vec::new());
    let (mut count, mut began) = (0_u64, None);
    loop {
        for endpoint in &mut endpoints {
            endpoint.poll(&mut |completion| done.push(completion));
            for completion in done.drain(..) {
                completion.result?;
                count += 1;
                post(endpoint, &mut place, completion.token)?;
            }
            endpoint.ring();
        }
        let now = clock.now();
        match began {
            // The first tenth of the time is warm-up.
            None if now >= latchwork_runtime::Time::ZERO + time / 10 => {
                (began, count) = (Some(now), 0);
            }
            Some(began) if now >= began + time => {
                return Ok(count as f64 / (now - began).as_secs_f64());
            }
            _ => {}
        }
        std::thread::yield_now();
    }
}

fn latencies(addr: SocketAddr, time: Duration) -> Outcome<Vec<Duration>> {
    let (fabric, own) = client(addr)?;
    let mut endpoint = fabric.endpoint(own)?;
    let (mut place, mut all) = (0, Vec::new());
    let (clock, mut failed) = (Clock::start(), None);
    while clock.now() < latchwork_runtime::Time::ZERO + time {
        let began = clock.now();
        post(&mut endpoint, &mut place, 0)?;
        endpoint.ring();
        while endpoint.in_flight() > 0 {
            endpoint.poll(&mut |completion| failed = completion.result.err());
            std::thread::yield_now();
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        all.push(clock.now() - began);
    }
    Ok(all)
}

fn echo() -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let (mut ask, answer) = ([0; ASK], [0; ANSWER]);
    while stream.read_exact(&mut ask).is_ok() {
        stream.write_all(&answer)?;
    }
    Ok(())
}

fn pings(addr: SocketAddr, time: Duration) -> Outcome<Vec<Duration>> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let (ask, mut answer) = ([1; ASK], [0; ANSWER]);
    let (clock, mut all) = (Clock::start(), Vec::new());
    while clock.now() < latchwork_runtime::Time::ZERO + time {
        let began = clock.now();
        stream.write_all(&ask)?;
        let mut got = 0;
        while got < ANSWER {
            match stream.read(&mut answer[got..]) {
                Ok(0) => return Err("the echo ended".into()),
                Ok(count) => got += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
        all.push(clock.now() - began);
    }
    Ok(all)
}

/// Median and 99th percentile, in microseconds.
fn report(mut all: Vec<Duration>) -> Outcome<()> {
    all.sort_unstable();
    let at = |share: f64| all[(all.len() as f64 * share) as usize].as_secs_f64() * 1e6;
    println!("{:.1} {:.1}", at(0.5), at(0.99));
    Ok(())
}
