//! Forwarding and hand-over (SELCC 4.4.1).

use latchwork_cluster::Protocol;

use crate::switches::load::{ALL, anywhere, writes};

#[test]
fn without_forwarding_lines_go_by_way_of_memory() {
    let (time, on) = writes(Protocol::Selcc, &[], anywhere);
    let (longer, off) = writes(Protocol::Selcc, &[("forwarding", "off")], anywhere);
    assert!(on.forwards > ALL / 2 && on.handovers == on.forwards, "{on:?}");
    assert_eq!((off.forwards, off.handovers), (0, 0));
    assert!(off.bytes_written_back > on.bytes_written_back, "{off:?}");
    assert!(off.verbs_cas > on.verbs_cas * 5 / 4, "who asked tries again: {off:?}");
    assert!(time < longer, "{time:?}, and {longer:?} without");
}
