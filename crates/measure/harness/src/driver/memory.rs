//! [`MemoryNeed`]: the size of the memory pool, from what a workload needs and what this machine
//! has.

use std::time::Duration;

use latchwork_cluster::ClusterConfig;
use latchwork_verbs_shm::MemoryRoom;

use super::{Common, DriverFlags, PoolSize};
use crate::numbers::many;
use crate::{AppError, FabricChoice, FabricKind, FlagError, MIB};

/// What a workload needs of memory.
///
/// Memory that no access touches costs nothing, so a generous pool is right. But a pool that is
/// larger than what this machine has would let the kernel kill the process, where a full pool is an
/// error.
pub struct MemoryNeed {
    /// What needs the memory, in the plural: `1000 records`.
    pub what: String,
    /// Bytes in lines that the data take at least.
    pub least: u64,
    /// Bytes in lines that suffice for the data, and for all that the run may add.
    pub enough: u64,
    /// Bytes that the process needs for a while, beside lines and caches.
    pub beside: u64,
    /// What lowers the least need: `fewer --warehouses`.
    pub hint: &'static str,
}

/// The operations of a run at most: as many as its count allows, and as many as its time allows at
/// this rate.
pub fn operations_at_most(count: Option<u64>, time: Option<Duration>, rate: f64) -> f64 {
    let count = count.map_or(f64::INFINITY, |count| count as f64);
    let by_time = time.map_or(f64::INFINITY, |time| time.as_secs_f64() * rate);
    let least = count.min(by_time);
    if least.is_finite() { least } else { 0.0 }
}

/// The size of each memory node for this number of bytes in lines.
pub fn bytes_of_memory_node(in_lines: u64, config: &ClusterConfig) -> u64 {
    let lines = in_lines / u64::from(config.line_size) + 64;
    // The size of the lines with their latch words.
    let pool = lines.saturating_mul(u64::from(config.line_size) + 16);
    // Each compute node has one unfinished chunk on each memory node.
    let begun = config.chunk_size * (config.compute_nodes as u64 + 2);
    let each = pool.div_ceil(config.memory_nodes as u64) + begun + 2 * config.chunk_size;
    each.div_ceil(config.chunk_size).saturating_mul(config.chunk_size)
}

impl DriverFlags {
    /// Configures the cluster in `common`, with a pool for this need.
    ///
    /// # Errors
    /// The first setting that is impossible; a need that this machine cannot meet.
    pub fn configure(
        &self,
        common: &mut Common,
        threads: usize,
        need: &MemoryNeed,
    ) -> Result<(), AppError> {
        let room = MemoryRoom::now();
        let mut pool = PoolSize::Given;
        common.cluster = self.cluster.config(threads, &common.fabric, |config| {
            let (bytes, of) = need.size(config, &common.fabric, room.as_ref());
            pool = of;
            bytes
        })?;
        common.pool = pool;
        room.map_or(Ok(()), |room| need.check_in(&room, common))
    }
}

impl MemoryNeed {
    /// The automatic size of each memory node.
    fn size(
        &self,
        config: &ClusterConfig,
        fabric: &FabricChoice,
        room: Option<&MemoryRoom>,
    ) -> (u64, PoolSize) {
        let enough = bytes_of_memory_node(self.enough, config);
        let Some(room) = room.filter(|_| !is_joined(fabric)) else {
            return (enough, PoolSize::Estimated);
        };
        let most = match fabric.nic() {
            None => self.largest(room.free, config),
            // The size decides the addresses of lines, and so the events. So the limit is only what
            // the kernel maps at once.
            Some(_) => room.machine.saturating_sub(1) / config.chunk_size * config.chunk_size,
        };
        let most = most.max(bytes_of_memory_node(self.least, config));
        match enough <= most {
            true => (enough, PoolSize::Estimated),
            false => (most, PoolSize::Room(room.clone())),
        }
    }

    /// The size of each memory node such that all fit into so many bytes, with the caches that they
    /// can fill.
    fn largest(&self, bytes: u64, config: &ClusterConfig) -> u64 {
        let bytes = bytes.saturating_sub(self.beside.saturating_add(spare(bytes)));
        let (caches, nodes) = (config.compute_nodes as u64, config.memory_nodes as u64);
        // A cache holds at most what is in the pool.
        let rest = bytes.saturating_sub(caches * config.cache_bytes as u64);
        let pool = rest.max(bytes / (caches + 1));
        pool / nodes / config.chunk_size * config.chunk_size
    }

    /// Refuses data that cannot fit into the memory of this machine, and a pool that cannot fit
    /// into this process's control group. The kernel would kill the process later, without a word.
    ///
    /// # Errors
    /// One line with the limit and with flags that would do.
    pub fn check(&self, common: &Common) -> Result<(), AppError> {
        MemoryRoom::now().map_or(Ok(()), |room| self.check_in(&room, common))
    }

    fn check_in(&self, room: &MemoryRoom, common: &Common) -> Result<(), AppError> {
        let Common { cluster: config, fabric, pool, .. } = common;
        let cache = config.cache_bytes as u64;
        let filled = cache.min(self.least);
        let (lines, caches) = match fabric {
            // The lines are in other processes, which may have them in memory that is shared.
            FabricChoice::Joined(join) if join.fabric() == FabricKind::Shm.name() => (0, cache),
            FabricChoice::Joined(_) => (0, filled),
            _ => (self.least, config.compute_nodes as u64 * filled),
        };
        // At a limit the process is killed. A machine can page.
        let spare = if room.is_of_machine() { 0 } else { spare(room.free) };
        let beside = self.beside.saturating_add(spare);
        let needed = lines.saturating_add(beside).saturating_add(caches);
        if needed > room.free {
            return Err(AppError::Usage(format!(
                "{} need about {} MiB, caches included, and {room}; use {} or a smaller --cache-mb",
                self.what,
                needed.div_ceil(MIB),
                self.hint
            )));
        }
        let all = config.memory_bytes.saturating_mul(config.memory_nodes as u64);
        let filled = config.compute_nodes as u64 * cache.min(all);
        let is_given = matches!(pool, PoolSize::Given) && !is_joined(fabric);
        if is_given && room.is_of_group() && all.saturating_add(filled) > room.total {
            let most = self.largest(room.total, config) / MIB;
            return Err(FlagError(format!(
                "--memory-mb {}: with their caches the nodes can fill {} MiB, and {room}; use --memory-mb {most} or a \
                 smaller --cache-mb",
                config.memory_bytes / MIB,
                (all + filled).div_ceil(MIB),
            ))
            .into());
        }
        Ok(())
    }
}

/// Refuses memory nodes that do not fit into this process's control group. `at_once` says that they
/// take all their memory at the start.
///
/// # Errors
/// One line with the limit.
pub fn check_memory_nodes(nodes: u64, bytes: u64, at_once: bool) -> Result<(), FlagError> {
    let room = MemoryRoom::now().filter(MemoryRoom::is_of_group);
    room.map_or(Ok(()), |room| check_memory_nodes_in(&room, nodes, bytes, at_once))
}

fn check_memory_nodes_in(
    room: &MemoryRoom,
    nodes: u64,
    bytes: u64,
    at_once: bool,
) -> Result<(), FlagError> {
    let most = if at_once { room.free } else { room.total };
    if nodes.saturating_mul(bytes) <= most {
        return Ok(());
    }
    Err(FlagError(format!(
        "--memory-mb {}: {} of this size cannot be, since {room}; use less than --memory-mb {}, because caches \
         need room, too",
        bytes / MIB,
        many(nodes as usize, "memory node"),
        most / nodes / MIB,
    )))
}

/// What a process takes for threads, tables of pages, and all else.
fn spare(bytes: u64) -> u64 {
    bytes / 16 + 32 * MIB
}

fn is_joined(fabric: &FabricChoice) -> bool {
    matches!(fabric, FabricChoice::Joined(_))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const GIB: u64 = 1 << 30;

    /// A machine with so much free memory, without a control group or with the limit of one.
    fn room(free: u64, limit: Option<u64>) -> MemoryRoom {
        let root = tempfile::TempDir::new().expect("a directory");
        let write = |path: &str, text: String| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("a file");
        };
        let kib = free >> 10;
        write("proc/meminfo", format!("MemTotal: {} kB\nMemAvailable: {kib} kB\n", 2 * kib));
        if let Some(limit) = limit {
            write("proc/self/cgroup", "0::/\n".to_owned());
            write("proc/self/mountinfo", "1 1 0:1 / /group rw - cgroup2 none rw\n".to_owned());
            write("group/memory.max", limit.to_string());
        }
        MemoryRoom::below(root.path()).expect("a room")
    }

    fn need(least: u64, enough: u64) -> MemoryNeed {
        MemoryNeed { what: "9 records".to_owned(), least, enough, beside: 0, hint: "fewer records" }
    }

    fn common(fabric: FabricChoice, pool: PoolSize, memory_bytes: u64) -> Common {
        let cluster = ClusterConfig { memory_bytes, ..ClusterConfig::default() };
        Common { cluster, pool, fabric, json: None, warnings: Vec::new() }
    }

    #[test]
    fn the_pool_is_no_larger_than_what_the_machine_has() {
        let config = ClusterConfig { memory_nodes: 2, ..ClusterConfig::default() };
        let size = |need: &MemoryNeed, fabric, room: &MemoryRoom| {
            let (bytes, pool) = need.size(&config, &fabric, Some(room));
            (bytes, matches!(pool, PoolSize::Room(_)))
        };
        let machine = room(8 * GIB, None);
        let (small, is_capped) = size(&need(GIB, 2 * GIB), FabricChoice::Shm, &machine);
        assert!((GIB..GIB + GIB / 4).contains(&small) && !is_capped, "{small}");
        let (all, is_capped) = size(&need(GIB, 1 << 45), FabricChoice::Shm, &machine);
        assert!((3 * GIB..15 * GIB / 4).contains(&all) && is_capped, "{all}");
        // Caches are no larger than the pool, so a third is for each of the two and for the pool.
        let group = room(8 * GIB, Some(600 * MIB));
        let (third, is_capped) = size(&need(MIB, 1 << 45), FabricChoice::Shm, &group);
        assert!((64 * MIB..100 * MIB).contains(&third) && is_capped, "{third}");
        // The memory that is free now does not decide in a simulation, and neither does a limit.
        let nic = latchwork_verbs_sim::NicProfile::named("connectx3").expect("a profile");
        let (virtually, _) = size(&need(GIB, 1 << 45), FabricChoice::Sim(nic.into()), &group);
        assert_eq!(virtually, 16 * GIB - config.chunk_size);
    }

    #[test]
    fn what_cannot_fit_is_refused_with_the_limit_and_with_what_would_do() {
        let group = room(8 * GIB, Some(600 * MIB));
        let estimated = common(FabricChoice::Shm, PoolSize::Estimated, GIB);
        let line = need(GIB, 2 * GIB).check_in(&group, &estimated).expect_err("too much");
        let line = line.to_string();
        assert!(line.starts_with("9 records need about 1606 MiB, caches included, "), "{line}");
        assert!(line.contains("is 600 MiB") && line.contains("use fewer records or"), "{line}");
        assert!(need(MIB, GIB).check_in(&group, &estimated).is_ok(), "caches stay nearly empty");
        let beside = MemoryNeed { beside: GIB, ..need(MIB, GIB) };
        assert!(beside.check_in(&group, &estimated).is_err(), "the sort needs too much");
        assert!(need(GIB, GIB).check_in(&room(8 * GIB, None), &estimated).is_ok());

        let given = common(FabricChoice::Shm, PoolSize::Given, 2 * GIB);
        let line = need(MIB, MIB).check_in(&group, &given).expect_err("too much").to_string();
        assert!(line.starts_with("--memory-mb 2048: ") && line.contains("is 600 MiB"), "{line}");
        assert!(line.contains("use --memory-mb 1"), "{line}");
        assert!(need(MIB, MIB).check_in(&room(GIB, None), &given).is_ok(), "as before");
    }

    #[test]
    fn memory_nodes_that_do_not_fit_into_a_control_group_are_refused() {
        let group = room(8 * GIB, Some(600 * MIB));
        let line = check_memory_nodes_in(&group, 2, GIB, true).expect_err("too much").to_string();
        assert!(line.starts_with("--memory-mb 1024: 2 memory nodes "), "{line}");
        assert!(
            line.contains("is 600 MiB") && line.contains("less than --memory-mb 300"),
            "{line}"
        );
        assert!(check_memory_nodes_in(&group, 2, 256 * MIB, true).is_ok());
    }

    #[test]
    fn a_full_pool_is_explained_by_its_origin() {
        let text = |pool| {
            let common = common(FabricChoice::Shm, pool, 64 * MIB);
            common.out_of_memory(" after 7 records", 128 * MIB, "fewer records").to_string()
        };
        let given = text(PoolSize::Given);
        assert!(
            given.ends_with("--memory-mb 64 is too small; use --memory-mb 128, fewer records"),
            "{given}"
        );
        let estimated = text(PoolSize::Estimated);
        assert!(
            !estimated.contains("--memory-mb 64") && estimated.contains("use --memory-mb 128"),
            "{estimated}"
        );
        let all = text(PoolSize::Room(room(GIB, None)));
        assert!(all.contains("after 7 records") && all.contains("has 1024 MiB to give"), "{all}");
        assert!(!all.contains("--memory-mb") && all.ends_with("use fewer records"), "{all}");
    }

    #[test]
    fn the_smaller_of_time_and_count_limits_the_operations() {
        let at_most = |count, seconds| {
            operations_at_most(count, Option::map(seconds, Duration::from_secs), 100.0)
        };
        assert_eq!(at_most(Some(50), Some(3)), 50.0);
        assert_eq!(at_most(Some(5000), Some(3)), 300.0);
        assert_eq!((at_most(Some(50), None), at_most(None, Some(3))), (50.0, 300.0));
        assert_eq!(at_most(None, None), 0.0);
    }
}
