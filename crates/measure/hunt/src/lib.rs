//! Runs whole worlds, each from one seed. A *world* is a simulated cluster in virtual time, with a
//! workload, faults, and checks. A [`Scenario`] describes it.
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
//! Only the scenario and the code decide a world: the same scenario gives the same event hash. The
//! first failure of a world is in its report, as a [`WorldFailure`]. A panic inside a world is a
//! failure, too.
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
    Checks, FaultPlan, Network, Scenario, ScenarioError, SeededBug, SwarmChoice, TreeIndex, Vary,
    Workload, WorkloadKind,
};
pub use shrink::{Shrinker, Shrunk};
pub use threads::run_on_threads;
pub use trace::Trace;
pub use world::{run, run_traced};
