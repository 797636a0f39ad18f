//! [`Security`]: how clients and agents prove that they belong to the cluster.

use std::fmt;
use std::sync::Arc;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::error::{TcpError, TlsText};

/// How clients and agents prove that they belong to the cluster. There is no mode without a proof.
#[derive(Clone, Debug)]
pub enum Security {
    /// Both sides prove that they know a secret. The bytes after the greetings are neither
    /// encrypted nor authenticated. So this mode is only for a network that no other party can read
    /// or write.
    Secret(Secret),
    /// Mutual TLS: both sides show a certificate signed by the cluster's authority.
    Tls(Tls),
}

/// A secret that all processes of a cluster share.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// The minimum length of a secret, in bytes.
    pub(crate) const MIN_LEN: usize = 16;

    /// Makes the secret with these bytes. The bytes should be random, for example 32 bytes from
    /// `/dev/urandom`.
    ///
    /// # Errors
    /// [`TcpError::ShortSecret`] with fewer than 16 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, TcpError> {
        if bytes.len() < Self::MIN_LEN {
            return Err(TcpError::ShortSecret { len: bytes.len() });
        }
        Ok(Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// A random secret, for a cluster inside one process.
    ///
    /// # Errors
    /// [`TcpError::NoRandom`].
    pub fn random() -> Result<Self, TcpError> {
        Secret::new(&Secret::draw()?)
    }

    /// The bytes of a random secret, for a caller that gives them to all processes of a cluster.
    ///
    /// # Errors
    /// [`TcpError::NoRandom`].
    pub fn draw() -> Result<[u8; 32], TcpError> {
        random::<32>()
    }

    pub(crate) fn sign(&self, role: Role, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(role.label());
        parts.iter().for_each(|part| context.update(part));
        let mut mac = [0; 32];
        mac.copy_from_slice(context.sign().as_ref());
        mac
    }

    /// Whether `mac` is the authentication code of `parts` for `role`. The comparison takes the
    /// same time for every `mac`.
    pub(crate) fn verify(&self, role: Role, parts: &[&[u8]], mac: &[u8; 32]) -> bool {
        // Each part has a known length or comes last, so two different sequences of parts never
        // give the same bytes.
        let mut bytes = role.label().to_vec();
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        hmac::verify(&self.0, &bytes, mac).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The side that makes a proof. A proof of the client does not verify as a proof of the agent, and
/// the reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Client,
    Agent,
}

impl Role {
    fn label(self) -> &'static [u8] {
        match self {
            Role::Client => b"latchwork tcp 1: client",
            Role::Agent => b"latchwork tcp 1: agent.",
        }
    }
}

/// The certificates of one process, for its connections as a client and as an agent.
#[derive(Clone)]
pub struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) name: ServerName<'static>,
}

impl Tls {
    /// Reads certificates from texts in PEM form. `authority` is the certificate whose key signs
    /// the certificates of all processes. `certificate` is this process's own certificate, with
    /// intermediate certificates if there are any, and `key` is its private key. `name` is the DNS
    /// name that every certificate of the cluster has.
    ///
    /// # Errors
    /// [`TcpError::Certificate`], which names the wrong text and its error.
    pub fn from_pem(
        authority: &[u8],
        certificate: &[u8],
        key: &[u8],
        name: &str,
    ) -> Result<Self, TcpError> {
        let wrong = |of, why: &dyn fmt::Display| TcpError::Certificate { of, why: why.to_string() };
        let mut roots = RootCertStore::empty();
        for root in certificates(authority, TlsText::Authority)? {
            roots.add(root).map_err(|error| wrong(TlsText::Authority, &error))?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(certificate, TlsText::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| wrong(TlsText::Key, &e))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let own = |error: rustls::Error| match error {
            rustls::Error::InconsistentKeys(_) => {
                wrong(TlsText::Pair, &"the key belongs to another certificate")
            }
            error => wrong(TlsText::Pair, &error),
        };

        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| wrong(TlsText::Authority, &error))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(own)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(own)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(own)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(own)?;
        let name = ServerName::try_from(name.to_owned()).map_err(|e| wrong(TlsText::Name, &e))?;
        Ok(Tls {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
            name,
        })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

fn certificates(pem: &[u8], of: TlsText) -> Result<Vec<CertificateDer<'static>>, TcpError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(TcpError::Certificate { of, why: "no certificate in PEM form".into() }),
        Err(error) => Err(TcpError::Certificate { of, why: error.to_string() }),
    }
}

/// Random bytes of the operating system, which no other party can predict.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], TcpError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| TcpError::NoRandom)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_its_secret_its_role_and_its_words_only() {
        let secret = Secret::new(b"sixteen bytes...").unwrap();
        let other = Secret::new(b"sixteen bytes..,").unwrap();
        let mac = secret.sign(Role::Client, &[b"one", b"two"]);
        assert!(secret.verify(Role::Client, &[b"one", b"two"], &mac));
        assert!(!other.verify(Role::Client, &[b"one", b"two"], &mac));
        assert!(!secret.verify(Role::Agent, &[b"one", b"two"], &mac));
        assert!(!secret.verify(Role::Client, &[b"one", b"twp"], &mac));
        assert!(matches!(Secret::new(b"short"), Err(TcpError::ShortSecret { len: 5 })));
        assert!(!format!("{secret:?}").contains("sixteen"));
    }

    #[test]
    fn what_is_no_certificate_is_said() {
        let error = Tls::from_pem(b"", b"", b"", "latchwork").unwrap_err();
        assert!(error.to_string().contains("the authority's certificate"), "{error}");
    }
}
