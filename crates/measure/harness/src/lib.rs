//! The common parts of all programs that measure: flags, configuration, logs, signals, a cluster,
//! phases, and the output of results.
//!
//! ```text
//!   ClusterFlags, FabricFlags, SettingFlags, OutputFlags     the command line, checked before anything starts
//!        │
//!   ClusterConfig, FabricChoice
//!        │
//!   RunCluster ── run(body) ──► body(Member) on every worker, in real time or in virtual time
//!                                │
//!                             Course    warm-up, measured part, end: the same for all workers
//!                             Phase     how far each worker is, as progress shows it, and the first error
//!                                │
//!                             outcome   checks, latencies, counters: for people, for scripts, as a document
//! ```
//!
//! [`start`] runs a whole program, from the command line to the exit status. [`start`] reads flags
//! also from [a file and the environment](config), installs logs, and handles [signals](stop) that
//! end a run early. [`main`] does the same without file, environment, logs and signals.
//!
//! A program includes the flags in its own command line with `#[command(flatten)]`. A *setting* is
//! a flag that few runs need. Its help heading begins with `Settings: `. `--help` does not show a
//! setting, and `--set NAME=VALUE` sets it. Each entry of
//! [`latchwork_cluster::ClusterConfig::settings`] becomes a setting of every program.
//!
//! # Invariants
//!
//! - The error for a wrong command line is one line that states valid input ([`parse::one_line`],
//!   [`FlagError`]).
//! - One body runs on every fabric. A cluster on real threads calls the body on many threads, and a
//!   simulated world calls it on one thread. So the body must be `Sync`, and its result `Send`. A
//!   future stays on its thread.
//! - In a simulated world time is virtual, and the same flags give the same event hash.
//!
//! # Example
//!
//! ```
//! use latchwork_harness::{RunCluster, FabricChoice};
//! use latchwork_cluster::ClusterConfig;
//! use latchwork_verbs_sim::NicProfile;
//!
//! let config = ClusterConfig { cache_bytes: 1 << 20, memory_bytes: 32 << 20, ..Default::default() };
//! let nic = NicProfile::named("connectx3").expect("a profile that comes along");
//! for fabric in [FabricChoice::Shm, FabricChoice::Sim(Box::new(nic))] {
//!     let cluster = RunCluster::start(config.clone(), &fabric)?;
//!     let nodes = cluster.run(|member| async move { member.node })?;
//!     assert_eq!(nodes, [0, 1]);
//! }
//! # Ok::<(), latchwork_harness::AppError>(())
//! ```

#![forbid(unsafe_code)]

mod agree;
mod cluster;
pub mod config;
mod console;
mod cores;
mod course;
pub mod driver;
mod error;
mod flags;
mod fold;
mod intervals;
mod limit;
mod log;
mod long_accesses;
mod loop_time;
mod loss;
mod name_slot;
mod numbers;
pub mod outcome;
pub mod parse;
mod phase;
mod program;
pub mod progress;
mod shared;
mod signal;
pub mod stop;
mod waiting;
mod watch;

pub use cluster::{LivingWorkers, RunCluster};
pub use cores::Cores;
pub use course::{Course, Plan, RunPart, Share, Warmup, Went};
pub use error::{AppError, FlagError};
pub use flags::{
    ClusterFlags, FabricChoice, FabricFlags, FabricKind, JoinChoice, JoinFlags, NicChoice,
    OutputFlags, RdmaFlags, SettingFlags, directory_to_write, output, write, write_file,
};
pub use fold::{COLUMNS, COLUMNS_RELAYED, folded, folded_to};
pub use intervals::{Interval, Intervals};
pub use latchwork_files::Named;
pub use limit::Limit;
pub use long_accesses::LongAccesses;
pub use loop_time::LoopTime;
pub use parse::MIB;
pub use phase::PhaseProgress;
pub use program::{NamesFiles, help, main, start};
pub use shared::{Shared, no_room_hint};

/// The commit of this build, or `unknown`.
pub const GIT: &str = env!("LATCHWORK_GIT");
