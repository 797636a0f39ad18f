//! The flags and settings that not all programs have, by program. A file or an environment for
//! several programs may have names that only one of them knows, so the other programs must
//! recognise these names. A program finds its own flags elsewhere, in clap's description.
//! [`missing`](super::missing) checks that the list is complete.

/// A program that reads configuration files, with the flags and settings that not all programs
/// have.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// The flags.
    pub(super) flags: &'static [&'static str],
    pub(super) settings: &'static [&'static str],
}

/// All programs that read configuration files.
pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "memnode",
        flags: &["drain", "memory-mb"],
        settings: &["chip-memory", "prefault"],
    },
    Program {
        name: "ycsb",
        flags: &[
            "index",
            "load-by",
            "operations",
            "properties",
            "property",
            "status",
            "target",
            "time",
            "warmup",
            "workload",
        ],
        settings: &[
            "combine",
            "leaf-check",
            "leaf-write",
            "local-locks",
            "lock-memory",
            "locks",
            "node-size",
        ],
    },
    Program {
        name: "tpcc",
        flags: &[
            "cc",
            "distribution-ratio",
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
            "rows-per-line",
            "sync-us",
            "terminals",
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
    Program {
        name: "spatial",
        flags: &["load-by"],
        settings: &[
            "neighbours",
            "other-label",
            "other-latitude",
            "other-longitude",
            "side",
            "spot-skew",
            "spots",
            "spread",
            "step",
            "wander",
        ],
    },
];

/// Flags and settings that are gone, and what took their place.
const RENAMED: &[(&str, &str)] = &[("roaming", "--set terminals=any")];

/// What took the place of a flag or setting of this name that is gone.
pub(super) fn renamed(name: &str) -> Option<String> {
    let (_, new) = RENAMED.iter().find(|(old, _)| *old == name)?;
    Some(format!("there is no {name} any more; use {new}"))
}

impl Program {
    /// The program of this name.
    pub(super) fn named(name: &str) -> Option<&'static Program> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// Whether this program has a flag or setting of this name that not all programs have.
    pub(super) fn has(&self, name: &str) -> bool {
        self.flags.contains(&name) || self.settings.contains(&name)
    }
}

/// The programs with a flag of this name that not all programs have.
pub(super) fn with_flag(name: &str) -> Vec<&'static str> {
    let have = PROGRAMS.iter().filter(|program| program.flags.contains(&name));
    have.map(|program| program.name).collect()
}

/// Whether any program has a flag or setting of this name that not all programs have.
pub(super) fn is_known(name: &str) -> bool {
    PROGRAMS.iter().any(|program| program.has(name))
}

/// Whether a program of this name reads configuration files.
pub(super) fn is_program(name: &str) -> bool {
    Program::named(name).is_some()
}
