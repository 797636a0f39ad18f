//! Thousands of hostile connections. Some come from unauthenticated clients, and some from an
//! authenticated client that violates the protocol. Each ends soon and with a clear error, no
//! resource grows, and correct clients are served at the same time.
#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use latchwork_runtime::{Clock, Time};
use latchwork_verbs::contract::alone;
use latchwork_verbs::{LocalBuffer, RegionKey, WorkRequest};
use latchwork_verbs_tcp::wire::{
    ANSWER_LEN, AgentGreeting, ClientGreeting, Hello, NONCE_LEN, VERSION, WELCOME_LEN, Welcome,
    begin_batch, end_batch, put_lease, put_request,
};
use latchwork_verbs_tcp::{AgentLimits, Refusal, TcpConfig, TcpNode};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::common::raw;
use crate::common::{MEMORY, MEMORY_NODE, Pair, call, node, secret};

/// The number of hostile connections, of several kinds.
const HOSTILE: u64 = 10_000;

fn own(fd_or_status: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(fd_or_status).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// KiB of resident memory of the process.
fn resident() -> u64 {
    own("/proc/self/status", "VmRSS:")
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[allow(clippy::disallowed_methods, reason = "the other side of a socket is a matter of real time")]
fn wait(time: Duration) {
    thread::sleep(time);
}

fn introduction(session: u64) -> ClientGreeting {
    let mut id = [0xaa; 16];
    id[..8].copy_from_slice(&session.to_le_bytes());
    let from = TcpNode::Compute(node(9));
    ClientGreeting { from, to: MEMORY_NODE, epoch: 0, incarnation: 0, session: id }
}

/// A client with a proved identity and a welcome.
fn welcome(addr: SocketAddr, session: u64) -> TcpStream {
    let clock = Clock::start();
    loop {
        if let Some(stream) = greeted(addr, session) {
            return stream;
        }
        assert!(clock.now() - Time::ZERO < raw::LONG, "who proves who it is never gets in");
        wait(Duration::from_millis(1));
    }
}

/// `None` when the agent is busy, or when a busy machine exceeds the agent's time limit.
fn greeted(addr: SocketAddr, session: u64) -> Option<TcpStream> {
    let mut stream = raw::connect(addr);
    let hello = Hello { version: VERSION, secret: true, nonce: [9; NONCE_LEN] }.bytes();
    stream.write_all(&hello).ok()?;
    let mut answer = [0; ANSWER_LEN];
    stream.read_exact(&mut answer).ok()?;
    if AgentGreeting::parse(&answer).unwrap().refusal == Some(Refusal::Busy) {
        return None;
    }
    let said = [&hello[..], &answer].concat();
    stream.write_all(&raw::proof(&said, raw::SECRET, &introduction(session))).ok()?;
    let mut welcome = [0; WELCOME_LEN];
    stream.read_exact(&mut welcome).ok()?;
    let welcome = Welcome::parse(&welcome[..24].try_into().unwrap()).unwrap();
    assert_eq!(welcome.refusal, None);
    stream.read_exact(&mut vec![0; 8 * welcome.regions as usize]).ok()?;
    Some(stream)
}

/// Reads until the agent ends the connection. Returns the number of bytes.
fn drain(stream: &mut TcpStream) -> usize {
    let (mut bytes, mut all) = ([0; 4096], 0);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return all,
            Ok(count) => all += count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return all,
            // For example, the process was stopped for a while.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("the agent keeps a hostile connection: {error}"),
        }
    }
}

/// Makes one hostile connection of some kind. The connection has ended at the return.
fn attack(addr: SocketAddr, number: u64, rng: &mut TestRng) {
    let mut random = vec![0; rng.next_u32() as usize % 300];
    rng.fill_bytes(&mut random);
    // A write may fail, because the agent resets a connection whose bytes it has not read.
    let send = |stream: &mut TcpStream, bytes: &[u8]| drop(stream.write_all(bytes));
    match number % 8 {
        // Random bytes, and then silence or an end.
        0 | 1 => {
            let mut stream = raw::connect(addr);
            send(&mut stream, &random);
            if number % 16 < 8 {
                let _ = stream.shutdown(std::net::Shutdown::Write);
            }
            assert!(drain(&mut stream) <= ANSWER_LEN);
        }
        // Connects and disconnects.
        2 => drop(raw::connect(addr)),
        // A part of a greeting.
        3 => {
            let hello = Hello { version: VERSION, secret: true, nonce: [1; NONCE_LEN] }.bytes();
            let mut stream = raw::connect(addr);
            send(&mut stream, &hello[..random.len() % hello.len()]);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            drain(&mut stream);
        }
        // A greeting without a proof.
        4 => {
            let mut stream = raw::connect(addr);
            let hello = Hello { version: VERSION, secret: true, nonce: [1; NONCE_LEN] }.bytes();
            send(&mut stream, &hello);
            random.resize(80, 7);
            send(&mut stream, &random);
            // The answer, and a refusal.
            assert!(drain(&mut stream) <= ANSWER_LEN + 56);
        }
        // Other versions.
        5 => {
            let mut stream = raw::connect(addr);
            let version = 2 + number as u16;
            let hello = Hello { version, secret: true, nonce: [1; NONCE_LEN] }.bytes();
            send(&mut stream, &hello);
            let mut answer = [0; ANSWER_LEN];
            if stream.read_exact(&mut answer).is_ok() {
                let refusal = AgentGreeting::parse(&answer).unwrap().refusal;
                assert!(matches!(refusal, Some(Refusal::Version | Refusal::Busy)), "{refusal:?}");
            }
            drain(&mut stream);
        }
        // A member of the cluster that sends frames of random bytes.
        6 => {
            let mut stream = welcome(addr, number);
            send(&mut stream, &random);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            drain(&mut stream);
        }
        // A member that requests memory that does not exist, behind good requests.
        _ => {
            let mut stream = welcome(addr, number);
            let mut bytes = Vec::new();
            put_lease(&mut bytes, u64::MAX);
            let read = |remote, len| WorkRequest::Read {
                remote,
                local: LocalBuffer { region: RegionKey(0), offset: 0, len },
            };
            let bad = [
                read(u64::MAX - 7, 8),
                read((1 << 21) - 8, 16),
                read(1 << 21, 8),
                WorkRequest::FetchAdd { remote: 1 << 21, add: 1 },
                WorkRequest::WriteWord { remote: u64::MAX - 7, value: 1 },
            ][number as usize / 8 % 5];
            for (seq, requests) in [[read(0, 8)], [bad]].iter().enumerate() {
                let start = begin_batch(&mut bytes, 1, 0, seq as u32);
                put_request(&mut bytes, &requests[0], |_| unreachable!("nothing is written"));
                end_batch(&mut bytes, start);
            }
            send(&mut stream, &bytes);
            drain(&mut stream);
        }
    }
}

#[test]
fn ten_thousand_hostile_connections_change_nothing() {
    if !alone("hostile::ten_thousand_hostile_connections_change_nothing") {
        return;
    }
    let limits = AgentLimits {
        strangers: 16,
        greeting_time: Duration::from_millis(100),
        write_time: Duration::from_millis(500),
        ..AgentLimits::default()
    };
    let there = TcpConfig { limits, ..TcpConfig::new(secret()) };
    let pair = Pair::new(there, TcpConfig::new(secret()), |addr| addr);
    let mut endpoint = pair.endpoint();
    let add = [WorkRequest::FetchAdd { remote: 0, add: 1 }];
    // Both connections are made before the attacks, because a greeting takes some time on a busy
    // machine.
    let mut during = pair.endpoint();
    assert!(call(&mut endpoint, MEMORY, &add).is_ok() && call(&mut during, MEMORY, &add).is_ok());

    // The first attacks allocate the memory that the process allocates once and keeps.
    let seed = [7; 32];
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    (0..200).for_each(|number| attack(pair.addr, number, &mut rng));
    let (before, files) = (resident(), open_files());

    let (next, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let (served, most) = (AtomicU64::new(2), AtomicU64::new(0));
    thread::scope(|scope| {
        let attackers: Vec<_> = (0..6_u8)
            .map(|thread| {
                let next = &next;
                scope.spawn(move || {
                    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[thread; 32]);
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= HOSTILE {
                            return;
                        }
                        attack(pair.addr, number, &mut rng);
                    }
                })
            })
            .collect();
        let (ended, served, most) = (&ended, &served, &most);
        scope.spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                assert!(call(&mut during, MEMORY, &add).is_ok(), "a peer is not served");
                served.fetch_add(1, Ordering::Relaxed);
                most.fetch_max(open_files() as u64, Ordering::Relaxed);
            }
        });
        let all: Vec<_> = attackers.into_iter().map(|attacker| attacker.join()).collect();
        ended.store(true, Ordering::Relaxed);
        assert!(all.iter().all(Result::is_ok));
    });

    let served = served.load(Ordering::Relaxed);
    assert!(served > 100, "{served} batches of a peer meanwhile");
    assert_eq!(pair.memory.words().u64(0), served);
    // Both ends are in this process: two files for each of the six attackers and of the
    // unauthenticated clients, and some more.
    let most = most.load(Ordering::Relaxed);
    assert!(most < files as u64 + 100, "{most} open files, {files} before");
    let clock = Clock::start();
    while open_files() > files + 2 || pair.there.connections() > 2 {
        assert!(clock.now() - Time::ZERO < raw::LONG, "{} files", open_files());
        wait(Duration::from_millis(10));
    }
    let after = resident();
    assert!(after < before + (32 << 10), "{before} KiB before, {after} after");
    let refused = pair.there.refused();
    assert!(refused.strange > 1000 && refused.late > 100, "{refused:?}");
    assert!(refused.version > 500 && refused.unproved > 500, "{refused:?}");
    assert!(refused.broken > 1000, "{refused:?}");

    silence_does_not_shut_others_out(&pair);
    a_peer_that_does_not_read_is_dropped(&pair);
    assert!(call(&mut endpoint, MEMORY, &add).is_ok());
}

/// More silent connections than the limit of unauthenticated clients.
fn silence_does_not_shut_others_out(pair: &Pair) {
    let silent: Vec<_> = (0..64).map(|_| raw::connect(pair.addr)).collect();
    let mut late = welcome(pair.addr, 1 << 40);
    drop(silent);
    late.shutdown(std::net::Shutdown::Write).unwrap();
    drain(&mut late);
}

/// A client requests far more data than it reads. The agent stops reading its requests, and later
/// closes the connection.
fn a_peer_that_does_not_read_is_dropped(pair: &Pair) {
    let before = resident();
    let mut stream = welcome(pair.addr, 1 << 41);
    let mut bytes = Vec::new();
    put_lease(&mut bytes, u64::MAX);
    for seq in 0..1000 {
        let local = LocalBuffer { region: RegionKey(0), offset: 0, len: 128 << 10 };
        let start = begin_batch(&mut bytes, 1, 0, seq);
        put_request(&mut bytes, &WorkRequest::Read { remote: 0, local }, |_| {
            unreachable!("a READ")
        });
        end_batch(&mut bytes, start);
    }
    let (clock, mut sent) = (Clock::start(), 0);
    // 128 MiB of replies for each of these writes.
    while stream.write_all(&bytes).is_ok() {
        sent += 1;
        assert!(clock.now() - Time::ZERO < raw::LONG, "never dropped");
    }
    let after = resident();
    assert!(after < before + (32 << 10), "{before} KiB before, {after} after {sent} times 1000");
}
