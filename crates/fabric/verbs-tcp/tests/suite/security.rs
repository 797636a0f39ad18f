//! A client without a proof gets nothing, and each side reports clearly what is wrong.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_runtime::{Clock, Time};
use latchwork_verbs::{Endpoint as _, MemoryNodeId, Region, VerbError, WorkRequest};
use latchwork_verbs_tcp::wire::{
    AgentGreeting, CLIENT_GREETING_LEN, ClientGreeting, HELLO_LEN, NONCE_LEN, VERSION, WELCOME_LEN,
};
use latchwork_verbs_tcp::{
    AgentLimits, Refusal, Refused, Secret, Security, TcpConfig, TcpError, TcpFabric, TcpNode, Tls,
    TlsText,
};
use socket2::{Domain, Socket, Type};

use crate::common;
use crate::common::raw;
use crate::common::{Authority, MEMORY, MEMORY_NODE, NAME, Pair, call, loopback, node, secret};

const OWN: fn() -> TcpNode = || TcpNode::Compute(node(1));

fn config(security: Security) -> TcpConfig {
    let limits = AgentLimits { greeting_time: raw::LONG, ..AgentLimits::default() };
    TcpConfig {
        limits,
        connect_time: raw::LONG,
        patience: raw::LONG / 3,
        ..TcpConfig::new(security)
    }
}

/// Starts a memory node with `there`, and a client with `security`. Returns the client's error and
/// the refused connections.
fn try_to_join(there: Security, security: Security) -> (String, Refused) {
    let fabric = TcpFabric::new(config(there)).unwrap();
    let memory = Region::zeroed(4096).unwrap();
    let addr = fabric.serve_memory(MemoryNodeId(0), Arc::clone(&memory), loopback()).unwrap();
    let here = TcpFabric::new(config(security)).unwrap();
    let error = here.add_peer(OWN(), MEMORY_NODE, addr).unwrap_err();
    assert_eq!(here.addr(MEMORY_NODE), None, "a peer that is not trusted is not known");
    // The refusal is counted when the agent's side of the connection ends, which may be after the
    // client's side.
    eventually(|| fabric.refused() != Refused::default());
    assert_eq!(fabric.connections(), 0);
    (error.to_string(), fabric.refused())
}

#[allow(clippy::disallowed_methods, reason = "the other side of a socket is a matter of real time")]
fn eventually(condition: impl Fn() -> bool) {
    let clock = Clock::start();
    while !condition() {
        assert!(clock.now() - Time::ZERO < raw::LONG, "it does not come to that");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_wrong_secret_is_refused() {
    let wrong = Security::Secret(Secret::new(b"the cluster's own secreu").unwrap());
    let (error, refused) = try_to_join(secret(), wrong);
    assert!(error.contains("the shared secret is not the same"), "{error}");
    assert_eq!(refused, Refused { unproved: 1, ..Refused::default() });
}

#[test]
fn a_certificate_of_another_authority_is_refused_by_both_sides() {
    let (one, other) = (Authority::new(), Authority::new());
    let (error, refused) = try_to_join(one.security(), other.security());
    assert!(error.contains("no TLS with") && error.contains("certificate"), "{error}");
    assert_eq!(refused, Refused { unproved: 1, ..Refused::default() });

    // The client trusts the agent's authority, but its own certificate is of another one. The agent
    // must detect this.
    let (certificate, key) = other.sign(NAME);
    let half = Tls::from_pem(one.pem().as_bytes(), certificate.as_bytes(), key.as_bytes(), NAME);
    let (error, refused) = try_to_join(one.security(), Security::Tls(half.unwrap()));
    assert!(error.contains("no TLS with"), "{error}");
    assert_eq!(refused, Refused { unproved: 1, ..Refused::default() });

    // The reverse case: an agent at the address has a certificate of an unknown authority.
    let (certificate, key) = other.sign(NAME);
    let half = Tls::from_pem(one.pem().as_bytes(), certificate.as_bytes(), key.as_bytes(), NAME);
    let (error, _) = try_to_join(Security::Tls(half.unwrap()), one.security());
    assert!(error.contains("no TLS with") && error.contains("invalid peer certificate"), "{error}");
}

/// Bug: the error was `keys may not be consistent: KeyMismatch`, and named no text. Fix: each error
/// names the wrong text, and reports a key of another certificate as such.
#[test]
fn an_error_of_certificates_says_which_text_is_wrong() {
    let authority = Authority::new();
    let (ca, (certificate, key)) = (authority.pem(), authority.sign(NAME));
    let (_, other_key) = authority.sign(NAME);
    let wrong = |ca: &str, certificate: &str, key: &str, name: &str| {
        Tls::from_pem(ca.as_bytes(), certificate.as_bytes(), key.as_bytes(), name).unwrap_err()
    };
    let pair = wrong(&ca, &certificate, &other_key, NAME);
    assert_eq!(
        pair.to_string(),
        "the process's certificate and its key: the key belongs to another certificate"
    );
    for (error, text) in [
        (pair, TlsText::Pair),
        (wrong(&key, &certificate, &key, NAME), TlsText::Authority),
        (wrong(&ca, &key, &key, NAME), TlsText::Certificate),
        (wrong(&ca, &certificate, &certificate, NAME), TlsText::Key),
        (wrong(&ca, &certificate, &key, "no name"), TlsText::Name),
    ] {
        assert!(matches!(error, TcpError::Certificate { of, .. } if of == text), "{error:?}");
    }
}

#[test]
fn unauthenticated_clients_of_an_agent_with_tls_get_nothing_and_disturb_no_other() {
    let tls = Authority::new().security();
    let pair = Pair::new(config(tls.clone()), config(tls), |addr| addr);
    let add = [WorkRequest::FetchAdd { remote: 0, add: 1 }];
    let mut endpoint = pair.endpoint();
    let mut noise = 1_u64;
    for round in 0..400 {
        let mut stream = raw::connect(pair.addr);
        let bytes: Vec<u8> = (0..round)
            .map(|_| {
                noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (noise >> 56) as u8
            })
            .collect();
        // Half of the byte strings begin like a record of a handshake.
        let head: &[u8] =
            if round % 2 == 0 { &[] } else { &[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3] };
        let _ = stream.write_all(&[head, &bytes].concat());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        // At most an alert: 7 bytes.
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.len() <= 7, "{said:?}");
        if round % 40 == 0 {
            assert!(call(&mut endpoint, MEMORY, &add).is_ok());
        }
    }
    assert_eq!(pair.memory.words().u64(0), 10);
    let refused = pair.there.refused();
    assert!(refused.unproved > 300, "{refused:?}");
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let (certificate, key) = authority.sign("elsewhere");
    let (ca, cert) = (authority.pem(), certificate);
    let named = Tls::from_pem(ca.as_bytes(), cert.as_bytes(), key.as_bytes(), "elsewhere").unwrap();
    let (error, _) = try_to_join(Security::Tls(named), authority.security());
    assert!(error.contains("not valid for name"), "{error}");
}

#[test]
fn tls_and_a_secret_do_not_meet() {
    let tls = Authority::new().security();
    let (error, refused) = try_to_join(tls.clone(), secret());
    assert!(error.contains("greetings"), "{error}");
    assert_eq!(refused, Refused { unproved: 1, ..Refused::default() });
    let (error, refused) = try_to_join(secret(), tls);
    assert!(error.contains("no TLS with"), "{error}");
    assert_eq!(refused, Refused { strange: 1, ..Refused::default() });
}

#[test]
fn another_version_is_refused_by_both_sides() {
    let pair = Pair::new(config(secret()), config(secret()), |addr| addr);
    let mut stream = raw::connect(pair.addr);
    let (_, answer) = raw::hello(&mut stream, VERSION + 1, true);
    assert_eq!((answer.version, answer.refusal), (VERSION, Some(Refusal::Version)));
    assert_eq!(answer.nonce, [0; NONCE_LEN]);
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0, "and no more");
    eventually(|| pair.there.refused().version == 1);
    assert_eq!(pair.there.refused(), Refused { version: 1, ..Refused::default() });

    let answer = AgentGreeting { version: 7, refusal: None, nonce: [1; NONCE_LEN] }.bytes();
    let error = meet(move |mut stream| {
        stream.read_exact(&mut [0; HELLO_LEN]).unwrap();
        stream.write_all(&answer).unwrap();
        stream
    });
    assert!(
        error.contains("version 7") && error.contains(&format!("version {VERSION}")),
        "{error}"
    );
}

/// The error of a client with the time limit `connect_time`, when the agent does `what` with the
/// connection.
fn meet_within(
    connect_time: Duration,
    what: impl FnOnce(TcpStream) -> TcpStream + Send + 'static,
) -> String {
    let listener = TcpListener::bind(loopback()).unwrap();
    let addr = listener.local_addr().unwrap();
    let agent = thread::spawn(move || what(listener.accept().unwrap().0));
    let here = TcpFabric::new(TcpConfig { connect_time, ..config(secret()) }).unwrap();
    let error = here.add_peer(OWN(), MEMORY_NODE, addr).unwrap_err().to_string();
    drop(agent.join().unwrap());
    assert!(error.contains(&addr.to_string()), "{error}");
    error
}

fn meet(what: impl FnOnce(TcpStream) -> TcpStream + Send + 'static) -> String {
    meet_within(raw::LONG, what)
}

#[test]
fn what_listens_there_and_is_no_agent_is_found_out() {
    let error = meet(|mut stream| {
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nServer: x\r\n\r\n")
            .unwrap();
        stream
    });
    assert!(error.contains("is no agent"), "{error}");
    // The agent sends nothing.
    let error = meet_within(Duration::from_millis(500), |stream| stream);
    assert!(error.contains("did not complete the greetings within 500ms"), "{error}");
    // The agent closes the connection.
    let error = meet(|stream| {
        drop(stream.try_clone());
        stream.shutdown(std::net::Shutdown::Both).unwrap();
        stream
    });
    assert!(error.contains("ended the connection during the greetings"), "{error}");
}

#[test]
fn an_agent_that_does_not_know_the_secret_is_not_trusted() {
    let error = meet(|mut stream| {
        stream.read_exact(&mut [0; HELLO_LEN]).unwrap();
        let answer = AgentGreeting { version: VERSION, refusal: None, nonce: [1; NONCE_LEN] };
        stream.write_all(&answer.bytes()).unwrap();
        let mut said = [0; CLIENT_GREETING_LEN];
        stream.read_exact(&mut said).unwrap();
        // The agent can only send the client's own proof back.
        let mut welcome = [0; WELCOME_LEN];
        welcome[8] = 1;
        welcome[24..].copy_from_slice(&said[48..]);
        stream.write_all(&welcome).unwrap();
        stream
    });
    assert!(error.contains("does not know the secret"), "{error}");
}

#[test]
fn a_proof_cannot_be_used_again() {
    let pair = Pair::new(config(secret()), config(secret()), |addr| addr);
    let introduction =
        ClientGreeting { from: OWN(), to: MEMORY_NODE, epoch: 0, incarnation: 0, session: [1; 16] };
    let mut first = raw::connect(pair.addr);
    let (said, _) = raw::hello(&mut first, VERSION, true);
    let proof = raw::proof(&said, raw::SECRET, &introduction);
    assert_eq!(raw::introduce(&mut first, &proof).refusal, None);
    // The hello and the client greeting are the same, but the agent's answer is another one.
    let mut second = raw::connect(pair.addr);
    let (said_again, _) = raw::hello(&mut second, VERSION, true);
    assert_eq!(said[..HELLO_LEN], said_again[..HELLO_LEN]);
    assert_eq!(raw::introduce(&mut second, &proof).refusal, Some(Refusal::Secret));
}

#[test]
fn a_refusal_before_the_proof_reveals_nothing_else() {
    let pair = Pair::new(config(secret()), config(secret()), |addr| addr);
    // The client also wants another node and another incarnation. Only an authenticated client
    // learns of these errors.
    let introduction = ClientGreeting {
        from: OWN(),
        to: TcpNode::Memory(MemoryNodeId(9)),
        epoch: 0,
        incarnation: 77,
        session: [1; 16],
    };
    let told = |secret| raw::greet(&mut raw::connect(pair.addr), secret, &introduction);
    let stranger = told(b"no idea");
    assert_eq!((stranger.refusal, stranger.incarnation), (Some(Refusal::Secret), 0));
    assert_eq!((stranger.clock, stranger.regions), (0, 0));
    assert_eq!(told(raw::SECRET).refusal, Some(Refusal::Node));
}

#[test]
fn a_closed_port_is_one_clear_message() {
    // The address has no listener, and no other process can bind it.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&loopback().into()).unwrap();
    let addr = socket.local_addr().unwrap().as_socket().unwrap();
    let here = TcpFabric::new(config(secret())).unwrap();
    let error = here.add_peer(OWN(), MEMORY_NODE, addr).unwrap_err();
    let expected = format!("no agent can be reached at {addr}");
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert!(error.to_string().contains("is M0 started"), "{error}");
}

#[test]
fn a_client_tries_again_at_an_agent_busy_with_unauthenticated_clients() {
    let limits = AgentLimits { strangers: 1, greeting_time: raw::LONG, ..AgentLimits::default() };
    let fabric = TcpFabric::new(TcpConfig { limits, ..config(secret()) }).unwrap();
    let memory = Region::zeroed(4096).unwrap();
    let addr = fabric.serve_memory(MemoryNodeId(0), memory, loopback()).unwrap();
    let connect_time = Duration::from_millis(100);
    let hasty = TcpFabric::new(TcpConfig { connect_time, ..config(secret()) }).unwrap();
    let patient = TcpFabric::new(config(secret())).unwrap();
    let silent = raw::connect(addr);
    // Once a further connection is refused as busy, the agent has accepted the silent connection.
    while fabric.refused().busy == 0 {
        drop(raw::connect(addr));
    }
    // On a busy machine the client may reach its time limit before it gets this error.
    eventually(|| {
        let error = hasty.add_peer(OWN(), MEMORY_NODE, addr).unwrap_err().to_string();
        let is_late = error.contains("did not complete the greetings");
        assert!(is_late || error.contains("as many connections as it permits"), "{error}");
        !is_late
    });
    let before = fabric.refused().busy;
    thread::scope(|scope| {
        scope.spawn(|| {
            eventually(|| fabric.refused().busy > before);
            drop(silent);
        });
        patient.add_peer(OWN(), MEMORY_NODE, addr).unwrap();
    });
}

#[test]
fn an_address_in_use_is_one_clear_message() {
    let fabric = TcpFabric::new(config(secret())).unwrap();
    let addr = fabric.serve_compute(node(1), loopback()).unwrap();
    let error = fabric.serve_compute(node(2), addr).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot listen at {addr}: ")), "{error}");
    // The failed attempt does not take the id.
    fabric.serve_compute(node(2), loopback()).unwrap();
    assert!(matches!(fabric.serve_compute(node(2), loopback()), Err(TcpError::Setup(_))));
}

#[test]
fn a_fenced_node_is_refused_and_none_of_its_verbs_takes_effect() {
    let pair = Pair::new(config(secret()), config(secret()), |addr| addr);
    let add = [WorkRequest::FetchAdd { remote: 0, add: 1 }];
    let mut endpoint = pair.endpoint();
    assert!(call(&mut endpoint, MEMORY, &add).is_ok());
    for token in 0..5_000 {
        endpoint.post(MEMORY, token, &add).unwrap();
    }
    endpoint.ring();
    assert!(pair.there.fence(OWN(), 1, raw::LONG));
    let value = pair.memory.words().u64(0);
    let done = common::finish(&mut endpoint, raw::LONG);
    let sent = Err(VerbError::Disconnected { target: MEMORY });
    let unsent = Err(VerbError::Unreachable { target: MEMORY });
    let is_right = |result| result == sent || result == unsent;
    assert!(done.iter().all(|c| c.result.is_ok() || is_right(c.result)));
    assert!(is_right(call(&mut endpoint, MEMORY, &add)));
    assert_eq!(pair.memory.words().u64(0), value, "executed behind the fence");
    // A node that joins again has a higher member epoch.
    let anew = TcpFabric::new(TcpConfig { epoch: 1, ..config(secret()) }).unwrap();
    anew.serve_compute(node(1), SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    anew.add_peer(OWN(), MEMORY_NODE, pair.addr).unwrap();
    assert!(call(&mut anew.endpoint(node(1)).unwrap(), MEMORY, &add).is_ok());
}
