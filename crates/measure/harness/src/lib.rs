//! What programs that measure share, so that each is only about what it measures.
//!
//! ```text
//!   ClusterFlags, FabricFlags, SettingFlags, OutputFlags     the command line, checked before anything starts
//!        │
//!   ClusterConfig, FabricChoice
//!        │
//!   Cluster ── run(body) ──► body(Member) on every worker, in real time or in virtual time
//!                                │
//!                             Course    warm-up, measured part, end: the same for all workers
//!                             Phase     how far each worker is, as progress shows it, and the first error
//!                                │
//!                             outcome   checks, latencies, counters: for people, for scripts, as a document
//! ```
//!
//! [`start`] is what stands around all of it, from the command line to the exit status: flags from
//! [files and the environment](config) too, logs, and [signals](stop) that end a run early.
//! [`main`] is the same without those.
//!
//! A program takes the flags into its own command line with `#[command(flatten)]`. Those of the
//! protocol are made from [`latchwork_engine::Settings::TABLE`]: a new setting is a flag of every
//! program.
//!
//! # What holds
//!
//! - What is wrong with a command line is one line that says what would do ([`parse::one_line`],
//!   [`FlagError`]).
//! - One body runs on either fabric: on shared memory it is called on many threads, in a simulated
//!   world on one, so it must be `Sync`, and what it returns `Send`; the future itself stays where
//!   it is.
//! - In a simulated world time is virtual, and the same flags give the same result, bit by bit.
//!
//! # Example
//!
//! ```
//! use latchwork_harness::{Cluster, FabricChoice};
//! use latchwork_cluster::ClusterConfig;
//! use latchwork_verbs_sim::NicProfile;
//!
//! let config = ClusterConfig { cache_bytes: 1 << 20, memory_bytes: 32 << 20, ..Default::default() };
//! let nic = NicProfile::named("connectx3").expect("a profile that comes along");
//! for fabric in [FabricChoice::Shm, FabricChoice::Sim(Box::new(nic))] {
//!     let cluster = Cluster::start(config.clone(), &fabric)?;
//!     let nodes = cluster.run(|member| async move { member.node })?;
//!     assert_eq!(nodes, [0, 1]);
//! }
//! # Ok::<(), latchwork_harness::AppError>(())
//! ```

#![forbid(unsafe_code)]

mod agree;
mod cluster;
pub mod config;
mod cores;
mod course;
mod flags;
mod fold;
mod lane;
mod limit;
mod log;
mod loss;
pub mod outcome;
pub mod parse;
mod phase;
mod program;
pub mod progress;
mod shared;
pub mod stop;
mod waiting;
mod watch;

pub use cluster::Cluster;
pub use cores::Cores;
pub use course::{Course, Part, Plan, Share, Warmup, Went};
pub use flags::{
    ClusterFlags, FabricChoice, FabricFlags, FabricKind, FlagError, JoinChoice, JoinFlags, MIB,
    NicChoice, OutputFlags, RdmaFlags, SettingFlags, directory_to_write, output, write, write_file,
};
pub use fold::{COLUMNS, COLUMNS_RELAYED, folded};
pub use latchwork_files::Named;
pub use limit::Limit;
pub use phase::Phase;
pub use program::{AppError, NamesFiles, help, main, start};
pub use shared::{LEFT_OVERS, Shared};

/// The commit that this was built from, or `unknown`.
pub const GIT: &str = env!("LATCHWORK_GIT");
