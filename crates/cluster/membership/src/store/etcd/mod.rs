//! [`EtcdStore`]: a store in etcd, for clusters of several machines.

mod address;
mod watcher;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use etcd_client::{
    Client, CompareOp, ConnectOptions, Error, GetOptions, KeyValue, PutOptions, Txn, TxnOp,
};
use latchwork_runtime::sync::Arc;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::MembershipError;
use crate::store::{Compare, Grant, KeyChange, LeaseId, Snapshot, Store, StoreEntry};

use address::Address;
use watcher::Watcher;

/// The longest answer of etcd, in bytes. The values of a whole cluster fit into it.
const ANSWER_MAX: usize = 128 << 20;
/// The interval of pings. A connection has failed when it is silent for twice this time.
const PING: Duration = Duration::from_secs(2);
/// The time that a call may exceed its limit, for a process that gets no CPU time.
const GRACE: Duration = Duration::from_secs(1);

/// A store in etcd (version 3.4 or later), over its client port.
///
/// One thread of the process serves the connection. etcd rounds a lease up to whole seconds, at
/// least two. So other nodes may see a death later than the requested length.
pub struct EtcdStore {
    name: String,
    client: Client,
    runtime: Handle,
    /// Dropping the sender ends the thread.
    _stop: oneshot::Sender<()>,
    leases: Mutex<BTreeMap<LeaseId, Duration>>,
    watchers: Mutex<BTreeMap<String, Arc<Watcher>>>,
}

impl EtcdStore {
    /// Opens the store of `endpoint`, and also returns the cluster's name in that store: see
    /// [`open`](crate::open).
    ///
    /// # Errors
    /// [`MembershipError::Endpoint`], [`MembershipError::Name`], [`MembershipError::Thread`],
    /// [`MembershipError::Unreachable`], [`MembershipError::Refused`], [`MembershipError::Failed`].
    pub fn open(endpoint: &str, limit: Duration) -> Result<(Self, String), MembershipError> {
        let bad = |why| MembershipError::Endpoint {
            endpoint: crate::password::without_password(endpoint),
            why,
        };
        let address = Address::parse(endpoint).map_err(bad)?;
        let cluster = crate::key_name::checked("cluster", &address.cluster)?.to_owned();
        let options = options(&address).map_err(bad)?;
        let name = address.describe();
        let (runtime, stop) = start()?;
        let client = call(&runtime, &name, limit, {
            let name = name.clone();
            async move {
                greet(&name, &address, limit / 2).await?;
                let wrong = |error| explain(&name, error);
                let client = Client::connect(address.urls(), Some(options)).await.map_err(wrong)?;
                // The first answer tests the connection, because the library connects on demand.
                client.kv_client().get("/latchwork/", None).await.map_err(wrong)?;
                Ok(client)
            }
        })?;
        let store = EtcdStore {
            name,
            client,
            runtime,
            _stop: stop,
            leases: Mutex::default(),
            watchers: Mutex::default(),
        };
        Ok((store, cluster))
    }

    fn call<T: Send + 'static>(
        &self,
        limit: Duration,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, MembershipError> {
        let name = self.name.clone();
        call(&self.runtime, &self.name, limit, async move {
            future.await.map_err(|error| explain(&name, error))
        })
    }

    fn leases(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Duration>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for EtcdStore {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn grant(&self, ttl: Duration, limit: Duration) -> Result<Grant, MembershipError> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let mut client = self.client.lease_client();
        let (id, ttl) = self.call(limit, async move {
            let grant = client.grant(seconds, None).await?;
            Ok((lease_id(grant.id()), Duration::from_secs(grant.ttl().unsigned_abs())))
        })?;
        self.leases().insert(id, ttl);
        Ok(Grant { id, ttl })
    }

    fn keep_alive(&self, lease: LeaseId, limit: Duration) -> Result<Duration, MembershipError> {
        let ttl = self.leases().get(&lease).copied().ok_or(MembershipError::LeaseEnded)?;
        let mut client = self.client.lease_client();
        let id = number(lease.0);
        // The library opens a stream for one renewal. When the call returns, the renewal has
        // succeeded.
        self.call(limit, async move { client.keep_alive(id).await.map(drop) })?;
        Ok(ttl)
    }

    fn revoke(&self, lease: LeaseId, limit: Duration) -> Result<(), MembershipError> {
        let mut client = self.client.lease_client();
        let id = number(lease.0);
        match self.call(limit, async move { client.revoke(id).await.map(drop) }) {
            Ok(()) | Err(MembershipError::LeaseEnded) => {
                self.leases().remove(&lease);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn commit(
        &self,
        compares: &[Compare],
        changes: &[KeyChange],
        limit: Duration,
    ) -> Result<Option<u64>, MembershipError> {
        let compare = |compare: &Compare| match compare {
            Compare::Absent(key) => {
                etcd_client::Compare::create_revision(key.as_str(), CompareOp::Equal, 0)
            }
            Compare::Unchanged(key, revision) => {
                let revision = number(*revision);
                etcd_client::Compare::mod_revision(key.as_str(), CompareOp::Equal, revision)
            }
        };
        let change = |change: &KeyChange| match change {
            KeyChange::Put { key, value, lease } => {
                let options = lease.map(|lease| PutOptions::new().with_lease(number(lease.0)));
                TxnOp::put(key.as_str(), value.clone(), options)
            }
            KeyChange::Delete(key) => TxnOp::delete(key.as_str(), None),
        };
        let compares: Vec<_> = compares.iter().map(compare).collect();
        let changes: Vec<_> = changes.iter().map(change).collect();
        let mut client = self.client.kv_client();
        self.call(limit, async move {
            let answer = client.txn(Txn::new().when(compares).and_then(changes)).await?;
            let revision = answer.header().map_or(0, |header| header.revision());
            Ok(answer.succeeded().then_some(revision.unsigned_abs()))
        })
    }

    fn get(&self, key: &str, limit: Duration) -> Result<Option<StoreEntry>, MembershipError> {
        let mut client = self.client.kv_client().max_decoding_message_size(ANSWER_MAX);
        let key = key.to_owned();
        let found = self.call(limit, async move { client.get(key, None).await })?;
        found.kvs().first().map(|kv| entry(&self.name, kv)).transpose()
    }

    fn range(&self, prefix: &str, limit: Duration) -> Result<Snapshot, MembershipError> {
        let mut client = self.client.kv_client().max_decoding_message_size(ANSWER_MAX);
        let prefix = prefix.to_owned();
        let options = Some(GetOptions::new().with_prefix());
        let found = self.call(limit, async move { client.get(prefix, options).await })?;
        let revision = found.header().map_or(0, |header| header.revision()).unsigned_abs();
        let entries = found.kvs().iter().map(|kv| entry(&self.name, kv));
        Ok(Snapshot { revision, entries: entries.collect::<Result<_, _>>()? })
    }

    fn wait(&self, prefix: &str, after: u64, limit: Duration) -> Result<bool, MembershipError> {
        let watcher = {
            let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || {
                let client = self.client.watch_client().max_decoding_message_size(ANSWER_MAX);
                Watcher::start(&self.runtime, client, prefix, after)
            };
            Arc::clone(watchers.entry(prefix.to_owned()).or_insert_with(new))
        };
        let unreachable = |why| MembershipError::Unreachable { store: self.name.clone(), why };
        watcher.wait(after, limit).map_err(unreachable)
    }
}

/// Starts the thread that talks to etcd. The thread ends when the returned sender is dropped.
fn start() -> Result<(Handle, oneshot::Sender<()>), MembershipError> {
    let failed = |error: std::io::Error| MembershipError::Thread { why: error.to_string() };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    let body = move || drop(runtime.block_on(stopped));
    thread::Builder::new().name("etcd".into()).spawn(body).map_err(failed)?;
    Ok((handle, stop))
}

/// Runs a future on the thread that talks to etcd, and waits for the result.
fn call<T: Send + 'static>(
    runtime: &Handle,
    name: &str,
    limit: Duration,
    future: impl Future<Output = Result<T, MembershipError>> + Send + 'static,
) -> Result<T, MembershipError> {
    let (send, receive) = sync_channel(1);
    runtime.spawn(async move {
        // The caller may have stopped waiting.
        let _ = send.send(tokio::time::timeout(limit, future).await);
    });
    let unreachable = |why| Err(MembershipError::Unreachable { store: name.to_owned(), why });
    match receive.recv_timeout(limit.saturating_add(GRACE)) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) | Err(RecvTimeoutError::Timeout) => {
            unreachable(format!("nothing for {limit:?}"))
        }
        Err(RecvTimeoutError::Disconnected) => unreachable("its thread has ended".into()),
    }
}

/// Checks that a server listens at one of the addresses. Without this check the library would retry
/// without end and report nothing.
async fn greet(name: &str, address: &Address, limit: Duration) -> Result<(), MembershipError> {
    let mut why = Vec::new();
    for (host, port) in &address.hosts {
        let host = host.trim_matches(['[', ']']);
        let attempt = tokio::net::TcpStream::connect((host, *port));
        match tokio::time::timeout(limit / address.hosts.len() as u32, attempt).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => why.push(error.to_string()),
            Err(_) => why.push("no connection within the time".into()),
        }
    }
    why.dedup();
    Err(MembershipError::Unreachable { store: name.to_owned(), why: why.join("; ") })
}

fn options(address: &Address) -> Result<ConnectOptions, String> {
    let mut options = ConnectOptions::new()
        .with_connect_timeout(PING)
        .with_keep_alive(PING, PING)
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    if let Some((user, password)) = &address.user {
        options = options.with_user(user, password);
    }
    if address.tls {
        options = with_tls(options, address)?;
    }
    Ok(options)
}

#[cfg(not(feature = "etcd-tls"))]
fn with_tls(_options: ConnectOptions, _address: &Address) -> Result<ConnectOptions, String> {
    Err("this program was built without TLS for etcd (cargo's feature \"etcd-tls\")".into())
}

#[cfg(feature = "etcd-tls")]
fn with_tls(options: ConnectOptions, address: &Address) -> Result<ConnectOptions, String> {
    use etcd_client::{Certificate, Identity, TlsOptions};

    const PEM: latchwork_files::InputKind =
        latchwork_files::InputKind { name: "a key or certificates", bytes_max: 1 << 20 };
    let read = |path: &std::path::PathBuf| {
        let bytes = latchwork_files::read(path, PEM);
        let bytes = bytes.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(latchwork_files::without_mark(&bytes).to_vec())
    };
    let mut tls = TlsOptions::new();
    tls = match &address.ca {
        Some(path) => tls.ca_certificate(Certificate::from_pem(read(path)?)),
        None => tls.with_native_roots(),
    };
    if let Some((certificate, key)) = &address.identity {
        tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(options.with_tls(tls))
}

/// Converts an error of the library.
fn explain(name: &str, error: Error) -> MembershipError {
    let store = name.to_owned();
    match error {
        Error::LeaseKeepAliveError(why) if why == "lease not found" => MembershipError::LeaseEnded,
        Error::GRpcStatus(status) => {
            let why = status.message().to_owned();
            let credentials = ["authentication", "auth token", "user name is empty", "permission"];
            // The codes of gRPC: 3 invalid argument, 5 not found, 7 permission denied, 8 resource
            // exhausted, 9 failed precondition, 11 out of range, 12 unimplemented, 16
            // unauthenticated.
            match status.code() as i32 {
                5 if why.contains("lease not found") => MembershipError::LeaseEnded,
                7 | 16 => MembershipError::Refused { store, why },
                3 | 9 if credentials.iter().any(|text| why.contains(text)) => {
                    MembershipError::Refused { store, why }
                }
                3 | 8 | 9 | 11 | 12 => MembershipError::Failed { store, why },
                _ => MembershipError::Unreachable { store, why: caused(why, &status) },
            }
        }
        Error::TransportError(error) => {
            MembershipError::Unreachable { store, why: caused(error.to_string(), &error) }
        }
        error => MembershipError::Unreachable { store, why: error.to_string() },
    }
}

/// Appends the causes of an error, which hold the details.
fn caused(mut why: String, error: &dyn std::error::Error) -> String {
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !why.contains(&text) {
            why = format!("{why}: {text}");
        }
        cause = error.source();
    }
    why
}

fn entry(name: &str, kv: &KeyValue) -> Result<StoreEntry, MembershipError> {
    let key = kv.key_str().map_err(|_| MembershipError::Foreign {
        store: name.to_owned(),
        key: String::from_utf8_lossy(kv.key()).into_owned(),
        why: "the key is no text".into(),
    })?;
    let lease = (kv.lease() != 0).then(|| lease_id(kv.lease()));
    let modified = kv.mod_revision().unsigned_abs();
    Ok(StoreEntry { key: key.to_owned(), value: kv.value().to_vec(), modified, lease })
}

fn lease_id(id: i64) -> LeaseId {
    LeaseId(id.unsigned_abs())
}

// Revisions and leases of etcd are positive numbers of 63 bits.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
