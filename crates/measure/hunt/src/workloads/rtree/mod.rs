//! An R-tree that all nodes share: boxes that come, move and go, and queries of all kinds. Every
//! task inserts boxes of its own, and moves and removes any.
//!
//! A query counts as one read of each box. A box that is in the window throughout the query must be
//! in the answer, also if it moves. A box that is there at no instant of the query must not. The
//! query itself is no single instant.
//!
//! The tree takes the same box any number of times. So each box has one task that inserts it, and
//! only if the task knows that the box is not there.

mod model;
mod operations;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use latchwork_cluster::Worker;
use latchwork_rtree::{RTree, RTreeConfig, RTreeRules};

use super::client::Client;
use super::indexes::{IndexLoad, Indexed};
use crate::scenario::{RtreeLoad, Scenario, SeededBug};
use model::{BoxModel, D, Place};

/// Maximum number of waits for a line in one operation. This is an estimate: queries read every
/// page.
const ACCESSES_MAX: u32 = 400;

/// The workload.
pub(super) struct Boxes {
    load: RtreeLoad,
    tasks: u64,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Change,
    ChangeAny,
    Query,
    QueryInside,
    Order,
    LookAtAll,
}

/// Of a hundred operations, the number of each kind. The rest looks at all boxes.
const SHARES: [(u64, Kind); 5] = [
    (50, Kind::Change),
    (12, Kind::ChangeAny),
    (23, Kind::Query),
    (5, Kind::QueryInside),
    (5, Kind::Order),
];

/// What the owner of a box knows of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Belief {
    Absent,
    /// There, unless another task has moved or removed it.
    At(Place),
    /// An operation was dropped or has failed, or another task was faster.
    Unknown,
}

/// Boxes as a query found them. A box that was removed and inserted again during the query may be
/// found twice, from both inserts.
type Found = BTreeSet<Place>;

/// What a task knows.
pub(super) struct Task {
    /// The boxes that only this task inserts.
    boxes: RefCell<BTreeMap<u64, Belief>>,
    /// The last places of boxes in answers of queries.
    shown: RefCell<BTreeMap<u64, Place>>,
    /// The number of the last insert or move. Each has its own number.
    changes: Cell<u64>,
}

impl Boxes {
    pub(super) fn new(scenario: &Scenario, load: &RtreeLoad) -> Indexed<Boxes> {
        let tasks = scenario.tasks_in_all() as u64;
        Indexed::new(Boxes { load: load.clone(), tasks })
    }
}

impl IndexLoad for Boxes {
    const NAME: &'static str = "the R-tree";
    const WALK_MAX: u32 = ACCESSES_MAX;
    type Index = RTree<Worker, D>;
    type Model = BoxModel;
    type Value = Place;
    type Task = Task;
    type Operation = (Kind, u64);
    type Entry = Place;

    fn config(client: &Client<Indexed<Self>>) -> RTreeConfig {
        let most = client.load().load.entries_per_page;
        let most = (most > 0).then_some(most as u16);
        RTreeConfig {
            payload_len: 16,
            max_entries_leaf: most,
            max_entries_inner: most,
            rules: rules(client.shared.scenario.plant),
        }
    }

    fn begin(client: &Client<Indexed<Self>>) -> Result<Task, String> {
        let (number, tasks) = (u64::from(client.process.number), client.load().tasks);
        let own = (0..client.load().load.boxes).filter(|n| n % tasks == (number - 1) % tasks);
        let boxes = RefCell::new(own.map(|n| (n, Belief::Absent)).collect());
        Ok(Task { boxes, shown: RefCell::default(), changes: Cell::new(number << 32) })
    }

    fn draw(client: &Client<Indexed<Self>>) -> (Kind, u64) {
        let any = client.below(client.load().load.boxes);
        (client.kind(&SHARES, Kind::LookAtAll), any)
    }

    async fn apply(client: &Client<Indexed<Self>>, (kind, any): (Kind, u64)) {
        match kind {
            Kind::Change => _ = client.change().await,
            Kind::ChangeAny => _ = client.change_any(any).await,
            Kind::Query => {
                let window = client.window();
                client.boxes("query", client.query(window, false)).await;
            }
            Kind::QueryInside => {
                let window = client.window();
                client.boxes("query the inside", client.query(window, true)).await;
            }
            Kind::Order => _ = client.boxes("order", client.nearest()).await,
            Kind::LookAtAll => _ = client.boxes("look at", client.everything()).await,
        }
    }

    async fn look(client: &Client<Indexed<Self>>) {
        if let Some(all) = client.boxes("look at", client.everything()).await {
            client.record(|record| record.ends.push(all.into_iter().collect()));
        }
    }

    fn model() -> BoxModel {
        BoxModel
    }
}

/// The rules of the tree, without the one that a seeded bug turns off.
fn rules(plant: Option<SeededBug>) -> RTreeRules {
    let all = RTreeRules::ALL;
    match plant {
        Some(SeededBug::SplitsUncounted) => RTreeRules { splits_count: false, ..all },
        Some(SeededBug::StopsBeforeLast) => RTreeRules { queries_read_last: false, ..all },
        Some(SeededBug::ParentsStaySmall) => RTreeRules { parents_grow: false, ..all },
        Some(SeededBug::ShrinksUnderInserts) => RTreeRules { shrinks_give_way: false, ..all },
        Some(SeededBug::LeavesNoTrace) => RTreeRules { departed_stay: false, ..all },
        _ => all,
    }
}
