//! The store in etcd over TLS.
#![cfg(feature = "etcd-tls")]

use std::fs;
use std::path::Path;

use latchwork_membership::{Membership, MembershipError, open};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::common::compute;
use crate::common::etcd::Server;

/// Writes the certificate of an authority (`NAME.ca`), a certificate that the authority has signed
/// (`NAME.pem`), and the key of that certificate (`NAME.key`).
fn certificates(directory: &Path, name: &str) -> [String; 3] {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let texts = [authority.pem(), certificate.pem(), key.serialize_pem()];
    ["ca", "pem", "key"].map(|kind| format!("{}/{name}.{kind}", directory.display())).map({
        let mut texts = texts.into_iter();
        move |path| {
            fs::write(&path, texts.next().unwrap()).unwrap();
            path
        }
    })
}

#[test]
fn both_sides_show_a_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let [ca, certificate, key] = certificates(directory.path(), "ours");
    let [other_ca, other_certificate, other_key] = certificates(directory.path(), "others");
    let flags = [
        format!("--cert-file={certificate}"),
        format!("--key-file={key}"),
        "--client-cert-auth".to_owned(),
        format!("--trusted-ca-file={ca}"),
    ];
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let Some(server) = Server::start_with(&flags) else { return };
    let address = server.address;

    let endpoint = format!("etcds://{address}/bench?ca={ca}&cert={certificate}&key={key}");
    let (store, cluster) = open(&endpoint).unwrap();
    let node = Membership::join(store, &cluster, compute()).unwrap();
    assert_eq!(node.decide("a", b"b").unwrap(), b"b");

    for endpoint in [
        // Without TLS; without a certificate; with a certificate of a foreign authority; with trust
        // in a foreign authority.
        format!("etcd://{address}/bench"),
        format!("etcds://{address}/bench?ca={ca}"),
        format!("etcds://{address}/bench?ca={ca}&cert={other_certificate}&key={other_key}"),
        format!("etcds://{address}/bench?ca={other_ca}&cert={certificate}&key={key}"),
    ] {
        let error = open(&endpoint).err().unwrap();
        assert!(matches!(error, MembershipError::Unreachable { .. }), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
        println!("{error}");
    }
    let error = open(&format!("etcds://{address}/bench?ca=/none")).err().unwrap();
    assert!(error.to_string().contains("/none: it cannot be read"), "{error}");
}
