//! The outcome of a run: `run.json`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::args::Run;

/// The version number of the schema.
const SCHEMA: u32 = 1;

/// A run, successful or not.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) schema: u32,
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) fabric: String,
    pub(crate) on: String,
    pub(crate) memory_nodes: u16,
    pub(crate) compute_nodes: u16,
    /// The exit status: the status of the programs, 124 after the time limit, or 128 plus the
    /// number of a signal.
    pub(crate) status: u8,
    /// The error, in one line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) problem: Option<String>,
    /// Seconds from the start of the first process to the end of the last.
    pub(crate) elapsed_s: f64,
    /// In the order of their start.
    pub(crate) nodes: Vec<NodeOutcome>,
}

/// One process of the run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct NodeOutcome {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) host: Option<String>,
    pub(crate) command: String,
    /// `status 0`, `SIGKILL`, `never started`.
    pub(crate) ended: String,
}

impl Outcome {
    /// The outcome of this run, without its nodes.
    pub(crate) fn of(run: &Run, status: u8, problem: Option<String>, elapsed: Duration) -> Outcome {
        Outcome {
            schema: SCHEMA,
            program: run.program.clone(),
            arguments: run.arguments.clone(),
            fabric: run.fabric().name().to_owned(),
            on: run.on().name().to_owned(),
            memory_nodes: run.memory_nodes,
            compute_nodes: run.compute_nodes,
            status,
            problem,
            elapsed_s: elapsed.as_secs_f64(),
            nodes: Vec::new(),
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.status == 0 && self.problem.is_none()
    }
}
