//! A proxy between a client and an agent that can be cut, frozen and closed.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

/// Forwards connections from its own address to another.
#[derive(Clone)]
pub(crate) struct Proxy(Arc<State>);

struct State {
    addr: SocketAddr,
    to: SocketAddr,
    /// Whether new connections are accepted and not forwarded.
    deaf: AtomicBool,
    pairs: Mutex<Vec<Arc<Pipe>>>,
    forwarded: AtomicU64,
}

struct Pipe {
    ends: [TcpStream; 2],
    /// Whether the proxy keeps the bytes that it reads, instead of forwarding them.
    frozen: AtomicBool,
    /// The number of bytes that the proxy still forwards to the agent before it cuts the
    /// connection.
    left: AtomicU64,
}

impl Proxy {
    pub(crate) fn new(to: SocketAddr) -> Self {
        let listener = TcpListener::bind(super::loopback()).unwrap();
        let addr = listener.local_addr().unwrap();
        let (deaf, pairs) = (AtomicBool::new(false), Mutex::default());
        let state = Arc::new(State { addr, to, deaf, pairs, forwarded: AtomicU64::new(0) });
        let accepting = Arc::downgrade(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(state) = accepting.upgrade() else { return };
                let Ok(stream) = stream else { return };
                state.open(stream);
            }
        });
        Proxy(state)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.0.addr
    }

    pub(crate) fn connections(&self) -> usize {
        self.0.pairs.lock().unwrap().len()
    }

    /// The number of bytes forwarded to the agent.
    pub(crate) fn forwarded(&self) -> u64 {
        self.0.forwarded.load(Ordering::Relaxed)
    }

    /// Resets all connections, also in the middle of a transfer, after `bytes` more bytes to the
    /// agent.
    pub(crate) fn cut_after(&self, bytes: u64) {
        for pipe in self.0.pairs.lock().unwrap().iter() {
            pipe.left.store(bytes, Ordering::Relaxed);
        }
    }

    /// With true, existing connections carry nothing from now on, and the proxy keeps their bytes.
    pub(crate) fn freeze(&self, frozen: bool) {
        for pipe in self.0.pairs.lock().unwrap().iter() {
            pipe.frozen.store(frozen, Ordering::Relaxed);
        }
    }

    /// With true, new connections are accepted and not forwarded.
    pub(crate) fn deafen(&self, deaf: bool) {
        self.0.deaf.store(deaf, Ordering::Relaxed);
    }
}

impl State {
    fn open(self: &Arc<Self>, client: TcpStream) {
        let Ok(agent) = TcpStream::connect(self.to) else { return };
        let frozen = AtomicBool::new(self.deaf.load(Ordering::Relaxed));
        let pipe = Arc::new(Pipe { ends: [client, agent], frozen, left: AtomicU64::new(u64::MAX) });
        self.pairs.lock().unwrap().push(Arc::clone(&pipe));
        for from in 0..2 {
            let (pipe, state) = (Arc::clone(&pipe), Arc::clone(self));
            thread::spawn(move || pipe.forward(from, &state));
        }
    }
}

impl Pipe {
    fn forward(&self, from: usize, state: &State) {
        use ErrorKind::{Interrupted, TimedOut, WouldBlock};
        let (mut source, mut sink) = (&self.ends[from], &self.ends[1 - from]);
        source.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        source.set_nodelay(true).unwrap();
        // The buffer is small, so that connections are cut in the middle of frames.
        let (mut bytes, mut kept, mut ended) = ([0; 1000], Vec::new(), false);
        // The proxy forwards kept bytes also after their sender has closed the connection.
        while !(ended && kept.is_empty()) {
            match source.read(&mut bytes) {
                Ok(0) => {
                    ended = true;
                    thread::yield_now();
                }
                Ok(count) => kept.extend_from_slice(&bytes[..count]),
                // A process that was stopped gets `Interrupted`.
                Err(e) if matches!(e.kind(), WouldBlock | TimedOut | Interrupted) => {}
                Err(_) => ended = true,
            }
            if self.frozen.load(Ordering::Relaxed) || kept.is_empty() {
                continue;
            }
            if from == 0 {
                let left = self.left.load(Ordering::Relaxed);
                let now = kept.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                if sink.write_all(&kept[..now]).is_err() {
                    break;
                }
                state.forwarded.fetch_add(now as u64, Ordering::Relaxed);
                if now < kept.len() {
                    for end in &self.ends {
                        SockRef::from(end).set_linger(Some(Duration::ZERO)).unwrap();
                    }
                    break;
                }
                if left != u64::MAX {
                    self.left.store(left - now as u64, Ordering::Relaxed);
                }
            } else if sink.write_all(&kept).is_err() {
                break;
            }
            kept.clear();
        }
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
        // Both threads and the list own the pipe. The sockets close with the last owner.
        state.pairs.lock().unwrap().retain(|pipe| !std::ptr::eq(&raw const **pipe, self));
    }
}
