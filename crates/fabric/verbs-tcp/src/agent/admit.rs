//! [`admit`]: the greetings of a connection, on the side of the agent. The greetings end with a
//! proof of the client's identity.
//!
//! From an unauthenticated client, the agent reads 48 bytes and later 80 bytes, within one
//! deadline, and stores nothing else. With TLS, a handshake with the same time limit comes first.
//! Before its proof, the client learns only the version, random bytes and the reason of a refusal.

use std::io;

use latchwork_strict::strict_assert;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::counters::Reject;
use super::hosted::Hosted;
use super::sessions::Seat;
use crate::security::{Role, Secret, Security, random};
use crate::wire::{
    AgentGreeting, CLIENT_GREETING_LEN, ClientGreeting, HELLO_LEN, Hello, MAC_LEN, NONCE_LEN,
    Refusal, VERSION, WELCOME_LEN, Welcome,
};

/// Performs the greetings. Returns the [`Seat`] of the client's session when the agent admits the
/// client.
pub(crate) async fn admit<S>(hosted: &Hosted, stream: &mut S) -> Result<Seat, Reject>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut hello_bytes = [0; HELLO_LEN];
    read(stream, &mut hello_bytes).await?;
    let hello = Hello::parse(&hello_bytes).map_err(|error| Reject::Strange(error.to_string()))?;
    let secret = match &hosted.security {
        Security::Secret(secret) => Some(secret),
        Security::Tls(_) => None,
    };
    let refusal = if hello.version != VERSION {
        Some(Refusal::Version)
    } else if hello.secret != secret.is_some() {
        Some(Refusal::Mode)
    } else {
        None
    };
    let nonce: [u8; NONCE_LEN] = match refusal {
        None => random().map_err(|error| Reject::Broken(error.to_string()))?,
        Some(_) => [0; NONCE_LEN],
    };
    let answer_bytes = AgentGreeting { version: VERSION, refusal, nonce }.bytes();
    write(stream, &answer_bytes).await?;
    if let Some(refusal) = refusal {
        return Err(Reject::Refused(refusal));
    }

    let mut bytes = [0; CLIENT_GREETING_LEN];
    read(stream, &mut bytes).await?;
    let (said, mac): (&[u8; CLIENT_GREETING_LEN - MAC_LEN], &[u8; MAC_LEN]) = split(&bytes);
    let proved = secret.is_none_or(|secret| {
        secret.verify(Role::Client, &[&hello_bytes, &answer_bytes, said], mac)
    });
    if !proved {
        return Err(refuse(stream, None, Refusal::Secret).await);
    }
    let signed = Signed { secret, before: [&hello_bytes, &answer_bytes, &bytes] };
    // The client has proved that it belongs to the cluster. So all later refusals carry the agent's
    // proof.
    let introduction =
        ClientGreeting::parse(said).map_err(|error| Reject::Broken(error.to_string()))?;
    if introduction.to != hosted.node {
        return Err(refuse(stream, Some(&signed), Refusal::Node).await);
    }
    if ![0, hosted.incarnation].contains(&introduction.incarnation) {
        return Err(refuse(stream, Some(&signed), Refusal::Incarnation).await);
    }
    let seat = match hosted.seats.take(&introduction).await {
        Ok(seat) => seat,
        Err(refusal) => return Err(refuse(stream, Some(&signed), refusal).await),
    };
    strict_assert!(introduction.to == hosted.node, "a client of another node is seated");
    let lengths = hosted.lengths();
    let welcome = Welcome {
        refusal: None,
        regions: lengths.len() as u32,
        incarnation: hosted.incarnation,
        clock: hosted.now(),
    };
    strict_assert!(welcome.incarnation != 0, "an agent names no incarnation");
    strict_assert!(
        lengths.len() <= crate::wire::REGIONS_MAX as usize,
        "more regions than a key can name"
    );
    write(stream, &signed.welcome(&welcome, &lengths)).await?;
    Ok(seat)
}

/// The earlier messages of the greetings, which the agent's proof covers besides the welcome.
struct Signed<'a> {
    secret: Option<&'a Secret>,
    before: [&'a [u8]; 3],
}

impl Signed<'_> {
    /// A welcome with its proof and the lengths of the regions.
    fn welcome(&self, welcome: &Welcome, lengths: &[u64]) -> Vec<u8> {
        let said = welcome.bytes();
        let lengths: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
        let [hello, answer, introduction] = self.before;
        let parts = [hello, answer, introduction, &said, &lengths];
        let mac = self.secret.map_or([0; MAC_LEN], |secret| secret.sign(Role::Agent, &parts));
        [&said[..], &mac, &lengths].concat()
    }
}

/// Sends a refusal. A client that has not proved its identity gets no proof of the agent either.
async fn refuse<S>(stream: &mut S, signed: Option<&Signed<'_>>, refusal: Refusal) -> Reject
where
    S: AsyncWrite + Unpin,
{
    let refused = Welcome { refusal: Some(refusal), regions: 0, incarnation: 0, clock: 0 };
    let bytes = match signed {
        Some(signed) => signed.welcome(&refused, &[]),
        None => [&refused.bytes()[..], &[0; MAC_LEN]].concat(),
    };
    debug_assert_eq!(bytes.len(), WELCOME_LEN);
    strict_assert!(bytes[0] != 0, "a refusal reads like a welcome");
    // A failed write changes nothing: the agent refuses the client in any case.
    let _ = write(stream, &bytes).await;
    Reject::Refused(refusal)
}

/// The bytes that refuse a connection beyond the limit.
pub(crate) fn busy() -> [u8; crate::wire::ANSWER_LEN] {
    AgentGreeting { version: VERSION, refusal: Some(Refusal::Busy), nonce: [0; NONCE_LEN] }.bytes()
}

fn split<const N: usize, const M: usize, const L: usize>(bytes: &[u8; L]) -> (&[u8; N], &[u8; M]) {
    const { assert!(N + M == L) };
    let (head, tail) = bytes.split_at(N);
    (head.try_into().expect("N bytes"), tail.try_into().expect("M bytes"))
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S, bytes: &mut [u8]) -> Result<(), Reject> {
    stream.read_exact(bytes).await.map(drop).map_err(strange)
}

async fn write<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> Result<(), Reject> {
    stream.write_all(bytes).await.map_err(strange)?;
    stream.flush().await.map_err(strange)
}

fn strange(error: io::Error) -> Reject {
    Reject::Strange(error.to_string())
}
