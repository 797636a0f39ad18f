//! Flags and settings that single programs have: a file, or an environment, for several programs
//! may set those that only one of them knows. A program's own are not looked up here.
//! [`missing`](super::missing) keeps the list complete.

/// A program that takes configuration files, and what it has beyond what all share.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Also those that have another name now.
    pub(super) flags: &'static [&'static str],
    pub(super) settings: &'static [&'static str],
}

/// All programs that take configuration files.
pub(super) const PROGRAMS: &[Program] = &[
    Program { name: "memnode", flags: &["drain", "memory", "memory-mb"], settings: &["prefault"] },
    Program {
        name: "ycsb",
        flags: &[
            "load-by",
            "operations",
            "properties",
            "property",
            "target",
            "time",
            "warmup",
            "workload",
        ],
        settings: &[],
    },
    Program {
        name: "tpcc",
        flags: &[
            "cc",
            "count",
            "distribution-ratio",
            "only",
            "operations",
            "partitioned",
            "record",
            "time",
            "wal",
            "wal-dir",
            "warehouses",
            "warmup",
            "weight",
        ],
        settings: &[
            "accept-loss",
            "check",
            "checkpoint",
            "customers",
            "early-release",
            "elder-after",
            "interval",
            "items",
            "output",
            "places",
            "read-lease",
            "retry-for",
            "roaming",
            "sync-us",
            "ts-block",
            "ts-extension",
            "wait",
        ],
    },
    Program {
        name: "microbench",
        flags: &[
            "consistency",
            "item-size",
            "lines",
            "operations",
            "reads",
            "sharing",
            "theta",
            "time",
            "warmup",
            "writes",
        ],
        settings: &[
            "cache-share",
            "locality",
            "scale",
            "series-us",
            "spatial",
            "write-batch",
            "write-deadline",
            "writer-nodes",
        ],
    },
];

impl Program {
    /// The program of this name.
    pub(super) fn named(name: &str) -> Option<&'static Program> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// Whether this program has such a flag or setting of its own.
    pub(super) fn has(&self, name: &str) -> bool {
        self.flags.contains(&name) || self.settings.contains(&name)
    }
}

/// Whether some program has such a flag or setting of its own.
pub(super) fn is_known(name: &str) -> bool {
    PROGRAMS.iter().any(|program| program.has(name))
}

/// Whether a program of this name takes configuration files.
pub(super) fn is_program(name: &str) -> bool {
    Program::named(name).is_some()
}
