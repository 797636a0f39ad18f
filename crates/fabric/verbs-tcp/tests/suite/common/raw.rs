//! A client written by hand, which may violate the protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use latchwork_verbs_tcp::wire::{
    ANSWER_LEN, AgentGreeting, ClientGreeting, Hello, NONCE_LEN, VERSION, WELCOME_LEN, Welcome,
};
use ring::hmac;

pub(crate) const SECRET: &[u8] = b"the cluster's own secret";

/// The time limit of one operation, long enough for a very busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    stream
}

/// Sends a hello. Returns the bytes of both sides and the agent's answer.
pub(crate) fn hello(
    stream: &mut TcpStream,
    version: u16,
    secret: bool,
) -> (Vec<u8>, AgentGreeting) {
    let hello = Hello { version, secret, nonce: [9; NONCE_LEN] }.bytes();
    stream.write_all(&hello).unwrap();
    let mut answer = [0; ANSWER_LEN];
    stream.read_exact(&mut answer).unwrap();
    ([&hello[..], &answer].concat(), AgentGreeting::parse(&answer).unwrap())
}

/// A client greeting with its proof, behind the messages `said`.
pub(crate) fn proof(said: &[u8], secret: &[u8], introduction: &ClientGreeting) -> Vec<u8> {
    let introduction = introduction.bytes();
    let signed = [b"latchwork tcp 1: client", said, &introduction].concat();
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &signed);
    [&introduction[..], mac.as_ref()].concat()
}

/// Sends the client greeting. Returns the agent's welcome.
pub(crate) fn introduce(stream: &mut TcpStream, introduction: &[u8]) -> Welcome {
    stream.write_all(introduction).unwrap();
    let mut welcome = [0; WELCOME_LEN];
    stream.read_exact(&mut welcome).unwrap();
    let welcome = Welcome::parse(&welcome[..24].try_into().unwrap()).unwrap();
    let mut lengths = vec![0; 8 * welcome.regions as usize];
    stream.read_exact(&mut lengths).unwrap();
    welcome
}

/// Greets with a secret. Returns the agent's last message.
pub(crate) fn greet(
    stream: &mut TcpStream,
    secret: &[u8],
    introduction: &ClientGreeting,
) -> Welcome {
    let (said, answer) = hello(stream, VERSION, true);
    assert_eq!(answer.refusal, None);
    introduce(stream, &proof(&said, secret, introduction))
}
