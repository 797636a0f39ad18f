//! [`Store`]: the membership store of a run.

use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};

use latchwork_harness::AppError;

use super::common::words;
use super::files::usage;
use crate::args::{Place, Run};

/// The values of `--store`.
pub(super) enum Store {
    File,
    /// An etcd that this command starts.
    Etcd,
    Given(String),
}

pub(super) fn store(run: &Run, mark: &str) -> Result<Store, AppError> {
    let other = match run.on() {
        Place::Ssh => "etcd",
        _ => "file",
    };
    match run.store.as_deref().unwrap_or(other) {
        "file" => Ok(Store::File),
        "etcd" => Ok(Store::Etcd),
        given => match given.strip_prefix("etcd://") {
            Some(rest) if rest.contains('/') => Ok(Store::Given(given.to_owned())),
            Some(_) => Ok(Store::Given(format!("{given}/{mark}"))),
            None => usage(format!("--store {given}: use file, etcd, or etcd://HOST:PORT")),
        },
    }
}

/// The file of etcd on this machine.
pub(super) fn etcd() -> Result<String, AppError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|place| place.join("etcd")).find(|file| file.is_file());
    match found {
        Some(file) => Ok(file.display().to_string()),
        None => usage(
            "--store etcd: etcd is not installed here; install it, or use --store file, or etcd://HOST:PORT",
        ),
    }
}

/// An etcd of one node, with its data in a directory.
pub(super) fn etcd_command(
    program: &str,
    data: &str,
    address: IpAddr,
    port: u16,
    peers: u16,
) -> Vec<String> {
    let clients = format!("http://{}", std::net::SocketAddr::new(address, port));
    let peers = format!("http://127.0.0.1:{peers}");
    let mut command = words([
        program,
        "--name",
        "store",
        "--data-dir",
        data,
        "--logger",
        "zap",
        "--log-level",
        "info",
    ]);
    command.extend(words(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]));
    command.extend(words(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]));
    command.extend(words(["--initial-cluster", &format!("store={peers}")]));
    command
}

/// Two ports that are free at the moment.
pub(super) fn free_ports() -> Result<[u16; 2], AppError> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let port = |listener: &TcpListener| Ok::<u16, io::Error>(listener.local_addr()?.port());
    let both = || {
        let (one, other) = (listen()?, listen()?);
        Ok::<_, io::Error>([port(&one)?, port(&other)?])
    };
    both().map_err(|error| AppError::Failed(format!("there is no free port for etcd: {error}")))
}
