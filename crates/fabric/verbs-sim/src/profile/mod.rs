//! [`NicProfile`]: the times and limits of one kind of NIC and of the CPU that drives it.
//!
//! A profile is a TOML file. In the crate's own profiles, comments name the source of each figure
//! or the reason for the figure. A profile also lists published measurements of such hardware, with
//! which calibration compares the model. The profiles in `profiles/` are compiled into the program.

mod error;
mod fields;
mod parse;
mod published;

use std::path::Path;

use latchwork_files::InputKind;
use serde::Deserialize;

pub use error::ProfileError;
pub use published::{Measure, Published, Unit};

/// The times and limits of one kind of NIC, of its switch, and of the CPU that drives the NIC.
///
/// Times are nanoseconds, rates are millions per second. A READ or WRITE also takes the time of its
/// bytes on the wire. At each of the two NICs, it takes the time of one packet between wire and
/// memory.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicProfile {
    /// The name of the profile.
    #[serde(deserialize_with = "fields::text")]
    pub name: String,
    /// Payload bandwidth of a port, each way, in Gbit/s.
    #[serde(deserialize_with = "fields::bandwidth")]
    pub bandwidth_gbit_s: f64,
    /// Bandwidth between wire and memory inside a NIC, in Gbit/s. This figure delays a request and
    /// limits no bandwidth, because packets overlap.
    #[serde(deserialize_with = "fields::bandwidth")]
    pub packet_gbit_s: f64,
    /// Bytes of a packet. A NIC stores a whole packet before it passes the packet on.
    #[serde(deserialize_with = "fields::packet")]
    pub packet_bytes: u32,
    /// Time from one NIC to another: cables and a switch.
    #[serde(deserialize_with = "fields::nanos")]
    pub one_way_ns: u64,
    /// Longest random extra time of each way. The extra time does not change the order of batches
    /// on one queue pair.
    #[serde(deserialize_with = "fields::nanos")]
    pub jitter_ns: u64,
    /// Engines of a NIC. With 1, issued and served requests share the time of one engine. With 2,
    /// one engine issues and the other serves.
    #[serde(deserialize_with = "fields::engines")]
    pub engines: u32,
    /// Rate of WRITEs and SENDs that a NIC can issue (as requester).
    #[serde(deserialize_with = "fields::rate")]
    pub send_rate_mops: f64,
    /// Rate of READs and atomics that a NIC can issue. Usually lower than the rate of WRITEs,
    /// because the NIC must keep the state of these requests until the response.
    #[serde(deserialize_with = "fields::rate")]
    pub send_read_rate_mops: f64,
    /// Rate of WRITEs and SENDs that a NIC can serve (as responder).
    #[serde(deserialize_with = "fields::rate")]
    pub serve_rate_mops: f64,
    /// Rate of READs that a NIC can serve. Usually lower than the rate of WRITEs, because the NIC
    /// must fetch the data over PCIe.
    #[serde(deserialize_with = "fields::rate")]
    pub serve_read_rate_mops: f64,
    /// Rate of atomics that a NIC can serve, spread over all buckets.
    #[serde(deserialize_with = "fields::rate")]
    pub serve_atomic_rate_mops: f64,
    /// Largest payload that travels inside the request (inline). A NIC gathers a larger payload
    /// from memory before it sends.
    #[serde(deserialize_with = "fields::inline")]
    pub inline_max_bytes: u32,
    /// Delay of a WRITE or SEND whose payload is gathered, without the time of its bytes: a round
    /// trip over PCIe.
    #[serde(deserialize_with = "fields::nanos")]
    pub gather_ns: u64,
    /// Time from the arrival of a WRITE or SEND to its effect.
    #[serde(deserialize_with = "fields::nanos")]
    pub write_ns: u64,
    /// Time from the arrival of a READ until its first byte leaves: a round trip over PCIe.
    #[serde(deserialize_with = "fields::nanos")]
    pub read_ns: u64,
    /// Time from the arrival of an atomic until it claims its bucket.
    #[serde(deserialize_with = "fields::nanos")]
    pub atomic_fetch_ns: u64,
    /// Time for which an atomic occupies its bucket.
    #[serde(deserialize_with = "fields::nanos")]
    pub atomic_ns: u64,
    /// Extra time of an atomic when the last atomic of its bucket was on another word. In this case
    /// the word comes from memory instead of the CPU's cache.
    #[serde(deserialize_with = "fields::nanos")]
    pub atomic_cold_ns: u64,
    /// Number of low address bits that choose the bucket of an atomic. Atomics of one bucket are
    /// serialised (Sherman 3.2.2). With 0 a NIC executes one atomic at a time.
    #[serde(deserialize_with = "fields::bucket_bits")]
    pub atomic_bucket_bits: u32,
    /// Places of a NIC, as responder, for atomics that wait for their bucket; 0 for no limit. While
    /// all places are taken, the responder takes in no request of any kind.
    #[serde(default, deserialize_with = "fields::places")]
    pub atomics_waiting_max: u32,
    /// Bytes of on-chip memory that a NIC offers; 0 for none. Requests to this memory take none of
    /// the times of host memory: `write_ns`, `read_ns`, `atomic_fetch_ns`, `atomic_ns`,
    /// `atomic_cold_ns`.
    #[serde(default, deserialize_with = "fields::chip")]
    pub chip_bytes: u32,
    /// Rate of atomics on on-chip memory that a NIC can serve. Such an atomic occupies its bucket
    /// for the time of one at this rate.
    #[serde(default = "chip_rate", deserialize_with = "fields::rate")]
    pub chip_atomic_rate_mops: f64,
    /// Time from the arrival of the response until the CPU can see the completion.
    #[serde(deserialize_with = "fields::nanos")]
    pub completion_ns: u64,
    /// Queue pairs of one worker to one target, used in turn.
    #[serde(deserialize_with = "fields::queue_pairs")]
    pub queue_pairs: u32,
    /// Limit of READs and atomics in flight from one worker to one target.
    #[serde(deserialize_with = "fields::limit")]
    pub reads_max: u32,
    /// Limit of requests in flight from one worker to one target.
    #[serde(deserialize_with = "fields::limit")]
    pub requests_max: u32,
    /// CPU time of the worker.
    pub cpu: CpuProfile,
    /// Published measurements of such NICs. Only calibration uses them.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// The rate of atomics on the on-chip memory of a ConnectX-5 (Sherman 4.3).
fn chip_rate() -> f64 {
    110.0
}

/// CPU times of a worker, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuProfile {
    /// Time to write a request into the send queue.
    #[serde(deserialize_with = "fields::nanos")]
    pub post_ns: u64,
    /// Time to ring a doorbell: once for all requests posted to one target between two rings.
    #[serde(deserialize_with = "fields::nanos")]
    pub doorbell_ns: u64,
    /// Time to take a completion.
    #[serde(deserialize_with = "fields::nanos")]
    pub poll_ns: u64,
    /// Time to take and serve a message.
    #[serde(deserialize_with = "fields::nanos")]
    pub message_ns: u64,
    /// Time of one sweep of the worker's executor.
    #[serde(deserialize_with = "fields::nanos")]
    pub sweep_ns: u64,
    /// Time of a hit, without the copying: to find the frame, and for the local latch.
    #[serde(deserialize_with = "fields::nanos")]
    pub hit_ns: u64,
    /// Time to read or write 1 KiB in the cache.
    #[serde(deserialize_with = "fields::nanos")]
    pub copy_ns_per_kib: u64,
    /// Time for which a local writer holds the local latch of a frame, without the copying.
    #[serde(deserialize_with = "fields::nanos")]
    pub latch_ns: u64,
}

/// The limit for a profile file. The profiles of the crate have less than 8 KiB each.
const FILE: InputKind = InputKind { name: "a NIC profile", bytes_max: 1 << 20 };

/// The profiles of the crate, as name and text.
const EMBEDDED: [(&str, &str); 3] = [
    ("connectx3", include_str!("../../profiles/connectx3.toml")),
    ("connectx5", include_str!("../../profiles/connectx5.toml")),
    ("ethernet10g", include_str!("../../profiles/ethernet10g.toml")),
];

/// A change of a profile.
type Change = fn(&mut NicProfile);

/// The profiles of the crate that are `connectx5` with changes, as name and changes.
const CHANGED: [(&str, Change); 2] =
    [("connectx5-chip", add_chip), ("connectx5-stalling", add_chip_and_places)];

/// The places are not published: as many as READs and atomics that one connection may have under
/// way, `max_qp_rd_atom` of `ibv_devinfo`. The number was chosen once, and is fitted to nothing.
fn add_chip_and_places(profile: &mut NicProfile) {
    add_chip(profile);
    profile.atomics_waiting_max = profile.reads_max;
}

/// Sherman, section 4.3: "256kB on-chip memory is available", and its atomics reach 110 Mops.
fn add_chip(profile: &mut NicProfile) {
    profile.chip_bytes = 256 << 10;
    profile.chip_atomic_rate_mops = chip_rate();
    profile.published.push(Published {
        measure: Measure::AtomicOnChip,
        bytes: 8,
        value: 110.0,
        unit: Unit::MillionPerSecond,
        tolerance: 0.05,
        source: "SHERMAN, section 4.3: compare-and-swap on on-chip memory".to_owned(),
    });
}

impl NicProfile {
    /// The names that [`NicProfile::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NicProfile::kinds().chain(CHANGED.iter().map(|(name, _)| *name))
    }

    /// The names of the profiles of different kinds of NICs: all but those that are another one
    /// with changes. Hunts draw from them, so their order does not change.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(name, _)| *name)
    }

    /// A profile of the crate.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`].
    pub fn named(name: &str) -> Result<NicProfile, ProfileError> {
        if let Some((_, change)) = CHANGED.iter().find(|(known, _)| *known == name) {
            let mut profile = NicProfile::named("connectx5")?;
            name.clone_into(&mut profile.name);
            change(&mut profile);
            return Ok(profile);
        }
        let Some((_, text)) = EMBEDDED.iter().find(|(known, _)| *known == name) else {
            let known = NicProfile::names().collect::<Vec<_>>().join(", ");
            return Err(ProfileError::Unknown { name: name.to_owned(), known });
        };
        NicProfile::parse(text, &format!("{name}.toml"))
    }

    /// The profile in a file.
    ///
    /// # Errors
    /// [`ProfileError::Unreadable`] and [`ProfileError::Bad`].
    pub fn load(path: &Path) -> Result<NicProfile, ProfileError> {
        let unreadable = |cause| ProfileError::Unreadable { path: path.to_owned(), cause };
        let text = latchwork_files::read_text(path, FILE).map_err(unreadable)?;
        NicProfile::parse(&text, &path.display().to_string())
    }

    /// The profile of the crate with this name, or otherwise the profile in the file at this path.
    ///
    /// # Errors
    /// Those of [`NicProfile::load`], and [`ProfileError::Unknown`] when the path does not exist
    /// either.
    pub fn find(name_or_path: &str) -> Result<NicProfile, ProfileError> {
        let path = Path::new(name_or_path);
        match NicProfile::named(name_or_path) {
            Err(ProfileError::Unknown { .. }) if path.exists() => NicProfile::load(path),
            found_or_unknown => found_or_unknown,
        }
    }

    /// The profile in `text`. Errors name the text as `file`.
    ///
    /// # Errors
    /// [`ProfileError::Bad`]: one line that names the position and the problem.
    pub fn parse(text: &str, file: &str) -> Result<NicProfile, ProfileError> {
        parse::parsed(text, file)
    }
}
