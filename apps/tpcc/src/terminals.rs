//! Terminals: how many there are, which worker has them, and where their homes are.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use clap::ValueEnum;
use latchwork_workload::tpcc::{DISTRICTS, Home};

use crate::shares::Shares;

/// Terminals in each warehouse of runs with waits (clause 4.2.2).
const OF_WAREHOUSE: u32 = DISTRICTS as u32;

/// The mean time from one transaction of a waiting terminal to its next, in the standard's mix and
/// with response times of zero: 2,099 s for a hundred (clause 5.2.5).
pub(crate) const CYCLE: Duration = Duration::from_secs(21);

/// Where the transactions of a compute node are at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HomeRule {
    /// In the warehouses of the node.
    Node,
    /// Each in any warehouse.
    Any,
    /// In a district for each terminal; the terminals of a warehouse are spread over all nodes.
    Standard,
}

impl HomeRule {
    pub(crate) fn name(self) -> &'static str {
        match self {
            HomeRule::Node => "node",
            HomeRule::Any => "any",
            HomeRule::Standard => "standard",
        }
    }

    /// As in "2 warehouses, .."
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            HomeRule::Node => "each node at home in its own",
            HomeRule::Any => "each transaction at home in any",
            HomeRule::Standard => "terminals of each at all nodes",
        }
    }
}

/// All terminals of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminals {
    pub(crate) rule: HomeRule,
    pub(crate) warehouses: u32,
    /// The warehouses of each compute node, if they are divided.
    pub(crate) shares: Option<Shares>,
    pub(crate) nodes: u32,
    /// Workers of each compute node.
    pub(crate) workers: u32,
    /// Terminals of each worker, if the terminals do not wait. With waits there are ten in each
    /// warehouse.
    pub(crate) each: Option<u32>,
}

/// The part `index` of `items` in `parts` parts that differ by one item at most.
fn part(items: u32, parts: u32, index: u32) -> Range<u32> {
    let bound = |at: u32| (u64::from(at) * u64::from(items) / u64::from(parts.max(1))) as u32;
    bound(index)..bound(index + 1)
}

/// The district that is the home of terminal `number` of a warehouse, from 0.
fn district(warehouse: u32, number: u32) -> Home {
    Home::District { warehouse, district: (number % OF_WAREHOUSE) as u8 + 1 }
}

impl Terminals {
    /// Whether the terminals wait.
    pub(crate) fn wait(&self) -> bool {
        self.each.is_none()
    }

    /// The most terminals that a worker has.
    pub(crate) fn most(&self) -> u32 {
        let all = 0..self.nodes * self.workers;
        all.map(|worker| self.of_worker(worker).len() as u32).max().unwrap_or(1).max(1)
    }

    /// The terminals of a worker, counted over all compute nodes: their numbers among all
    /// terminals, and their homes.
    pub(crate) fn of_worker(&self, worker: u32) -> Vec<(u32, Home)> {
        let (node, worker) = (worker / self.workers, worker % self.workers);
        match self.rule {
            HomeRule::Any => self.anywhere(node * self.workers + worker),
            HomeRule::Node => self.at_own(node, worker),
            HomeRule::Standard => self.spread(node, worker),
        }
    }

    /// How long terminal `number` waits before its first transaction. The terminals begin in the
    /// course of one cycle, because they would otherwise ask all at the same time.
    pub(crate) fn begins_after(&self, number: u32) -> Duration {
        match self.each {
            Some(_) => Duration::ZERO,
            None => CYCLE * number / self.count(),
        }
    }

    /// The number of all terminals.
    fn count(&self) -> u32 {
        match self.each {
            Some(each) => self.nodes * self.workers * each,
            None => OF_WAREHOUSE * self.warehouses,
        }
    }

    fn anywhere(&self, worker: u32) -> Vec<(u32, Home)> {
        let mine = part(self.count(), self.nodes * self.workers, worker);
        mine.map(|number| (number, Home::Anywhere(1..=self.warehouses))).collect()
    }

    /// The warehouses of a compute node, and which of the nodes it is that have the same, and how
    /// many these are.
    fn own(&self, node: u32) -> (RangeInclusive<u32>, u32, u32) {
        if let Some(Shares { warehouses: shard, .. }) = self.shares {
            let from = node * shard + 1;
            return (from..=self.warehouses.min(from + shard - 1), 0, 1);
        }
        if self.warehouses >= self.nodes {
            let Range { start, end } = part(self.warehouses, self.nodes, node);
            return (start + 1..=end, 0, 1);
        }
        let warehouse = |node: u32| node * self.warehouses / self.nodes;
        let is_same = |other: &u32| warehouse(*other) == warehouse(node);
        let before = (0..node).filter(is_same).count() as u32;
        let all = (0..self.nodes).filter(is_same).count() as u32;
        (warehouse(node) + 1..=warehouse(node) + 1, before, all)
    }

    fn at_own(&self, node: u32, worker: u32) -> Vec<(u32, Home)> {
        let (own, rank, peers) = self.own(node);
        let (first, count) = (*own.start(), own.clone().count() as u32);
        if let Some(each) = self.each {
            let of_node = self.workers * each;
            let mine = worker * each..(worker + 1) * each;
            let home = |k: u32| Home::of_terminal(rank * of_node + k, peers * of_node, own.clone());
            return mine.map(|k| (node * of_node + k, home(k))).collect();
        }
        let of_node = part(OF_WAREHOUSE * count, peers, rank);
        let mine = part(of_node.end - of_node.start, self.workers, worker);
        let terminal = |k: u32| {
            let number = of_node.start + k;
            let home = district(first + number / OF_WAREHOUSE, number);
            ((first - 1) * OF_WAREHOUSE + number, home)
        };
        mine.map(terminal).collect()
    }

    /// Deals one terminal after the other to the nodes in turn, so that those of one warehouse are
    /// at as many nodes as can be.
    fn spread(&self, node: u32, worker: u32) -> Vec<(u32, Home)> {
        let (all, warehouses) = (self.count(), self.warehouses);
        let home = |number: u32| {
            if all < warehouses {
                return Home::of_terminal(number, all, 1..=warehouses);
            }
            let about = (u64::from(number) * u64::from(warehouses) / u64::from(all)) as u32;
            let is_next = part(all, warehouses, about).end <= number;
            let warehouse = about + u32::from(is_next);
            district(warehouse + 1, number - part(all, warehouses, warehouse).start)
        };
        let mine = (worker * self.nodes + node..all).step_by((self.nodes * self.workers) as usize);
        mine.map(|number| (number, home(number))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn terminals(rule: HomeRule, warehouses: u32, nodes: u32, workers: u32) -> Terminals {
        Terminals { rule, warehouses, shares: None, nodes, workers, each: None }
    }

    fn all(terminals: &Terminals) -> Vec<(u32, u32, Home)> {
        let workers = 0..terminals.nodes * terminals.workers;
        let of = |worker| {
            let mine = terminals.of_worker(worker).into_iter();
            mine.map(move |(number, home)| (worker / terminals.workers, number, home))
        };
        workers.flat_map(of).collect()
    }

    #[test]
    fn waiting_terminals_are_ten_in_each_warehouse_whatever_the_rule_and_the_sizes() {
        for (warehouses, nodes, workers) in
            [(1_u32, 1, 1), (1, 3, 2), (2, 3, 2), (3, 2, 2), (5, 2, 3), (7, 4, 1), (8, 4, 3)]
        {
            let shard = warehouses.div_ceil(nodes);
            let divided =
                (shard * (nodes - 1) < warehouses).then_some(Shares { warehouses: shard, nodes });
            for (rule, shares) in
                [(HomeRule::Node, None), (HomeRule::Node, divided), (HomeRule::Standard, None)]
            {
                let terminals = Terminals { shares, ..terminals(rule, warehouses, nodes, workers) };
                let all = all(&terminals);
                let text = format!("{terminals:?}");
                let numbers: BTreeSet<_> = all.iter().map(|(_, number, _)| *number).collect();
                assert_eq!(numbers, (0..10 * warehouses).collect(), "{text}");
                let homes: BTreeSet<_> = all.iter().map(|(.., home)| format!("{home:?}")).collect();
                assert_eq!(homes.len() as u32, 10 * warehouses, "{text}: a district of its own");
                assert!(terminals.most() >= (10 * warehouses).div_ceil(nodes * workers), "{text}");
            }
        }
    }

    #[test]
    fn waiting_terminals_begin_in_the_course_of_one_cycle() {
        let waiting = terminals(HomeRule::Node, 3, 2, 2);
        let starts = (0..30).map(|number| waiting.begins_after(number));
        assert_eq!(starts.clone().next(), Some(Duration::ZERO));
        assert!(starts.clone().is_sorted_by(|one, next| one < next));
        assert!(starts.max() < Some(CYCLE));
        let others = Terminals { each: Some(1), ..waiting };
        assert_eq!(others.begins_after(2), Duration::ZERO);
    }

    #[test]
    fn nodes_are_at_home_in_their_own_warehouses_or_in_all() {
        let nodes_of = |rule, each| {
            let all = all(&Terminals { each: Some(each), ..terminals(rule, 4, 2, 4) });
            let mut nodes: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
            for (node, _, home) in all {
                let among = match home {
                    Home::District { warehouse, .. } => warehouse..=warehouse,
                    Home::Anywhere(among) => among,
                };
                for warehouse in among {
                    nodes.entry(warehouse).or_default().insert(node);
                }
            }
            nodes.into_values().map(|nodes| nodes.into_iter().collect()).collect::<Vec<Vec<u32>>>()
        };
        for each in [1, 3, 8] {
            assert_eq!(nodes_of(HomeRule::Node, each), [[0], [0], [1], [1]], "{each}");
            assert_eq!(nodes_of(HomeRule::Standard, each), [[0, 1]; 4], "{each}");
            assert_eq!(nodes_of(HomeRule::Any, each), [[0, 1]; 4], "{each}");
        }
    }

    #[test]
    fn numbers_are_those_of_all_terminals() {
        for rule in [HomeRule::Node, HomeRule::Any, HomeRule::Standard] {
            for warehouses in [1, 3, 4, 40] {
                let terminals = Terminals { each: Some(2), ..terminals(rule, warehouses, 2, 3) };
                let numbers: BTreeSet<_> =
                    all(&terminals).into_iter().map(|(_, number, _)| number).collect();
                assert_eq!(numbers, (0..12).collect(), "{rule:?} {warehouses}");
                assert_eq!(terminals.most(), 2);
            }
        }
    }
}
