//! [`listen`]: accepts connections for one node.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::AsyncWrite;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::admit::{admit, busy};
use super::counters::Reject;
use super::execute::Ground;
use super::hosted::Hosted;
use super::serve::serve;
use super::threads::Turns;
use crate::error::TcpError;
use crate::security::Security;
use crate::wire::Refusal;

/// Connections that the operating system holds for the agent to accept.
const BACKLOG: i32 = 1024;

/// TCP keep-alive, by which the operating system detects a host that vanished: the idle time before
/// the first probe, the time between probes, and the number of probes.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;
const _: () = assert!(KEEPALIVE_INTERVAL.as_secs() < KEEPALIVE.as_secs());

/// The pause after a failed accept, mostly because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
const _: () = assert!(!ACCEPT_PAUSE.is_zero(), "a failing accept spins");

/// Starts the agent of `hosted` at `addr`. Returns the address at which the agent listens.
pub(crate) fn listen(
    hosted: Arc<Hosted>,
    addr: SocketAddr,
    turns: Turns,
) -> Result<SocketAddr, TcpError> {
    let failed =
        |error: io::Error| TcpError::Listen { addr, kind: error.kind(), why: error.to_string() };
    let listener = bind(addr).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let handle = turns.next().clone();
    let listener = {
        let _inside = handle.enter();
        TcpListener::from_std(listener).map_err(failed)?
    };
    handle.spawn(accept(hosted, listener, turns));
    Ok(bound)
}

fn bind(addr: SocketAddr) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // With this option a node can be started again at once. Two listeners at the same time are
    // still refused.
    socket.set_reuse_address(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

async fn accept(hosted: Arc<Hosted>, listener: TcpListener, turns: Turns) {
    let strangers = Arc::new(Semaphore::new(hosted.limits.strangers));
    loop {
        match listener.accept().await {
            Ok((stream, from)) => match Arc::clone(&strangers).try_acquire_owned() {
                Ok(permit) => start(&hosted, stream, from, permit, &turns),
                Err(_) => {
                    hosted.counters.count(from, &Reject::Refused(Refusal::Busy));
                    // A fresh socket has room for the refusal. If it has not, the refusal is not
                    // sent.
                    let _ = stream.try_write(&busy());
                }
            },
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Moves the connection to a thread, on which it stays.
fn start(
    hosted: &Arc<Hosted>,
    stream: TcpStream,
    from: SocketAddr,
    permit: OwnedSemaphorePermit,
    turns: &Turns,
) {
    // A stream that cannot be converted has already ended.
    let Ok(stream) = stream.into_std() else { return };
    let hosted = Arc::clone(hosted);
    turns.next().spawn(async move {
        let connection = async {
            let stream = TcpStream::from_std(stream)?;
            prepare(&stream)?;
            Ok::<_, io::Error>(stream)
        };
        let end = match connection.await {
            Ok(stream) => secured(&hosted, stream, permit).await,
            Err(error) => Err(Reject::Strange(error.to_string())),
        };
        if let Err(reject) = end {
            hosted.counters.count(from, &reject);
        }
    });
}

/// Sets the options that both ends of a connection need.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

async fn secured(
    hosted: &Arc<Hosted>,
    mut stream: TcpStream,
    permit: OwnedSemaphorePermit,
) -> Result<(), Reject> {
    match &hosted.security {
        Security::Secret(_) => greeted(hosted, &mut stream, permit).await,
        Security::Tls(tls) => {
            let handshake = timeout(hosted.limits.greeting_time, tls.acceptor.accept(stream));
            match handshake.await {
                Ok(Ok(mut stream)) => greeted(hosted, &mut stream, permit).await,
                Ok(Err(error)) => Err(Reject::Tls(error.to_string())),
                Err(_) => Err(Reject::Late),
            }
        }
    }
}

async fn greeted<S>(
    hosted: &Arc<Hosted>,
    stream: &mut S,
    permit: OwnedSemaphorePermit,
) -> Result<(), Reject>
where
    S: AsyncWrite + tokio::io::AsyncRead + Unpin,
{
    let greetings = timeout(hosted.limits.greeting_time, admit(hosted, stream));
    let seat = greetings.await.map_err(|_| Reject::Late)??;
    drop(permit);
    let ground = Ground::new(Arc::clone(hosted));
    // A stopped connection closes without a message. Its client has another connection, or is
    // fenced.
    seat.until_stopped(serve(hosted, ground, stream)).await.unwrap_or(Ok(()))
}
