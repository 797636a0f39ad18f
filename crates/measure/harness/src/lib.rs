//! The common parts of programs that measure, so that each program has only its own measurement.
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
//! [`start`] frames a whole program, from the command line to the exit status: flags from [files
//! and the environment](config) too, logs, and [signals](stop) that end a run early. [`main`] does
//! the same without files, environment, logs and signals.
//!
//! A program takes the flags into its own command line with `#[command(flatten)]`. Those of the
//! protocol are made from [`latchwork_engine::NodeSettings::TABLE`]: an entry of the table is a
//! setting of every program. A flag that few runs need is a setting, too: its help heading begins
//! with `Settings: `, [`config`] keeps it out of `--help` and takes it as `--set NAME=VALUE`.
//!
//! # What holds
//!
//! - A mistake on a command line gives one line that states valid input ([`parse::one_line`],
//!   [`FlagError`]).
//! - One body runs on either fabric. Shared memory calls the body on many threads, and a simulated
//!   world on one thread. So the body must be `Sync`, and its result `Send`. The future itself
//!   stays on its thread.
//! - In a simulated world time is virtual, and the same flags give the same result, bit by bit.
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
mod error;
mod flags;
mod fold;
mod limit;
mod log;
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

pub use cluster::RunCluster;
pub use cores::Cores;
pub use course::{Course, Plan, RunPart, Share, Warmup, Went};
pub use error::{AppError, FlagError};
pub use flags::{
    ClusterFlags, FabricChoice, FabricFlags, FabricKind, JoinChoice, JoinFlags, NicChoice,
    OutputFlags, RdmaFlags, SettingFlags, directory_to_write, output, write, write_file,
};
pub use fold::{COLUMNS, COLUMNS_RELAYED, folded};
pub use latchwork_files::Named;
pub use limit::Limit;
pub use loop_time::LoopTime;
pub use parse::MIB;
pub use phase::PhaseProgress;
pub use program::{NamesFiles, help, main, start};
pub use shared::{LEFT_OVERS, Shared};

/// The commit of this build, or `unknown`.
pub const GIT: &str = env!("LATCHWORK_GIT");
