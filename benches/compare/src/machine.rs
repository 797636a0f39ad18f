//! The machine of the measurement, for the tables and the document.

use std::fs;
use std::process::Command;

use serde::Serialize;

/// The machine and the build.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    pub(crate) os: String,
    /// The load average of the last minute before the start: the number of threads that wanted a
    /// core.
    pub(crate) load_average: f64,
    /// The commit of the working directory, with `-dirty` after local changes.
    pub(crate) git: String,
}

impl Machine {
    pub(crate) fn look() -> Machine {
        let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(unknown);
        let release = fs::read_to_string("/proc/sys/kernel/osrelease");
        let os = release.map_or_else(
            |_| unknown(),
            // The builder's suffix of the version has no meaning for other readers.
            |release| format!("Linux {}", release.trim().split('-').next().unwrap_or_default()),
        );
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Machine {
            processor,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: mebibytes("MemTotal").unwrap_or(0),
            os,
            load_average: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
            git: git().unwrap_or_else(unknown),
        }
    }
}

/// MiB of memory that programs can still get, if the system reports it.
pub(crate) fn available_mib() -> Option<u64> {
    mebibytes("MemAvailable")
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn git() -> Option<String> {
    let arguments = ["describe", "--always", "--dirty", "--abbrev=10"];
    let output = Command::new("git").args(arguments).output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !name.trim().is_empty()).then(|| name.trim().to_owned())
}

fn mebibytes(name: &str) -> Option<u64> {
    let value = field("/proc/meminfo", name)?;
    let kibibytes: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes / 1024)
}

/// The value behind `name:` in a file of such lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
