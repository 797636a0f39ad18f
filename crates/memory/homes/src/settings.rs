//! [`HomeSettings`]: the settings that only the protocols with homes have.

use latchwork_directory::{Conflicts, ReaderTakes, Rules};
use latchwork_engine::SettingValue;

/// How the home of ScaleStore handles a request that conflicts with the request before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Chaining {
    /// At once ([`Conflicts::Chain`]).
    #[default]
    On,
    /// In order ([`Conflicts::Queue`]).
    Fifo,
    /// By a refusal ([`Conflicts::Poll`]).
    Polling,
}

/// What a reader gets of a line that another node holds exclusively ([`ReaderTakes`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Taken {
    /// A copy.
    #[default]
    Copy,
    /// The line.
    Move,
}

/// Where the home of each line is ([`HomePlace`](crate::HomePlace)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HomeAt {
    /// At the agent of the memory node that has the line.
    #[default]
    Memory,
    /// At the compute node that has the memory node in its process.
    Compute,
}

latchwork_engine::setting_words! {
    HomeAt: Memory "memory", Compute "compute";
    Chaining: On "on", Fifo "fifo", Polling "polling";
    Taken: Copy "copy", Move "move";
}

/// A share of a whole, 1 to 100 percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Percent(u8);

impl Percent {
    /// The whole.
    pub const ALL: Percent = Percent(100);

    /// The percentage.
    pub fn get(self) -> u32 {
        self.0.into()
    }
}

impl SettingValue for Percent {
    fn parse(text: &str, _least: u64) -> Option<Self> {
        text.parse().ok().filter(|percent| (1..=100).contains(percent)).map(Percent)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }

    fn expected(_least: u64) -> String {
        "a whole number from 1 to 100".to_owned()
    }
}

latchwork_engine::settings! {
    /// Settings of the protocols with homes: of the agents, and of the rules of ScaleStore.
    ///
    /// None has a value to try, because other protocols refuse these settings. A hunt draws those
    /// of the rules besides, where the protocol has them.
    HomeSettings

    /// Where the homes are.
    home: HomeAt = HomeAt::Memory, "home"
        "Home of each line with gam and scalestore: memory, an agent at the memory node; compute, the compute node, which has a memory node in its process and allocates there first" [];
    /// The handlers of each agent. They share the agent's inbox.
    home_cores: u8 = 1, "home-cores" [1]
        "Cores (threads) of the agent at each memory node, with gam and scalestore" [];
    /// The share of each of its cores that an agent gets, in a simulation.
    home_share: Percent = Percent::ALL, "home-share"
        "Percent of each of these cores that the agent gets, in a simulation" [];
    /// What the home does with conflicting requests.
    chaining: Chaining = Chaining::On, "chaining"
        "Requests of scalestore that conflict: on, each asks the node before it; fifo, they queue at the home; polling, they are refused and come again (ScaleStore 3.4)" [];
    /// What a reader gets of a line that another node holds exclusively.
    reader_takes: Taken = Taken::Copy, "reader-takes"
        "What a reader of scalestore gets of a line that another node holds exclusively: copy, or move, which takes the line away" [];

    @unnamed
}

impl HomeSettings {
    /// The settings of the homes, which no rule of the protocol depends on.
    pub const OF_HOMES: [&str; 3] = ["home", "home-cores", "home-share"];

    /// The settings of agents, which homes at compute nodes do not have.
    pub const OF_AGENTS: [&str; 2] = ["home-cores", "home-share"];

    /// The rules with these settings. A home that resolves the conflicts itself has no choice.
    pub fn apply(&self, rules: Rules) -> Rules {
        if rules.conflicts == Conflicts::AtHome {
            return rules;
        }
        let conflicts = match self.chaining {
            Chaining::On => Conflicts::Chain,
            Chaining::Fifo => Conflicts::Queue,
            Chaining::Polling => Conflicts::Poll,
        };
        let reader_takes = match self.reader_takes {
            Taken::Copy => ReaderTakes::Copy,
            Taken::Move => ReaderTakes::Move,
        };
        Rules { conflicts, reader_takes, ..rules }
    }
}
