//! [`Server`]: a private etcd for a test, on loopback.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::waiting::eventually;

/// A server with its own data directory. Dropping the value ends the server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    child: Child,
    _data: TempDir,
}

impl Server {
    /// Starts a server. Without etcd it returns `None`, and prints why.
    pub(crate) fn start() -> Option<Self> {
        Server::start_with(&[])
    }

    /// Starts a server with more flags.
    pub(crate) fn start_with(flags: &[&str]) -> Option<Self> {
        static SAY: Once = Once::new();
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            SAY.call_once(|| eprintln!("no etcd on this machine: its store is not tested"));
            return None;
        }
        // Another process may take a port between its choice and the start of etcd.
        (0..5).find_map(|_| Server::attempt(flags)).or_else(|| panic!("etcd does not start"))
    }

    fn attempt(flags: &[&str]) -> Option<Self> {
        let data = tempfile::tempdir().unwrap();
        let (address, peers) = (free(), free());
        let tls = flags.iter().any(|flag| flag.starts_with("--cert-file"));
        let url = format!("{}://{address}", if tls { "https" } else { "http" });
        let peers = format!("http://{peers}");
        let mut child = Command::new("etcd")
            .arg("--data-dir")
            .arg(data.path().join("data"))
            .args(["--name", "test", "--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("test={peers}"), "--unsafe-no-fsync"])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        // Reads the log to its end, so that the server never blocks on a full pipe.
        let (tell, ready) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                if line.contains("ready to serve client requests") {
                    let _ = tell.send(());
                }
            }
        });
        if ready.recv_timeout(Duration::from_secs(20)).is_err() {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        eventually("etcd to listen", || TcpStream::connect(address).is_ok());
        Some(Server { address, child, _data: data })
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}
