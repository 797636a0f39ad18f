//! The store in etcd: a server that stops, comes back, or refuses a user.
#![cfg(feature = "etcd")]

use std::time::Duration;

use etcd_client::{Client, Permission, PermissionType};
use latchwork_membership::{Membership, MembershipError, open};

use crate::common;
use crate::common::etcd::Server;
use crate::common::{LONG, Place, compute, compute_for, eventually, now};

/// Calls the etcd library directly.
fn etcd<T>(server: &Server, does: impl AsyncFnOnce(Client) -> Result<T, etcd_client::Error>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let urls = [format!("http://{}", server.address)];
    let result = runtime.block_on(async { does(Client::connect(urls, None).await?).await });
    result.unwrap()
}

#[test]
fn a_server_that_is_killed_gives_lost_leases_and_errors_and_no_hang() {
    let Some(mut place) = Place::etcd() else { return };
    let ttl = Duration::from_secs(3);
    let nodes: Vec<_> = (0..3).map(|_| place.join(compute_for(ttl)).unwrap()).collect();
    let waiter = nodes[0].clone();
    let parties: Vec<_> = nodes.iter().map(|node| node.me().party()).collect();
    let waiter = std::thread::spawn(move || waiter.exchange("x", &parties, b"", 4 * LONG));
    common::sleep(Duration::from_millis(300));
    place.server.as_mut().unwrap().kill();
    let begin = now();
    let error = nodes[1].decide("a", b"b").unwrap_err();
    assert!(matches!(error, MembershipError::Unreachable { .. }), "{error}");
    println!("decide: {error}");
    for node in &nodes {
        eventually("the lease to be invalid", || !node.lease().is_valid());
        assert_eq!(node.wait(LONG, |_| false).unwrap_err(), MembershipError::LeaseEnded);
    }
    assert!(begin.elapsed() < ttl + Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(waiter.join().unwrap(), Err(MembershipError::LeaseEnded));
    let error = open(&place.endpoint).err().unwrap().to_string();
    assert!(error.contains("is it started"), "{error}");
}

#[test]
fn a_short_absence_costs_no_node_its_lease() {
    // The test has two handles of the library to one server, and one of them loses its connections.
    // A restart of etcd within the lease has the same effect, but takes longer.
    let Some(place) = Place::etcd() else { return };
    let way = common::faulty::Faulty::new(place.another());
    let store: std::sync::Arc<dyn latchwork_membership::Store> = way.clone();
    let node = Membership::join(store, "bench", compute_for(Duration::from_secs(5))).unwrap();
    let other = place.join(compute()).unwrap();
    way.set(common::faulty::Fault::Cut);
    common::sleep(Duration::from_secs(2));
    other.contact("changed", "meanwhile").unwrap();
    way.set(common::faulty::Fault::None);
    common::sleep(Duration::from_secs(5));
    assert!(node.lease().is_valid());
    let name = other.me().node;
    node.wait(LONG, |view| {
        view.get(name).is_some_and(|member| member.contact.contains_key("changed"))
    })
    .unwrap();
}

#[test]
fn history_that_was_compacted_is_no_obstacle() {
    let Some(place) = Place::etcd() else { return };
    let (a, b) = (place.join(compute()).unwrap(), place.join(compute()).unwrap());
    let old = place.store.range("/", LONG).unwrap().revision;
    (0..10).for_each(|round| b.contact("round", &round.to_string()).unwrap());
    let server = place.server.as_ref().unwrap();
    etcd(server, async |mut client: Client| {
        let now = client.get("x", None).await?.header().unwrap().revision();
        client.compact(now, None).await
    });
    // The wait begins at the old revision, and etcd has compacted the changes after it.
    assert_eq!(place.another().wait("/", old, LONG), Ok(true));
    b.contact("round", "last").unwrap();
    let node = b.me().node;
    let last = |view: &latchwork_membership::View| {
        view.get(node).unwrap().contact.get("round").is_some_and(|round| round == "last")
    };
    a.wait(LONG, last).unwrap();
}

#[test]
fn only_a_user_with_the_password_gets_in() {
    let Some(server) = Server::start() else { return };
    etcd(&server, async |mut client: Client| {
        client.user_add("root", "r00t", None).await?;
        client.user_grant_role("root", "root").await?;
        client.role_add("bench").await?;
        let here = Permission::new(PermissionType::Readwrite, "/latchwork/").with_prefix();
        client.role_grant_permission("bench", here).await?;
        client.user_add("node", "p@ss/word", None).await?;
        client.user_grant_role("node", "bench").await?;
        client.user_add("stranger", "x", None).await?;
        client.auth_enable().await
    });
    let address = server.address;
    let (store, cluster) = open(&format!("etcd://node:p%40ss%2fword@{address}/bench")).unwrap();
    let node = Membership::join(store, &cluster, compute()).unwrap();
    node.decide("a", b"b").unwrap();
    for user in ["node:wrong@", "nobody:x@", "", "stranger:x@"] {
        let begin = now();
        let error = open(&format!("etcd://{user}{address}/bench")).err().unwrap();
        assert!(matches!(error, MembershipError::Refused { .. }), "{user}: {error}");
        let text = error.to_string();
        assert!(text.contains("check user, password") && !text.contains('\n'), "{text}");
        assert!(begin.elapsed() < LONG);
        println!("{user:12} {text}");
    }
}

#[test]
fn a_user_for_a_server_without_users_is_an_error_that_says_so() {
    let Some(server) = Server::start() else { return };
    let error = open(&format!("etcd://node:x@{}/bench", server.address)).err().unwrap();
    assert!(matches!(error, MembershipError::Refused { .. }), "{error}");
    println!("{error}");
}
