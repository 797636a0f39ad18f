//! Two nodes, each with a thread that polls, take a line from each other.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_benches::turns::by_turns;
use latchwork_benches::{cluster, lines};
use latchwork_cluster::{ClusterConfig, Embedded};
use latchwork_verbs::GlobalAddr;

use crate::measure::Measure;

pub(crate) const HAND_OVER: &str = "hand-over, writer to writer";

struct Two {
    cluster: Embedded,
    line: GlobalAddr,
}

pub(crate) fn all() -> Vec<Measure> {
    let two = Rc::new(OnceCell::new());
    let mut all = Vec::new();
    let mut add = |name: &str, second_writes: bool, of: fn([Duration; 2]) -> Duration| {
        let two = two.clone();
        all.push(Measure::between(name, move |rounds| {
            let Two { cluster, line } = two.get_or_init(Two::new);
            of(by_turns(cluster, *line, rounds, second_writes))
        }));
    };
    // One round has two hand-overs.
    add(HAND_OVER, true, |times| times.iter().sum::<Duration>() / 2);
    add("reader downgrades a writer", false, |times| times[1]);
    add("writer over one sharer", false, |times| times[0]);
    all
}

impl Two {
    fn new() -> Two {
        let cluster = cluster(ClusterConfig {
            memory_bytes: 64 << 20,
            cache_bytes: 8 << 20,
            ..ClusterConfig::default()
        });
        let line = lines(&cluster, 1)[0];
        Two { cluster, line }
    }
}
