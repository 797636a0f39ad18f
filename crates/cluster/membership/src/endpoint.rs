//! [`open`]: opens the store that an endpoint (the text of `--join`) names.

use std::path::Path;
use std::time::Duration;

use latchwork_runtime::sync::Arc;

use crate::error::MembershipError;
use crate::key_name::checked;
use crate::password::without_password;
use crate::store::{FileStore, Store};

/// The longest time that opening a store may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Opens the store of `endpoint` within 5 seconds. Returns the store, and the cluster's name in it.
///
/// | endpoint | store |
/// | --- | --- |
/// | `file:/path/NAME` | the directory `/path/NAME`, made if it does not exist ([`FileStore`]) |
/// | `etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT..]/NAME` | etcd, with the feature `etcd` |
/// | `etcds://..[?ca=PATH][&cert=PATH&key=PATH]` | etcd over TLS, with the feature `etcd-tls`. `ca`: the authority to trust, if the system does not trust it. `cert` and `key`: this program's own certificate |
///
/// In user and password, `%` and two hexadecimal digits stand for a byte. The default port is 2379.
///
/// # Errors
/// [`MembershipError::Endpoint`] when the endpoint cannot be parsed; [`MembershipError::Name`] for
/// a wrong cluster name; [`MembershipError::NoEtcd`]; an error of the store.
pub fn open(endpoint: &str) -> Result<(Arc<dyn Store>, String), MembershipError> {
    let bad = |why: &str| MembershipError::Endpoint {
        endpoint: without_password(endpoint),
        why: why.to_owned(),
    };
    if let Some(path) = endpoint.strip_prefix("file:") {
        let path = Path::new(path.strip_prefix("//").unwrap_or(path));
        if !path.is_absolute() {
            return Err(bad("its path does not begin with /"));
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let name = checked("cluster", name.ok_or_else(|| bad("its path names no cluster"))?)?;
        return Ok((Arc::new(FileStore::open(path, LIMIT)?), name.to_owned()));
    }
    match endpoint.split_once("://") {
        Some(("etcd" | "etcds", _)) => etcd(endpoint, &bad),
        Some((scheme, _)) => Err(bad(&format!("{scheme:?} is no kind of store"))),
        None => Err(bad("it says no kind of store")),
    }
}

#[cfg(not(feature = "etcd"))]
fn etcd(
    endpoint: &str,
    _bad: &dyn Fn(&str) -> MembershipError,
) -> Result<(Arc<dyn Store>, String), MembershipError> {
    Err(MembershipError::NoEtcd { endpoint: without_password(endpoint) })
}

#[cfg(feature = "etcd")]
fn etcd(
    endpoint: &str,
    _bad: &dyn Fn(&str) -> MembershipError,
) -> Result<(Arc<dyn Store>, String), MembershipError> {
    let (store, name) = crate::store::EtcdStore::open(endpoint, LIMIT)?;
    Ok((Arc::new(store), name))
}
