//! [`connect`]: makes a connection to an agent and performs the greetings.

use std::io;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::time::Duration;

use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::agent::prepare;
use crate::error::TcpError;
use crate::security::{Role, Secret, Security, random};
use crate::wire::{
    ANSWER_LEN, AgentGreeting, ClientGreeting, Hello, MAC_LEN, Refusal, TcpNode, VERSION,
    WELCOME_LEN, Welcome,
};

/// The address and the greeting of a wanted connection.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) addr: SocketAddr,
    pub(crate) introduction: ClientGreeting,
}

/// A connection after complete greetings.
pub(crate) struct Connected {
    /// A non-blocking socket, no longer registered with a runtime.
    pub(crate) socket: StdStream,
    pub(crate) tls: Option<Box<ClientConnection>>,
    pub(crate) welcome: Welcome,
    /// The lengths of the node's regions, in bytes.
    pub(crate) lengths: Vec<u64>,
}

/// The pause between two attempts at an agent that refuses as busy. The agent is busy while it has
/// too many unauthenticated connections, which ends soon.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const _: () = assert!(!BUSY_PAUSE.is_zero(), "a busy agent is asked without a pause");

/// Connects and performs the greetings, within `limit` in all. If the agent refuses as busy, the
/// call tries again until the limit. With TLS, an agent that is busy refuses before the handshake.
/// This looks like a failed handshake, so the call does not try again.
pub(crate) async fn connect(
    security: &Security,
    wanted: &Wanted,
    limit: Duration,
) -> Result<Connected, TcpError> {
    let Wanted { addr, introduction } = *wanted;
    let late = TcpError::Deadline { node: introduction.to, addr, limit };
    let mut last = None;
    let attempts = async {
        loop {
            match attempt(security, wanted).await {
                Err(busy @ TcpError::Refused { refusal: Refusal::Busy, .. }) => last = Some(busy),
                end => return end,
            }
            sleep(BUSY_PAUSE).await;
        }
    };
    match timeout(limit, attempts).await {
        Ok(end) => end,
        Err(_) => Err(last.unwrap_or(late)),
    }
}

async fn attempt(security: &Security, wanted: &Wanted) -> Result<Connected, TcpError> {
    let Wanted { addr, introduction } = *wanted;
    let node = introduction.to;
    let unreachable =
        |error: io::Error| TcpError::Unreachable { node, addr, why: error.to_string() };
    let mut stream = TcpStream::connect(addr).await.map_err(unreachable)?;
    prepare(&stream).map_err(unreachable)?;
    let ((welcome, lengths), stream, tls) = match security {
        Security::Secret(secret) => (greet(&mut stream, Some(secret), wanted).await?, stream, None),
        Security::Tls(tls) => {
            let failed = |error: io::Error| TcpError::Tls { addr, why: error.to_string() };
            let mut stream =
                tls.connector.connect(tls.name.clone(), stream).await.map_err(failed)?;
            let greeted = greet(&mut stream, None, wanted).await.map_err(|error| match error {
                // The agent checks this process's certificate only after the handshake has
                // succeeded on this side. So a connection that ends here probably failed this
                // check.
                TcpError::Ended { addr, why } => TcpError::Tls { addr, why },
                error => error,
            })?;
            let (stream, tls) = stream.into_inner();
            (greeted, stream, Some(Box::new(tls)))
        }
    };
    let socket = stream.into_std().map_err(unreachable)?;
    Ok(Connected { socket, tls, welcome, lengths })
}

async fn greet<S>(
    stream: &mut S,
    secret: Option<&Secret>,
    wanted: &Wanted,
) -> Result<(Welcome, Vec<u64>), TcpError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Wanted { addr, introduction } = *wanted;
    let no_agent = |why| TcpError::NoAgent { addr, why };
    let refused = |refusal, version| TcpError::Refused { addr, refusal, version };

    let hello = Hello { version: VERSION, secret: secret.is_some(), nonce: random()? }.bytes();
    write(stream, &hello, addr).await?;
    let mut answer = [0; ANSWER_LEN];
    read(stream, &mut answer, addr).await?;
    let AgentGreeting { version, refusal, .. } = AgentGreeting::parse(&answer).map_err(no_agent)?;
    if let Some(refusal) = refusal {
        return Err(refused(refusal, version));
    }

    let said = introduction.bytes();
    let mac = match secret {
        Some(secret) => secret.sign(Role::Client, &[&hello, &answer, &said]),
        None => [0; MAC_LEN],
    };
    let said = [&said[..], &mac].concat();
    write(stream, &said, addr).await?;

    let mut welcome_bytes = [0; WELCOME_LEN];
    read(stream, &mut welcome_bytes, addr).await?;
    let (head, mac) = welcome_bytes.split_at(WELCOME_LEN - MAC_LEN);
    let head: &[u8; WELCOME_LEN - MAC_LEN] = head.try_into().expect("as long as that");
    let mac: &[u8; MAC_LEN] = mac.try_into().expect("the rest");
    let welcome = Welcome::parse(head).map_err(no_agent)?;
    if welcome.refusal == Some(Refusal::Secret) {
        // The agent does not know this process's secret, so this refusal has no proof.
        return Err(refused(Refusal::Secret, version));
    }
    // `Welcome::parse` limits the number of regions, so this is at most half a megabyte.
    let mut lengths = vec![0; 8 * welcome.regions as usize];
    read(stream, &mut lengths, addr).await?;
    let parts = [&hello[..], &answer, &said, head, &lengths];
    if secret.is_some_and(|secret| !secret.verify(Role::Agent, &parts, mac)) {
        return Err(TcpError::Impostor { addr });
    }
    if let Some(refusal) = welcome.refusal {
        return Err(refused(refusal, version));
    }
    let (lengths, _) = lengths.as_chunks();
    Ok((welcome, lengths.iter().map(|length| u64::from_le_bytes(*length)).collect()))
}

async fn read<S>(stream: &mut S, bytes: &mut [u8], addr: SocketAddr) -> Result<(), TcpError>
where
    S: AsyncRead + Unpin,
{
    stream.read_exact(bytes).await.map(drop).map_err(|error| ended(&error, addr))
}

async fn write<S>(stream: &mut S, bytes: &[u8], addr: SocketAddr) -> Result<(), TcpError>
where
    S: AsyncWrite + Unpin,
{
    stream.write_all(bytes).await.map_err(|error| ended(&error, addr))?;
    stream.flush().await.map_err(|error| ended(&error, addr))
}

fn ended(error: &io::Error, addr: SocketAddr) -> TcpError {
    TcpError::Ended { addr, why: error.to_string() }
}

impl Wanted {
    pub(crate) fn new(
        addr: SocketAddr,
        (from, to): (TcpNode, TcpNode),
        (epoch, incarnation): (u64, u64),
        session: [u8; 16],
    ) -> Self {
        Wanted { addr, introduction: ClientGreeting { from, to, epoch, incarnation, session } }
    }
}
