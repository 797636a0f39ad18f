//! [`JoinFlags`]: the flags of a process that joins a cluster of processes. [`JoinChoice`]: these
//! flags, checked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use latchwork_cluster::{Transport, is_free};
use latchwork_files::{InputKind, Named};
use latchwork_membership::{Joining, Membership, MembershipError, Role, without_password};
use latchwork_runtime::{Clock, Time};
use latchwork_verbs_ibv as ibv;
use latchwork_verbs_shm::HugePages;
use latchwork_verbs_tcp::{Secret, Security, TcpConfig, TcpError, Tls, TlsText};

use super::kind::FabricKind;
use crate::error::{AppError, FlagError};
use crate::parse::{address, seconds, seconds_f64, socket, whole};
use crate::stop;

/// The name of the fact in the membership store that holds the cluster's secret, if no flag gives
/// one.
const SECRET: &str = "secret";

/// The limit for files with secrets, keys and certificates: 1 MiB.
const CREDENTIAL: InputKind =
    InputKind { name: "a secret, a key or certificates", bytes_max: 1 << 20 };

/// The interval between two attempts to take a certain id.
const LOOK: Duration = Duration::from_millis(20);

/// The default address on which a node listens.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Flags of a process that joins a cluster.
#[derive(Clone, Debug, Args)]
pub struct JoinFlags {
    /// Be one node of a cluster of processes that meet in this store: file:/DIRECTORY/NAME on one
    /// machine, or etcd://HOST:PORT/NAME.
    #[arg(long, global = true, value_name = "ENDPOINT", help_heading = "Joining")]
    pub join: Option<String>,
    /// The id that this node must have. [default: the lowest that is free]
    #[arg(long, global = true, value_name = "N", value_parser = whole(0..=u16::MAX), hide = true, help_heading = "Settings: Joining")]
    pub node_id: Option<u16>,
    /// Where this node listens, over sockets. Port 0 is one of the operating system's choice.
    #[arg(long, global = true, value_name = "ADDR:PORT", default_value_t = LISTEN, value_parser = socket, help_heading = "Joining")]
    pub listen: SocketAddr,
    /// The address under which others reach this node, where it is another than that of --listen.
    /// [default: that of --listen]
    #[arg(long, global = true, value_name = "ADDR", value_parser = address, hide = true, help_heading = "Settings: Joining")]
    pub advertise: Option<IpAddr>,
    /// A file with a secret that all nodes have, 16 bytes or more. A node without the secret is
    /// refused. [default: one that the first node leaves in the store]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        conflicts_with = "tls_cert",
        hide = true,
        help_heading = "Settings: Joining"
    )]
    pub secret_file: Option<PathBuf>,
    /// This node's certificate, in PEM form: nodes prove their identity with TLS.
    #[arg(long, global = true, value_name = "FILE", requires_all = ["tls_key", "tls_ca"], hide = true, help_heading = "Settings: Joining")]
    pub tls_cert: Option<PathBuf>,
    /// The key of tls-cert.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        requires = "tls_cert",
        hide = true,
        help_heading = "Settings: Joining"
    )]
    pub tls_key: Option<PathBuf>,
    /// The authority that has signed the certificates of all nodes.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        requires = "tls_cert",
        hide = true,
        help_heading = "Settings: Joining"
    )]
    pub tls_ca: Option<PathBuf>,
    /// The name that the certificates of all nodes have.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        default_value = "latchwork",
        hide = true,
        help_heading = "Settings: Joining"
    )]
    pub tls_name: String,
    /// The directory of the files that the processes share, with --fabric shm; the first node
    /// decides for all. [default: /dev/shm/latchwork]
    #[arg(
        long,
        global = true,
        value_name = "DIRECTORY",
        hide = true,
        help_heading = "Settings: Joining"
    )]
    pub shm_dir: Option<PathBuf>,
    /// Huge pages for memory that processes share: no; advise, where the kernel gives them; or the
    /// directory of a hugetlbfs.
    #[arg(
        long,
        global = true,
        value_name = "no|advise|DIRECTORY",
        default_value = "no",
        hide = true,
        help_heading = "Settings: Joining"
    )]
    pub huge_pages: String,
    /// How long after its death a node counts as alive: the others go on without it then.
    #[arg(long, global = true, value_name = "SECONDS", default_value = "10s", value_parser = seconds_f64, hide = true, help_heading = "Settings: Joining")]
    pub member_lease: f64,
    /// How long to wait for the other nodes at the start.
    #[arg(long, global = true, value_name = "SECONDS", default_value = "60s", value_parser = seconds, hide = true, help_heading = "Settings: Joining")]
    pub join_wait: Duration,
    /// Works along in a run that outlives its processes, in the place of one that has died. The run
    /// is one of the same cluster, with the same flags.
    #[arg(long, global = true, hide = true, help_heading = "Settings: Joining")]
    pub replaces: bool,
}

/// How a process joins a cluster. All checks that are possible before joining have passed.
#[derive(Clone, Debug)]
pub struct JoinChoice {
    endpoint: String,
    kind: FabricKind,
    flags: JoinFlags,
    rdma: ibv::IbvConfig,
    /// How nodes authenticate each other over sockets. `None` if the store has the secret.
    security: Option<Security>,
}

impl JoinFlags {
    /// The files that these flags name.
    pub fn files(&self) -> impl Iterator<Item = Named> {
        [
            ("--set secret-file", &self.secret_file),
            ("--set tls-cert", &self.tls_cert),
            ("--set tls-key", &self.tls_key),
            ("--set tls-ca", &self.tls_ca),
        ]
        .into_iter()
        .filter_map(|(flag, path)| path.as_ref().map(|path| Named::read(flag, path)))
    }

    /// How to join a cluster on the fabric `kind`. `None` without `--join`.
    ///
    /// # Errors
    /// A flag that has no effect or is impossible here, or a file that cannot be read.
    pub fn choice(
        &self,
        kind: FabricKind,
        rdma: &ibv::IbvConfig,
    ) -> Result<Option<JoinChoice>, FlagError> {
        let Some(endpoint) = &self.join else {
            return self.given_in_vain().map_or(Ok(None), |flag| {
                Err(FlagError(format!("{flag}: it is for nodes of a cluster of processes; give --join, too, or leave it out")))
            });
        };
        if kind == FabricKind::Sim {
            let endpoint = without_password(endpoint);
            return Err(FlagError(format!(
                "--join {endpoint}: a simulated network is one process's; use --fabric shm on one machine, tcp or ibverbs"
            )));
        }
        if let Some((flag, fabric)) = self.given_to_another(kind) {
            return Err(FlagError(format!(
                "{flag}: it is for --fabric {fabric}, and this is --fabric {}; leave it out",
                kind.name()
            )));
        }
        if self.listen.ip().is_unspecified() && self.advertise.is_none() {
            return Err(FlagError(format!(
                "--listen {}: others must be told an address that they reach; give --set advertise=ADDR",
                self.listen
            )));
        }
        if let HugePages::Directory(directory) = self.huge_pages()
            && !directory.is_dir()
        {
            return Err(FlagError(format!(
                "--set huge-pages={}: use no, advise, or the directory of a hugetlbfs that is there",
                self.huge_pages
            )));
        }
        let security = self.security()?;
        let (endpoint, flags, rdma) = (endpoint.clone(), self.clone(), rdma.clone());
        Ok(Some(JoinChoice { endpoint, kind, flags, rdma, security }))
    }

    /// A given setting that has no effect without `--join`. A setting with a default is not
    /// checked, because a given value cannot be distinguished from the default.
    fn given_in_vain(&self) -> Option<String> {
        let path = |flag: &str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| format!("{flag}={}", path.display()))
        };
        let id = self.node_id.map(|id| format!("--set node-id={id}"));
        let advertise = self.advertise.map(|ip| format!("--set advertise={ip}"));
        let replaces = self.replaces.then(|| "--set replaces=on".to_owned());
        id.or(advertise)
            .or(replaces)
            .or_else(|| path("--set secret-file", &self.secret_file))
            .or_else(|| path("--set tls-cert", &self.tls_cert))
            .or_else(|| path("--set shm-dir", &self.shm_dir))
    }

    /// A given setting that has no effect on this fabric, and the fabric on which it has one. Such
    /// a setting is refused: a user might believe that a secret protects a cluster that has no
    /// secret. Addresses are accepted on every fabric, so that one command line can serve all
    /// fabrics.
    fn given_to_another(&self, kind: FabricKind) -> Option<(String, &'static str)> {
        let path = |flag: &str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| format!("{flag}={}", path.display()))
        };
        if kind != FabricKind::Tcp {
            let flag = path("--set secret-file", &self.secret_file)
                .or_else(|| path("--set tls-cert", &self.tls_cert));
            if let Some(flag) = flag {
                return Some((flag, FabricKind::Tcp.name()));
            }
        }
        if kind != FabricKind::Shm {
            let pages = self.huge_pages() != HugePages::Never;
            let flag = path("--set shm-dir", &self.shm_dir)
                .or_else(|| pages.then(|| format!("--set huge-pages={}", self.huge_pages)));
            return flag.map(|flag| (flag, FabricKind::Shm.name()));
        }
        None
    }

    fn huge_pages(&self) -> HugePages {
        match self.huge_pages.as_str() {
            "no" => HugePages::Never,
            "advise" => HugePages::Advised,
            directory => HugePages::Directory(directory.into()),
        }
    }

    fn security(&self) -> Result<Option<Security>, FlagError> {
        if let Some(path) = &self.secret_file {
            let secret = Secret::new(read("--set secret-file", path)?.trim_ascii_end());
            let wrong = |error| FlagError(format!("--set secret-file={}: {error}", path.display()));
            return secret.map(|secret| Some(Security::Secret(secret))).map_err(wrong);
        }
        let given = (self.tls_cert.as_deref(), self.tls_key.as_deref(), self.tls_ca.as_deref());
        let (Some(cert), Some(key), Some(ca)) = given else { return Ok(None) };
        let texts = [("--set tls-ca", ca), ("--set tls-cert", cert), ("--set tls-key", key)];
        let [authority, certificate, secret] = texts.map(|(flag, path)| read(flag, path));
        let tls = Tls::from_pem(&authority?, &certificate?, &secret?, &self.tls_name);
        let wrong = |error| self.tls_error((ca, cert, key), &error);
        tls.map(|tls| Some(Security::Tls(tls))).map_err(wrong)
    }

    /// The error for wrong credentials. The text names the flag and the file that are wrong.
    fn tls_error(&self, (ca, cert, key): (&Path, &Path, &Path), error: &TcpError) -> FlagError {
        let TcpError::Certificate { of, why } = error else {
            return FlagError(format!("--set tls-cert={}: {error}", cert.display()));
        };
        let given = match of {
            TlsText::Authority => format!("--set tls-ca={}", ca.display()),
            TlsText::Certificate => format!("--set tls-cert={}", cert.display()),
            TlsText::Key => format!("--set tls-key={}", key.display()),
            TlsText::Pair => {
                format!("--set tls-key={} and --set tls-cert={}", key.display(), cert.display())
            }
            TlsText::Name => format!("--set tls-name={}", self.tls_name),
        };
        FlagError(format!("{given}: {why}"))
    }
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, FlagError> {
    let unreadable = |error| FlagError(format!("{flag}={}: {error}", path.display()));
    // A byte order mark, which some editors add, would change the secret on one machine.
    let bytes = latchwork_files::read(path, CREDENTIAL).map_err(unreadable)?;
    Ok(latchwork_files::without_mark(&bytes).to_vec())
}

impl JoinChoice {
    /// The name of the fabric, as `--fabric` takes it.
    pub fn fabric(&self) -> &'static str {
        self.kind.name()
    }

    /// How long to wait for the other nodes at the start.
    pub fn wait(&self) -> Duration {
        self.flags.join_wait
    }

    /// Whether this process takes the place of a dead one in a run.
    pub fn replaces(&self) -> bool {
        self.flags.replaces
    }

    /// The length of a node's lease: the other nodes notice a death within this time.
    pub fn lease(&self) -> Duration {
        Duration::from_secs_f64(self.flags.member_lease)
    }

    /// Joins the membership of the cluster. Returns the membership, and the transport to the other
    /// nodes.
    ///
    /// # Errors
    /// When RDMA devices cannot be opened, or when the membership store cannot be used or refuses
    /// the node.
    pub fn join(&self, role: Role) -> Result<(Membership, Transport), AppError> {
        self.enter(role, false)
    }

    /// Joins as a compute node of a cluster that recovers the lines of dead nodes. A node that is
    /// to have a certain id waits until the id is free, for at most the time to wait for the other
    /// nodes: the last holder may have been killed just now.
    pub(crate) fn join_surviving(&self) -> Result<(Membership, Transport), AppError> {
        self.enter(Role::Compute, true)
    }

    fn enter(&self, role: Role, survives: bool) -> Result<(Membership, Transport), AppError> {
        let told = without_password(&self.endpoint);
        let failed = |error: MembershipError| AppError::Failed(format!("--join {told}: {error}"));
        if self.kind == FabricKind::Ibverbs {
            // The devices are opened before the node joins, because a member without devices would
            // fail and count as dead.
            let devices = ibv::IbvFabric::open(self.rdma.clone());
            devices.map_err(|error| AppError::Failed(error.to_string()))?;
        }
        let (store, cluster) = latchwork_membership::open(&self.endpoint)
            .map_err(|error| AppError::Usage(format!("--join {told}: {error}")))?;
        let (id, ttl, reuse) = (self.flags.node_id, self.lease(), survives.then_some(is_free as _));
        let joining = Joining { id, ttl, reuse, ..Joining::new(role) };
        let clock = Clock::start();
        let membership = loop {
            match Membership::join(store.clone(), &cluster, joining.clone()) {
                Err(MembershipError::Taken { .. } | MembershipError::Dead { .. })
                    if survives && clock.now() < Time::ZERO + self.wait() =>
                {
                    stop::check()?;
                    thread::park_timeout(LOOK);
                }
                joined => break joined.map_err(failed)?,
            }
        };
        if self.kind == FabricKind::Shm {
            let (directory, huge_pages) = (self.flags.shm_dir.clone(), self.flags.huge_pages());
            return Ok((membership, Transport::Shm { directory, huge_pages }));
        }
        if self.kind == FabricKind::Ibverbs {
            let config = Box::new(self.rdma.clone());
            return Ok((membership, Transport::Ibverbs { config }));
        }
        let security = match &self.security {
            Some(security) => security.clone(),
            None => match kept(&membership) {
                Ok(secret) => Security::Secret(secret),
                Err(error) => {
                    // No other node uses this node yet, so it can leave at once.
                    let _ = membership.leave();
                    return Err(error);
                }
            },
        };
        let config = TcpConfig { listen: self.flags.listen.ip(), ..TcpConfig::new(security) };
        let transport = Transport::Tcp {
            config: Box::new(config),
            listen: self.flags.listen,
            advertise: self.flags.advertise,
        };
        Ok((membership, transport))
    }
}

/// The secret of the cluster in the membership store. The first node that needs the secret draws
/// it.
fn kept(membership: &Membership) -> Result<Secret, AppError> {
    let failed = |error: &dyn std::fmt::Display| {
        AppError::Failed(format!("the secret of the cluster cannot be had: {error}"))
    };
    let drawn = Secret::draw().map_err(|error| failed(&error))?;
    let secret = membership.decide(SECRET, &drawn).map_err(|error| failed(&error))?;
    Secret::new(&secret).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        join: JoinFlags,
    }

    /// Bug: every error about credentials named the certificate's file. Fix: the error names the
    /// flag and the file that is wrong, or both files if they do not match.
    #[test]
    fn what_is_wrong_with_credentials_names_its_file() {
        let arguments = ["test", "--tls-ca", "ca.pem", "--tls-cert", "c.pem", "--tls-key", "k.pem"];
        let flags = <Cli as clap::Parser>::try_parse_from(arguments).expect("flags").join;
        let paths = (Path::new("ca.pem"), Path::new("c.pem"), Path::new("k.pem"));
        for (of, told) in [
            (TlsText::Authority, "--set tls-ca=ca.pem: bad"),
            (TlsText::Certificate, "--set tls-cert=c.pem: bad"),
            (TlsText::Key, "--set tls-key=k.pem: bad"),
            (TlsText::Pair, "--set tls-key=k.pem and --set tls-cert=c.pem: bad"),
            (TlsText::Name, "--set tls-name=latchwork: bad"),
        ] {
            let error = TcpError::Certificate { of, why: "bad".to_owned() };
            assert_eq!(flags.tls_error(paths, &error).to_string(), told);
        }
    }
}
