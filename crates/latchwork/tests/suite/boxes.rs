//! R-trees on a cluster: what their queries cost.

use std::ops::ControlFlow;
use std::time::Duration;

use latchwork::cluster::Simulated;
use latchwork::rtree::{Entry, RTree, RTreeConfig, RTreeError, Rect};
use latchwork::verbs_sim::SimConfig;

use crate::config;

const LIMIT: Duration = Duration::from_secs(60);

/// The verbs and messages of a node so far.
fn traffic(member: &latchwork::cluster::Member) -> u64 {
    let counters = member.memory.node().counters();
    let counts =
        counters.entries(&[]).filter(|(name, _)| name.starts_with("verbs") || *name == "messages");
    counts.map(|(_, count)| count).sum()
}

#[test]
fn queries_of_a_cached_r_tree_execute_no_verb() {
    let cluster = Simulated::start(config(1, 1, 5), SimConfig::default()).expect("a cluster");
    let done = cluster.run(LIMIT, |member| async move {
        let config = RTreeConfig { payload_len: 8, ..RTreeConfig::DEFAULT };
        let tree = RTree::<_, 2>::create(member.memory.clone(), config).await?;
        for id in 0..2000_u64 {
            let at = [(id % 50) as f64, (id / 50) as f64];
            tree.insert(&Rect::point(at)?, id, &id.to_le_bytes()).await?;
        }
        for id in 0..200_u64 {
            let (from, to) = ([id as f64 % 50.0, (id / 50) as f64], [id as f64, 90.0]);
            let (from, to) = (Rect::point(from)?, Rect::point(to)?);
            assert!(tree.update(&from, id, &to, &id.to_le_bytes()).await?);
        }
        assert_eq!(tree.count(&Rect::EVERYTHING).await?, 2000);
        let before = traffic(&member);
        assert!(before > 0, "the counters count");
        let mut found = 0;
        for step in 0..30 {
            let window = Rect::new([step as f64, 3.0], [step as f64 + 9.0, 12.0])?;
            let visit = |_: Entry<'_, 2>| {
                found += 1;
                ControlFlow::Continue(())
            };
            tree.intersecting(&window, visit).await?;
            tree.inside(&window, |_| ControlFlow::Continue(())).await?;
            tree.containing(&Rect::point(window.low())?, |_| ControlFlow::Continue(())).await?;
            tree.nearest(window.low(), 5).await?;
        }
        tree.join(&tree, 0.0, |_, _| ControlFlow::Continue(())).await?;
        assert!(found > 1000, "{found} entries");
        Ok::<_, RTreeError>(traffic(&member) - before)
    });
    let verbs = done.expect("a world that ends in order").remove(0).expect("memory is in order");
    assert_eq!(verbs, 0, "queries of cached pages execute verbs or send messages");
}
