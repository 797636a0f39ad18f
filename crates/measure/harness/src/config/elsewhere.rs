//! Flags that single programs have: a file, or an environment, for several programs may set those
//! that only one of them knows. A program's own are not looked up here. [`missing`](super::missing)
//! keeps the list complete.

/// Programs that take configuration files, and their flags beyond those that all share.
pub(super) const PROGRAMS: &[(&str, &[&str])] = &[
    ("memnode", &["drain", "memory", "prefault"]),
    (
        "ycsb",
        &[
            "load-by",
            "operations",
            "properties",
            "property",
            "target",
            "time",
            "warmup",
            "workload",
        ],
    ),
    (
        "tpcc",
        &[
            "accept-loss",
            "cc",
            "check",
            "checkpoint",
            "count",
            "customers",
            "distribution-ratio",
            "early-release",
            "elder-after",
            "interval",
            "items",
            "only",
            "output",
            "partitioned",
            "places",
            "read-lease",
            "record",
            "retry-for",
            "roaming",
            "sync-us",
            "time",
            "ts-block",
            "ts-extension",
            "wait",
            "wal",
            "wal-dir",
            "warehouses",
            "warmup",
            "weight",
        ],
    ),
    (
        "microbench",
        &[
            "cache-share",
            "consistency",
            "item-size",
            "lines",
            "locality",
            "operations",
            "reads",
            "scale",
            "series-us",
            "sharing",
            "spatial",
            "theta",
            "time",
            "warmup",
            "write-batch",
            "write-deadline",
            "writer-nodes",
            "writes",
        ],
    ),
    ("memnode", &[]),
];

/// Whether some program has such a flag of its own.
pub(super) fn is_known(name: &str) -> bool {
    PROGRAMS.iter().any(|(_, flags)| flags.contains(&name))
}

/// Whether a program of this name takes configuration files.
pub(super) fn is_program(name: &str) -> bool {
    PROGRAMS.iter().any(|(program, _)| *program == name)
}
