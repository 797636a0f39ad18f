//! [`Kind`]: what is checked. [`Finding`]: one violation of a rule.

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Files of one crate that import each other.
    Circles,
    /// Dependencies of a crate that run up or sideways in the layers.
    Arrows,
    /// Comment lines beyond 100 columns.
    Comments,
    /// Words that the project does not use.
    Words,
    /// Groups of imports out of order.
    Imports,
    /// Public items that nothing outside their crate names.
    Unused,
    /// Flags with two names, and programs with more than 30 of them.
    Flags,
    /// Pages that are mostly tables.
    Tables,
    /// A public type name in more than one crate.
    Names,
    /// More than one test program in a package.
    Suites,
}

impl Kind {
    pub(crate) const ALL: [Kind; 10] = [
        Kind::Circles,
        Kind::Arrows,
        Kind::Comments,
        Kind::Words,
        Kind::Imports,
        Kind::Unused,
        Kind::Flags,
        Kind::Tables,
        Kind::Names,
        Kind::Suites,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Circles => "circles",
            Kind::Arrows => "arrows",
            Kind::Comments => "comments",
            Kind::Words => "words",
            Kind::Imports => "imports",
            Kind::Unused => "unused",
            Kind::Flags => "flags",
            Kind::Tables => "tables",
            Kind::Names => "names",
            Kind::Suites => "suites",
        }
    }

    /// Whether a kept line has the number of tolerated findings with its key.
    pub(crate) fn is_counted(self) -> bool {
        matches!(self, Kind::Comments | Kind::Words | Kind::Flags)
    }
}

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: usize,
    /// The key by which a kept line names the finding.
    pub(crate) key: String,
    /// The number for which the finding counts, in kinds that count.
    pub(crate) count: usize,
    /// What is wrong, and what to do.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, key: impl Into<String>, what: String) -> Finding {
        Finding { path: path.to_owned(), line, key: key.into(), count: 1, what }
    }
}
