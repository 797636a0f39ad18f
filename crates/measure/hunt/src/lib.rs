//! Whole worlds from one seed. A world has a scenario, a simulated cluster, a workload, faults, and
//! checks of all of it.
//!
//! ```text
//!   seed ──► Scenario ──► run ─┬─► Simulated cluster   the code that runs in production
//!             (TOML)           ├─► workload            every call and its answer recorded
//!                              ├─► faults              until they stop
//!                              └─► checks              after every event, and at the end
//!                                     │
//!                                     ▼
//!                                  WorldReport: event hash, counts, the first failure
//! ```
//!
//! The [`Scenario`] and the code alone decide a world: the same scenario gives the same event hash.
//! A panic inside a world is a failure of the report. The report's [`WorldFailure`] says what went
//! wrong in the world.
//!
//! ```
//! use latchwork_hunt::{SwarmChoice, Scenario, run};
//!
//! let scenario = Scenario::from_seed(7, &SwarmChoice::default());
//! assert_eq!(Scenario::parse(&scenario.to_toml()), Ok(scenario.clone()));
//! let report = run(&scenario);
//! assert!(report.failure.is_none(), "{report:?}");
//! assert_eq!(run(&scenario).hash, report.hash);
//! ```

#![forbid(unsafe_code)]

mod checks;
mod diagram;
mod hunt;
mod report;
pub mod scenario;
mod shrink;
mod threads;
pub mod trace;
mod workloads;
mod world;

pub use diagram::Diagram;
pub use hunt::{Hunt, Totals};
pub use report::{NodeFaults, WorldCheck, WorldFailure, WorldReport};
pub use scenario::{
    Checks, FaultPlan, Network, Scenario, ScenarioError, SeededBug, SwarmChoice, Vary, Workload,
};
pub use shrink::{Shrinker, Shrunk};
pub use threads::run_on_threads;
pub use trace::Trace;
pub use world::{run, run_traced};
