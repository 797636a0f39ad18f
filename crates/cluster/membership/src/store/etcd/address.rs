//! [`Address`]: a parsed endpoint of etcd.

use std::path::PathBuf;

/// A parsed `etcd[s]://[USER:PASSWORD@]HOST[:PORT][,..]/NAME[?ca=PATH][&cert=PATH&key=PATH]`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) tls: bool,
    pub(super) user: Option<(String, String)>,
    /// The hosts and ports in their written order.
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) cluster: String,
    /// The certificate of the authority, if the system does not trust the authority.
    pub(super) ca: Option<PathBuf>,
    /// This program's own certificate and key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

impl Address {
    /// Parses an endpoint, or returns its mistake.
    pub(super) fn parse(endpoint: &str) -> Result<Self, String> {
        let (tls, rest) = match endpoint.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => return Err("it begins with neither etcd:// nor etcds://".into()),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, cluster) =
            rest.split_once('/').ok_or("it names no cluster after the host")?;
        let (user, hosts) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((user, hosts)) => {
                let (name, password) =
                    user.split_once(':').ok_or("its user has no password (USER:PASSWORD@)")?;
                (Some((unescaped(name)?, unescaped(password)?)), hosts)
            }
        };
        let hosts = hosts.split(',').map(host).collect::<Result<_, _>>()?;
        let mut address =
            Address { tls, user, hosts, cluster: cluster.to_owned(), ca: None, identity: None };
        address.files(query)?;
        Ok(address)
    }

    fn files(&mut self, query: &str) -> Result<(), String> {
        let (mut certificate, mut key) = (None, None);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("ca", path)) => self.ca = Some(path.into()),
                Some(("cert", path)) => certificate = Some(PathBuf::from(path)),
                Some(("key", path)) => key = Some(PathBuf::from(path)),
                _ => return Err(format!("{part:?} is none of ca=, cert=, key=")),
            }
        }
        self.identity = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => return Err("cert= and key= belong together".into()),
        };
        if !self.tls && (self.ca.is_some() || self.identity.is_some()) {
            return Err("certificates are for etcds://".into());
        }
        Ok(())
    }

    /// The URLs that the library needs.
    pub(super) fn urls(&self) -> Vec<String> {
        let scheme = if self.tls { "https" } else { "http" };
        self.hosts.iter().map(|(host, port)| format!("{scheme}://{host}:{port}")).collect()
    }

    /// The hosts for messages, without user and password.
    pub(super) fn describe(&self) -> String {
        let hosts: Vec<_> =
            self.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        format!("etcd at {}", hosts.join(","))
    }
}

fn host(text: &str) -> Result<(String, u16), String> {
    // The colons of an IPv6 address stand inside brackets.
    let port = text.rfind(':').filter(|at| !text[*at..].contains(']'));
    let (host, port) = match port {
        None => (text, 2379),
        Some(at) => {
            let port = text[at + 1..].parse();
            (&text[..at], port.map_err(|_| format!("{:?} is no port", &text[at + 1..]))?)
        }
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    if host.is_empty() || !host.chars().all(allowed) {
        return Err(format!("{host:?} is no host"));
    }
    Ok((host.to_owned(), port))
}

/// Decodes text in which `%` and two hexadecimal digits stand for a byte.
fn unescaped(text: &str) -> Result<String, String> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            plain.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("a % of its user or password is not followed by two digits".into());
        };
        plain.push((high << 4 | low) as u8);
    }
    String::from_utf8(plain).map_err(|_| "its user or password is no text".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(endpoint: &str) -> Address {
        Address::parse(endpoint).unwrap_or_else(|why| panic!("{endpoint}: {why}"))
    }

    #[test]
    fn an_endpoint_is_taken_apart() {
        let address = parse("etcd://u%40x:p%3a%2F@a.example:77,[::1]:78,10.0.0.1/bench");
        assert_eq!(address.user, Some(("u@x".into(), "p:/".into())));
        let urls = ["http://a.example:77", "http://[::1]:78", "http://10.0.0.1:2379"];
        assert_eq!(address.urls(), urls);
        assert_eq!(address.cluster, "bench");
        assert!(!address.describe().contains("p:/"));

        let address = parse("etcds://[::1]/x?ca=/a/ca.pem&cert=/a/c.pem&key=/a/k.pem");
        assert_eq!(address.urls(), ["https://[::1]:2379"]);
        assert_eq!(address.ca, Some("/a/ca.pem".into()));
        assert_eq!(address.identity, Some(("/a/c.pem".into(), "/a/k.pem".into())));
    }

    #[test]
    fn what_is_wrong_with_an_endpoint_is_said() {
        for (endpoint, why) in [
            ("etcd://a:1", "no cluster"),
            ("etcd://a:x/b", "no port"),
            ("etcd://a:70000/b", "no port"),
            ("etcd:///b", "no host"),
            ("etcd://a b:1/c", "no host"),
            ("etcd://u@a:1/b", "no password"),
            ("etcd://u:%4@a:1/b", "two digits"),
            ("etcd://a:1/b?ca=/x", "etcds"),
            ("etcds://a:1/b?cert=/x", "belong together"),
            ("etcds://a:1/b?x=y", "none of"),
            ("http://a:1/b", "neither"),
        ] {
            let error = Address::parse(endpoint).err().unwrap();
            assert!(error.contains(why), "{endpoint}: {error}");
        }
    }
}
