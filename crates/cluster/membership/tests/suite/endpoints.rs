//! Wrong endpoints: each error is one line with a remedy.

use std::fs;

use latchwork_membership::open;

use crate::common;
use crate::common::now;

/// The error of an attempt to open an endpoint.
fn refused(endpoint: &str) -> String {
    let begin = now();
    let error = open(endpoint).err().unwrap_or_else(|| panic!("{endpoint} was opened")).to_string();
    assert!(!error.contains('\n'), "{error}");
    assert!(begin.elapsed() < common::LONG, "{endpoint}");
    println!("{endpoint}\n    {error}");
    error
}

fn says(endpoint: &str, parts: &[&str]) {
    let error = refused(endpoint);
    parts.iter().for_each(|part| assert!(error.contains(part), "{endpoint}: {error}"));
}

#[test]
fn what_names_no_store() {
    let hint = "etcd://HOST:PORT/CLUSTER";
    says("", &["no kind of store", hint]);
    says("/tmp/bench", &["no kind of store", hint]);
    says("zk://localhost/bench", &["\"zk\" is no kind of store", hint]);
    says("file:bench", &["does not begin with /", hint]);
    says("file:/", &["names no cluster", hint]);
    says("file:/tmp/..", &["names no cluster", hint]);
    says("file:/tmp/a b", &["\"a b\" is no name of a cluster"]);
}

#[test]
fn directories_that_cannot_hold_a_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().display();
    says(&format!("file:{here}/none/bench"), &["none is not there", "make it"]);
    fs::write(directory.path().join("file"), "x").unwrap();
    says(&format!("file:{here}/file"), &["it is a file", "another place"]);
    says(&format!("file:{here}/file/bench"), &["cannot be made", "another place"]);
    // No user can write in this directory, not even root.
    says("file:/proc/bench", &["/proc/bench", "cannot be made", "another place"]);
    says("file:/sys/kernel", &["not writable", "another place"]);
    assert_eq!(fs::read_to_string(directory.path().join("file")).unwrap(), "x");
}

#[test]
fn an_endpoint_with_two_slashes_is_the_same_directory() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = format!("file://{}/bench", directory.path().display());
    assert_eq!(open(&endpoint).unwrap().1, "bench");
    assert!(directory.path().join("bench/state").exists());
}

#[cfg(not(feature = "etcd"))]
#[test]
fn a_program_without_etcd_says_so() {
    let how = "build it with `--features latchwork-harness/etcd`";
    says("etcd://localhost:2379/bench", &["is in etcd", "was built without", how]);
    assert!(!refused("etcd://u:geheim@localhost:2379/bench").contains("geheim"));
}

#[cfg(feature = "etcd")]
#[test]
fn addresses_where_no_etcd_is() {
    // No process listens at this port.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    says(&format!("etcd://{free}/bench"), &[&free.to_string(), "refused", "is it started"]);
    says(&format!("etcd://u:geheim@{free},{free}/bench"), &["refused", "is it started"]);
    // This server accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_at = silent.local_addr().unwrap();
    says(&format!("etcd://{silent_at}/bench"), &["does not answer", "is it started"]);
    says("etcd://nowhere.invalid:1/bench", &["does not answer"]);
}

#[cfg(feature = "etcd")]
#[test]
fn endpoints_of_etcd_that_cannot_be_read() {
    says("etcd://localhost:2379", &["names no cluster"]);
    says("etcd://localhost:port/bench", &["\"port\" is no port"]);
    says("etcd://localhost:2379/a/b", &["\"a/b\" is no name of a cluster"]);
    let error = refused("etcd://user:geheim@:1/bench");
    assert!(error.contains("is no host") && !error.contains("geheim"), "{error}");
}

#[test]
fn no_message_has_a_password() {
    let error = refused("zk://user:geheim@host/bench");
    assert!(error.contains("user:...@host") && !error.contains("geheim"), "{error}");
}
