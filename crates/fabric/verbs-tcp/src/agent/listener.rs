//! [`listen`]: accepts the connections to the agent of one node.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::AsyncWrite;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
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

/// The number of connections that may wait in the operating system until the agent accepts them.
const BACKLOG: i32 = 1024;

/// TCP keep-alive, by which the operating system detects a host that vanished: the idle time before
/// the first probe, the time between probes, and the number of probes.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;
const _: () = assert!(KEEPALIVE_INTERVAL.as_secs() < KEEPALIVE.as_secs());

/// The pause after a failed accept. An accept mostly fails because the process has too many open
/// files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
const _: () = assert!(!ACCEPT_PAUSE.is_zero(), "a failing accept spins");

/// The listener of an agent that has not started. Clients can connect, and wait for the agent. A
/// drop closes the listener.
pub(crate) struct Listener {
    listener: TcpListener,
    /// The thread of the agents on which the listener was made.
    thread: Handle,
    /// The address at which the listener listens.
    pub(crate) bound: SocketAddr,
}

/// Listens at `addr`.
pub(crate) fn listen(addr: SocketAddr, turns: &Turns) -> Result<Listener, TcpError> {
    let failed =
        |error: io::Error| TcpError::Listen { addr, kind: error.kind(), why: error.to_string() };
    let listener = bind(addr).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let thread = turns.next().clone();
    let listener = {
        let _inside = thread.enter();
        TcpListener::from_std(listener).map_err(failed)?
    };
    Ok(Listener { listener, thread, bound })
}

impl Listener {
    /// Starts the agent of `hosted`.
    pub(crate) fn start(self, hosted: Arc<Hosted>, turns: Turns) {
        self.thread.spawn(accept(hosted, self.listener, turns));
    }
}

fn bind(addr: SocketAddr) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // With this option a node can be started again at once at its address. The system still refuses
    // two listeners at one time.
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
                    // The buffer of a new socket usually has room for the refusal. Without room the
                    // refusal is not sent.
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

/// Moves the connection to the next thread of the agents. The connection stays on this thread.
fn start(
    hosted: &Arc<Hosted>,
    stream: TcpStream,
    from: SocketAddr,
    permit: OwnedSemaphorePermit,
    turns: &Turns,
) {
    // If the stream cannot leave this runtime, the connection is dropped.
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
    // A stopped connection closes without a message. Its client has a newer connection, or is
    // fenced.
    seat.until_stopped(serve(hosted, ground, stream)).await.unwrap_or(Ok(()))
}
