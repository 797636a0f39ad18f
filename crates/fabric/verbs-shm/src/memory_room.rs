//! [`MemoryRoom`]: the memory that this process can get.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The memory that this process can get: from the machine, within the limits of its control groups
/// and of its own resources. The tightest bound counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryRoom {
    /// The bytes that are free now, or can be made free.
    pub free: u64,
    /// The bytes that would be free if no other use took any.
    pub total: u64,
    /// The bytes that this machine has.
    pub machine: u64,
    bound: Bound,
}

/// A limit on the memory of this process.
struct Limit {
    free: u64,
    total: u64,
    bound: Bound,
}

/// What sets the bound on the free memory.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Bound {
    Machine,
    /// The control group with this directory.
    Group(PathBuf),
    /// The process's own limit, on this part of its memory.
    Process(&'static str),
}

impl MemoryRoom {
    /// The room at this moment. `None` if the system does not report it.
    pub fn now() -> Option<MemoryRoom> {
        MemoryRoom::below(Path::new("/"))
    }

    /// Whether the machine sets the bound, and no limit does.
    pub fn is_of_machine(&self) -> bool {
        self.bound == Bound::Machine
    }

    /// Whether a control group sets the bound, as in a container.
    pub fn is_of_group(&self) -> bool {
        matches!(self.bound, Bound::Group(_))
    }

    /// The room by the files of the kernel below `root`, which is `/` or a copy of it.
    pub fn below(root: &Path) -> Option<MemoryRoom> {
        let all = machine(root)?;
        let limits = groups(root).into_iter().chain(limits(root));
        Some(limits.fold(all, |all, Limit { free, total, bound }| {
            let total = total.min(all.total);
            let (free, bound) = if free < all.free { (free, bound) } else { (all.free, all.bound) };
            MemoryRoom { free, total, bound, machine: all.machine }
        }))
    }
}

impl fmt::Display for MemoryRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, total) = (self.free >> 20, self.total >> 20);
        match &self.bound {
            Bound::Machine => write!(f, "this machine has {free} MiB to give"),
            Bound::Group(path) => write!(
                f,
                "the memory limit of this process's control group ({}) is {total} MiB, of which {free} MiB are free",
                path.display()
            ),
            Bound::Process(name) => {
                write!(f, "the {name} of this process is limited, with {free} MiB left")
            }
        }
    }
}

fn read(root: &Path, path: &str) -> Option<String> {
    fs::read_to_string(root.join(path)).ok()
}

/// The number of kibibytes in the line of `name`, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn machine(root: &Path) -> Option<MemoryRoom> {
    let info = read(root, "proc/meminfo")?;
    let of = |name: &str| kibibytes(&info, name);
    let mut free = of("MemAvailable")? + of("SwapFree").unwrap_or(0);
    let machine = of("MemTotal")? + of("SwapTotal").unwrap_or(0);
    let mut total = machine;
    let mode = read(root, "proc/sys/vm/overcommit_memory");
    if mode.is_some_and(|mode| mode.trim() == "2")
        && let (Some(limit), Some(taken)) = (of("CommitLimit"), of("Committed_AS"))
    {
        // The kernel counts memory that no access has touched.
        free = free.min(limit.saturating_sub(taken));
        total = total.min(limit);
    }
    Some(MemoryRoom { free, total, machine, bound: Bound::Machine })
}

/// The process's limits on its memory (`ulimit -v`, `ulimit -d`).
fn limits(root: &Path) -> impl Iterator<Item = Limit> {
    let text = read(root, "proc/self/limits").unwrap_or_default();
    let status = read(root, "proc/self/status").unwrap_or_default();
    let limit = move |(name, line, used): (&'static str, &str, &str)| {
        let line = text.lines().find_map(|text| text.strip_prefix(line))?;
        let total = line.split_whitespace().next()?.parse().ok()?;
        let used = kibibytes(&status, used).unwrap_or(0);
        let free = u64::saturating_sub(total, used);
        Some(Limit { free, total, bound: Bound::Process(name) })
    };
    let space = ("address space", "Max address space", "VmSize");
    [space, ("data segment", "Max data size", "VmData")].into_iter().filter_map(limit)
}

/// The process's control groups with a limit, and their ancestors: of the second version, or of the
/// first version's memory controller.
fn groups(root: &Path) -> Vec<Limit> {
    let own = read(root, "proc/self/cgroup").unwrap_or_default();
    let mounts = read(root, "proc/self/mountinfo").unwrap_or_default();
    let mut limits = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(group)) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let files = match (number, controllers) {
            ("0", "") => &SECOND,
            (_, all) if all.split(',').any(|name| name == "memory") => &FIRST,
            _ => continue,
        };
        let Some((top, below)) =
            mounts.lines().filter_map(|line| files.mounted(line, group)).next_back()
        else {
            continue;
        };
        let own = top.join(below);
        let ancestors = own.ancestors().take_while(|path| path.starts_with(&top));
        limits.extend(ancestors.filter_map(|path| files.limit_of(root, path)));
    }
    limits
}

/// The files of a version of control groups.
struct Files {
    kind: &'static str,
    limit: &'static str,
    used: &'static str,
    /// The prefix of the statistics that include all descendants.
    all: &'static str,
}

const SECOND: Files =
    Files { kind: "cgroup2", limit: "memory.max", used: "memory.current", all: "" };
const FIRST: Files = Files {
    kind: "cgroup",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    all: "total_",
};

impl Files {
    /// The mount point in this line of `mountinfo`, and the path of `group` below it.
    fn mounted(&self, line: &str, group: &str) -> Option<(PathBuf, PathBuf)> {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let is_kind = system.next() == Some(self.kind);
        let options = system.nth(1).unwrap_or_default();
        if !is_kind || self.kind == FIRST.kind && !options.split(',').any(|name| name == "memory") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3).map(unescaped);
        let (from, point) = (fields.next()?, fields.next()?);
        // A group outside of what is mounted is not to be seen, but the top of the mount is.
        let below = Path::new(group).strip_prefix(from).ok();
        let below = below.filter(|path| path.components().all(is_name)).unwrap_or(Path::new(""));
        Some((PathBuf::from(point), below.to_owned()))
    }

    /// The limit of the group with this directory, if it has one.
    fn limit_of(&self, root: &Path, group: &Path) -> Option<Limit> {
        let below = group.strip_prefix("/").unwrap_or(group);
        let file = |name: &str| fs::read_to_string(root.join(below).join(name)).ok();
        let number = |name: &str| file(name)?.trim().parse::<u64>().ok();
        // Without a limit the file has a word, or the highest multiple of the page size.
        let total = number(self.limit).filter(|limit| *limit < i64::MAX as u64 >> 12 << 12)?;
        let statistics = file("memory.stat").unwrap_or_default();
        let counted = |name: &str| {
            let line =
                |line: &str| line.strip_prefix(self.all)?.strip_prefix(name)?.trim().parse().ok();
            statistics.lines().find_map(line).unwrap_or(0u64)
        };
        // The kernel drops pages of files when a group needs memory.
        let files = counted("inactive_file ") + counted("active_file ");
        let used = number(self.used).unwrap_or(0).saturating_sub(files);
        let bound = Bound::Group(group.to_owned());
        Some(Limit { free: total.saturating_sub(used), total, bound })
    }
}

fn is_name(part: Component<'_>) -> bool {
    matches!(part, Component::Normal(_))
}

/// A path of `mountinfo`, which has spaces and backslashes as octal numbers.
fn unescaped(text: &str) -> String {
    let replaced = |text: String, (code, character)| text.replace(code, character);
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapFree: 0 kB\n\
                           CommitLimit: 3145728 kB\nCommitted_AS: 1048576 kB\n";

    /// A root directory with these files, and the room there.
    fn room(files: &[(&str, &str)]) -> MemoryRoom {
        let root = std::env::temp_dir();
        let name = format!("latchwork-room-{}-{:p}", std::process::id(), files);
        let root = root.join(name);
        for (path, text) in [("proc/meminfo", MEMINFO)].iter().chain(files) {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let room = MemoryRoom::below(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        room
    }

    fn mib(room: &MemoryRoom) -> (u64, u64) {
        (room.free >> 20, room.total >> 20)
    }

    const V2: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      36 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[test]
    fn without_a_limit_it_is_the_machines() {
        let all = room(&[]);
        assert_eq!((mib(&all), all.is_of_group()), ((4096, 8192), false));
        assert_eq!(all.to_string(), "this machine has 4096 MiB to give");
        let all = room(&[
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/a/memory.max", "max\n"),
        ]);
        assert_eq!(mib(&all), (4096, 8192));
        let all = room(&[
            ("proc/self/cgroup", "4:memory:/a\n0::/\n"),
            ("proc/self/mountinfo", V1),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(mib(&all), (4096, 8192));
    }

    #[test]
    fn the_tightest_of_a_group_and_its_ancestors_counts() {
        let all = room(&[
            ("proc/self/cgroup", "0::/pod/one\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/pod/one/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/pod/one/memory.current", "104857600\n"),
            ("sys/fs/cgroup/pod/memory.max", "629145600\n"),
            ("sys/fs/cgroup/pod/memory.current", "314572800\n"),
            ("sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file 104857600\nactive_file 0\n"),
        ]);
        assert_eq!((mib(&all), all.is_of_group()), ((400, 600), true));
        let text = all.to_string();
        assert!(text.contains("(/sys/fs/cgroup/pod) is 600 MiB, of which 400 MiB"), "{text}");
    }

    #[test]
    fn the_first_version_has_files_of_its_own() {
        let all = room(&[
            ("proc/self/cgroup", "5:cpu:/other\n4:hugetlb,memory:/a/b\n0::/\n"),
            ("proc/self/mountinfo", V1),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "629145600\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "209715200\n"),
            ("sys/fs/cgroup/memory/a/memory.stat", "active_file 5\ntotal_active_file 104857600\n"),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(mib(&all), (500, 600));
    }

    #[test]
    fn a_container_sees_its_group_at_the_top_of_the_mount() {
        let limit = ("sys/fs/cgroup/memory.max", "629145600\n");
        let v2 = |from: &str| V2.replace(" / /sys", &format!(" {from} /sys"));
        for (group, mounts) in [
            ("0::/\n", V2.to_owned()),
            ("0::/../..\n", V2.to_owned()),
            ("0::/docker/one\n", v2("/docker/one")),
            ("0::/docker/one\n", v2("/../other")),
            ("0::/docker/gone\n", V2.to_owned()),
        ] {
            let files =
                [("proc/self/cgroup", group), ("proc/self/mountinfo", mounts.as_str()), limit];
            assert_eq!(mib(&room(&files)), (600, 600), "{group} {mounts}");
        }
        let all = room(&[
            ("proc/self/cgroup", "0::/docker/one/two\n"),
            ("proc/self/mountinfo", &v2("/docker/one").replace("/cgroup rw", "/of\\040groups rw")),
            ("sys/fs/of groups/two/memory.max", "629145600\n"),
        ]);
        assert_eq!(mib(&all), (600, 600));
    }

    #[test]
    fn limits_of_the_process_and_strict_accounting_count() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax data size  unlimited  unlimited  bytes\n\
                      Max address space  1073741824  unlimited  bytes\n";
        let all = room(&[
            ("proc/self/limits", limits),
            ("proc/self/status", "VmPeak:\t9 kB\nVmSize:\t  524288 kB\n"),
        ]);
        assert_eq!(mib(&all), (512, 1024));
        assert!(all.to_string().contains("address space"), "{all}");
        let all = room(&[("proc/sys/vm/overcommit_memory", "2\n")]);
        assert_eq!(mib(&all), (2048, 3072));
    }
}
