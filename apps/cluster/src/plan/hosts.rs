//! The parser of a file of machines.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};
use std::path::Path;

use latchwork_files::InputKind;
use latchwork_harness::AppError;

use super::common::Reach;

const FILE: InputKind = InputKind { name: "a file of hosts", bytes_max: 1 << 20 };

/// A machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Host {
    /// The name for ssh.
    pub(crate) name: String,
    /// The address at which other machines reach it.
    pub(crate) address: IpAddr,
    /// Its RDMA device.
    pub(crate) device: Option<String>,
}

impl Host {
    /// The addresses of a node on this machine. A node on loopback listens only on loopback.
    pub(super) fn reach(&self) -> Reach {
        if self.address.is_loopback() {
            return Reach::at(self.address);
        }
        let advertise = Some(self.address.to_string());
        Reach { listen: IpAddr::V4(Ipv4Addr::UNSPECIFIED), advertise }
    }
}

/// Reads a file of machines.
pub(super) fn load(path: &Path) -> Result<Vec<Host>, AppError> {
    let wrong = |problem: String| AppError::Usage(format!("--hosts {}: {problem}", path.display()));
    let text = latchwork_files::read_text(path, FILE).map_err(|error| wrong(error.to_string()))?;
    let hosts = parse(&text).map_err(wrong)?;
    if hosts.is_empty() {
        return Err(wrong(
            "it has no host; write a line for each: HOST [ADDRESS] [DEVICE]".to_owned(),
        ));
    }
    Ok(hosts)
}

fn parse(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<_> = line.split_whitespace().collect();
        let (name, rest) = match words[..] {
            [] => continue,
            [name, ref rest @ ..] if rest.len() <= 2 && !name.starts_with('-') => (name, rest),
            _ => return Err(format!("line {}: write HOST [ADDRESS] [DEVICE]", number + 1)),
        };
        let address = match rest.first() {
            Some(address) => address.parse().ok(),
            None => resolve(name),
        };
        let Some(address) = address else {
            let text = format!(
                "line {}: the address of {name} is not known; write HOST ADDRESS",
                number + 1
            );
            return Err(text);
        };
        let device = rest.get(1).map(|device| (*device).to_owned());
        hosts.push(Host { name: name.to_owned(), address, device });
    }
    Ok(hosts)
}

fn resolve(name: &str) -> Option<IpAddr> {
    let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
    let all: Vec<_> = (host, 0).to_socket_addrs().ok()?.map(|address| address.ip()).collect();
    all.iter().find(|address| address.is_ipv4()).or(all.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_host() {
        let hosts =
            parse("# ours\n\nme@10.0.0.2\nlocalhost 127.0.0.2 mlx5_0 # fast\n").expect("hosts");
        let (listen, advertise) = (hosts[0].reach().listen, hosts[0].reach().advertise);
        assert_eq!(
            (listen.to_string(), advertise.as_deref()),
            ("0.0.0.0".into(), Some("10.0.0.2"))
        );
        let (listen, advertise) = (hosts[1].reach().listen, hosts[1].reach().advertise);
        assert_eq!((listen.to_string(), advertise), ("127.0.0.2".into(), None));
        assert_eq!(hosts[1].device.as_deref(), Some("mlx5_0"));
    }

    #[test]
    fn what_is_no_host_is_refused_with_its_line() {
        assert_eq!(
            parse("\n-oProxyCommand=x").expect_err("no host"),
            "line 2: write HOST [ADDRESS] [DEVICE]"
        );
        assert_eq!(parse("a b c d").expect_err("no host"), "line 1: write HOST [ADDRESS] [DEVICE]");
        let line = parse("a not-an-address").expect_err("no address");
        assert!(line.contains("the address of a is not known"), "{line}");
    }
}
