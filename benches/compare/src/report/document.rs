//! The result document.

use serde_json::{Value, json};

use crate::args::Args;
use crate::report::tables::versions;
use crate::report::targets;
use crate::results::Results;

/// All measurements, as JSON.
pub(crate) fn document(args: &Args, results: &Results) -> String {
    let targets = targets::targets(results);
    let targets: Vec<Value> = targets.iter().map(targets::Target::document).collect();
    let document = json!({
        "schema": 1,
        "app": "compare",
        "version": env!("CARGO_PKG_VERSION"),
        "machine": results.machine,
        "config": {
            "keys": args.keys,
            "repeats": args.repeats,
            "load_repeats": args.load_repeats(),
            "time_ms": args.time_ms,
            "line_size": args.line_size,
            "seed": args.seed,
        },
        "crates": versions(),
        "units": {
            "load": "keys/s", "read": "operations/s", "update": "operations/s",
            "scan": "entries/s", "interleaved": "operations/s", "memory": "bytes/key",
        },
        "cells": results.cells,
        "targets": targets,
    });
    format!("{document:#}")
}
