//! Messages wake parked workers, in one process and across two.

use crate::common::{Cluster, Mode};

latchwork_verbs::parking_tests!(|inbox_capacity| {
    [Mode::Together, Mode::Apart].map(|mode| Cluster::with_inboxes(mode, inbox_capacity))
});
