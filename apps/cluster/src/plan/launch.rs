//! [`Plan`]: the processes of a run and their commands.
//!
//! The words of a command may contain placeholders for values that are known only at the start:
//! [`SCRATCH`] and [`HOLDER`].

use std::path::PathBuf;

use crate::shell;

/// The placeholder for the directory of an attended process's files.
pub(crate) const SCRATCH: &str = "{scratch}";
/// The placeholder for the id of the process that holds the network namespaces.
pub(crate) const HOLDER: &str = "{holder}";

/// etcd's line when it is ready.
const ETCD_READY: &str = "serving client traffic";
/// A memory node's text when it is ready.
const MEMNODE_READY: &str = " serves ";

/// The part of a process in the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// etcd.
    Store,
    Memory,
    /// A process that ends by itself, and whose results are the results of the run.
    Program,
}

/// A process to start.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Its name: `M0`, `C1`, `store`.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The machine on which it runs, if not this one.
    pub(crate) host: Option<String>,
    /// The words that enter the network namespace, before the command.
    pub(crate) enter: Vec<String>,
    pub(crate) command: Vec<String>,
    /// The text on its standard error after which the next process may start.
    pub(crate) ready: Option<&'static str>,
    /// Whether `cluster attend` runs the process on another machine. Then its standard input
    /// carries signals, and its standard output is an archive.
    pub(crate) is_attended: bool,
    /// Whether its standard output is the archive of a whole run (in the virtual machine).
    pub(crate) is_run: bool,
}

impl Launch {
    pub(super) fn here(name: String, role: Role, command: Vec<String>) -> Launch {
        let ready = match role {
            Role::Store => Some(ETCD_READY),
            Role::Memory => Some(MEMNODE_READY),
            Role::Program => None,
        };
        let (host, enter) = (None, Vec::new());
        Launch { name, role, host, enter, command, ready, is_attended: false, is_run: false }
    }

    /// The whole command, quoted for a shell.
    pub(crate) fn line(&self) -> String {
        let all: Vec<_> = self.enter.iter().chain(&self.command).cloned().collect();
        shell::quote(&all)
    }
}

/// A command that runs to its end before any process starts.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) command: Vec<String>,
    /// The file of its standard input.
    pub(crate) input: Option<PathBuf>,
    /// The subject of the step, for errors.
    pub(crate) what: String,
}

/// All commands of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// The process that holds the network namespaces until its standard input ends.
    pub(crate) holder: Option<Vec<String>>,
    /// In the order of their start.
    pub(crate) launches: Vec<Launch>,
}

/// The directories of the run.
pub(crate) struct Layout {
    pub(crate) scratch: PathBuf,
    pub(crate) shared: PathBuf,
    pub(crate) results: PathBuf,
    pub(crate) mark: String,
}

impl Plan {
    /// All commands, quoted for a shell.
    pub(crate) fn lines(&self) -> Vec<String> {
        let input = |step: &Step| match &step.input {
            Some(file) => format!(" <{}", shell::quote(&[file.display().to_string()])),
            None => String::new(),
        };
        let steps = self.steps.iter().map(|step| shell::quote(&step.command) + &input(step));
        let holder = self.holder.iter().map(|holder| shell::quote(holder));
        let launches = self.launches.iter().map(Launch::line);
        steps.chain(holder).chain(launches).collect()
    }
}
