//! A worker that may not park dozes until its replies come, on a core that other threads need.

use std::time::Duration;

use latchwork_verbs::{Endpoint as _, WorkRequest};

use crate::common::{Cluster, MEMORY, Mode, finish, node};

const PATIENCE: Duration = Duration::from_secs(60);
/// The time of one doze: much longer than a reply takes. A whole number of seconds, because an
/// endpoint once used only the part of a second.
const NAP: Duration = Duration::from_secs(1);

#[test]
fn a_nap_ends_with_a_reply_and_there_is_none_without_batches_in_flight() {
    let cluster = Cluster::new(Mode::Apart);
    let mut endpoint = cluster.of(node(1)).endpoint(node(1)).unwrap();
    let add = [WorkRequest::FetchAdd { remote: 0, add: 1 }];
    endpoint.post(MEMORY, 0, &add).unwrap();
    assert!(finish(&mut endpoint, PATIENCE)[0].result.is_ok());
    assert!(!endpoint.doze(NAP), "there is nothing to sleep on");
    for token in 1..=50 {
        endpoint.post(MEMORY, token, &add).unwrap();
        endpoint.ring();
        assert!(!endpoint.may_park());
        // The reply ends the first doze. A connection may have other bytes now and then.
        let mut naps = 0;
        let mut completed = None;
        while completed.is_none() {
            assert!(endpoint.doze(NAP), "it waits for its connection");
            naps += 1;
            endpoint.poll(&mut |completion| completed = Some(completion));
            assert!(naps < 50, "naps end, and no reply is there");
        }
        assert_eq!(completed.unwrap().token, token);
    }
}
