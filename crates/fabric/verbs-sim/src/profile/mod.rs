//! [`NicProfile`]: the figures of a kind of NIC and of the CPU that drives it.
//!
//! A profile is a TOML file whose every figure names its source, and lists what others have
//! measured on such hardware, for calibration to compare with. Those that come with the crate stand
//! in `profiles/`, and are part of the program.

mod parse;
mod published;

use std::path::Path;

use latchwork_files::Kind;
use serde::Deserialize;

pub use parse::ProfileError;
pub use published::{Measure, Published, Unit};

/// The figures of a kind of NIC, its switch, and the CPU that drives it.
///
/// Times are nanoseconds, rates are millions per second. A READ or WRITE of some bytes also takes
/// those bytes' time on the wire, and at each of the two NICs the time that one packet takes
/// between wire and memory.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicProfile {
    /// What it is called.
    #[serde(deserialize_with = "parse::text")]
    pub name: String,
    /// Payload bandwidth of a port, each way, in Gbit/s.
    #[serde(deserialize_with = "parse::bandwidth")]
    pub bandwidth_gbit_s: f64,
    /// How fast a NIC passes a packet on between wire and memory, in Gbit/s. This delays a request,
    /// and limits no bandwidth: packets overlap.
    #[serde(deserialize_with = "parse::bandwidth")]
    pub packet_gbit_s: f64,
    /// Bytes of a packet: a NIC has so many of a larger request in its own memory before it passes
    /// them on.
    #[serde(deserialize_with = "parse::packet")]
    pub packet_bytes: u32,
    /// From one NIC to another: cables and a switch.
    #[serde(deserialize_with = "parse::nanos")]
    pub one_way_ns: u64,
    /// Each way takes up to so much longer, as drawn; on one queue pair nothing overtakes.
    #[serde(deserialize_with = "parse::nanos")]
    pub jitter_ns: u64,
    /// 1 when what a NIC issues and what it serves share the time of one engine, 2 when each has
    /// its own.
    #[serde(deserialize_with = "parse::engines")]
    pub engines: u32,
    /// WRITEs and SENDs that a NIC can issue (as requester).
    #[serde(deserialize_with = "parse::rate")]
    pub send_rate_mops: f64,
    /// READs and atomics that a NIC can issue: fewer, since it must keep their state until the
    /// response.
    #[serde(deserialize_with = "parse::rate")]
    pub send_read_rate_mops: f64,
    /// WRITEs and SENDs that a NIC can serve (as responder).
    #[serde(deserialize_with = "parse::rate")]
    pub serve_rate_mops: f64,
    /// READs that a NIC can serve: fewer, since it must fetch the data over PCIe.
    #[serde(deserialize_with = "parse::rate")]
    pub serve_read_rate_mops: f64,
    /// Atomics that a NIC can serve, spread over all buckets.
    #[serde(deserialize_with = "parse::rate")]
    pub serve_atomic_rate_mops: f64,
    /// Payload up to so many bytes travels inside the request (inline); a NIC gathers more from
    /// memory before it sends.
    #[serde(deserialize_with = "parse::inline")]
    pub inline_max_bytes: u32,
    /// How long gathering delays a WRITE or SEND, besides its bytes: a round trip over PCIe.
    #[serde(deserialize_with = "parse::nanos")]
    pub gather_ns: u64,
    /// From a WRITE's or SEND's arrival to its effect.
    #[serde(deserialize_with = "parse::nanos")]
    pub write_ns: u64,
    /// From a READ's arrival to its first byte leaving: a round trip over PCIe.
    #[serde(deserialize_with = "parse::nanos")]
    pub read_ns: u64,
    /// From an atomic's arrival until it claims its bucket.
    #[serde(deserialize_with = "parse::nanos")]
    pub atomic_fetch_ns: u64,
    /// How long an atomic occupies its bucket.
    #[serde(deserialize_with = "parse::nanos")]
    pub atomic_ns: u64,
    /// How much longer, when the bucket's last atomic was on another word: this one comes from
    /// memory instead of the CPU's cache.
    #[serde(deserialize_with = "parse::nanos")]
    pub atomic_cold_ns: u64,
    /// Atomics are serialised per bucket: that of the low address bits, so many (Sherman 3.2.2).
    /// With 0 a NIC executes one atomic at a time.
    #[serde(deserialize_with = "parse::bucket_bits")]
    pub atomic_bucket_bits: u32,
    /// From the response's arrival to the completion that the CPU can see.
    #[serde(deserialize_with = "parse::nanos")]
    pub completion_ns: u64,
    /// Queue pairs of one worker to one target, used in turn.
    #[serde(deserialize_with = "parse::queue_pairs")]
    pub queue_pairs: u32,
    /// READs and atomics of one worker to one target under way at most.
    #[serde(deserialize_with = "parse::limit")]
    pub reads_max: u32,
    /// Requests of one worker to one target under way at most.
    #[serde(deserialize_with = "parse::limit")]
    pub requests_max: u32,
    /// CPU time of the worker.
    pub cpu: CpuProfile,
    /// What was measured on such NICs; calibration compares, the fabric does not look.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// CPU times of a worker, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuProfile {
    /// To write a request into the send queue.
    #[serde(deserialize_with = "parse::nanos")]
    pub post_ns: u64,
    /// To ring a doorbell: once for all that is posted to one queue pair in a sweep.
    #[serde(deserialize_with = "parse::nanos")]
    pub doorbell_ns: u64,
    /// To take a completion.
    #[serde(deserialize_with = "parse::nanos")]
    pub poll_ns: u64,
    /// To take and serve a message.
    #[serde(deserialize_with = "parse::nanos")]
    pub message_ns: u64,
    /// One turn of the worker's loop.
    #[serde(deserialize_with = "parse::nanos")]
    pub sweep_ns: u64,
    /// A hit: finding the frame, and the local latch.
    #[serde(deserialize_with = "parse::nanos")]
    pub hit_ns: u64,
    /// To read or write 1 KiB in the cache.
    #[serde(deserialize_with = "parse::nanos")]
    pub copy_ns_per_kib: u64,
    /// How long a local writer holds the frame's latch besides the copying.
    #[serde(deserialize_with = "parse::nanos")]
    pub latch_ns: u64,
}

/// A file of a profile. Those that come with the crate have 6 KiB.
const FILE: Kind = Kind { name: "a NIC profile", bytes_max: 1 << 20 };

/// The profiles that come with the crate, as name and text.
const EMBEDDED: [(&str, &str); 3] = [
    ("connectx3", include_str!("../../profiles/connectx3.toml")),
    ("connectx5", include_str!("../../profiles/connectx5.toml")),
    ("ethernet10g", include_str!("../../profiles/ethernet10g.toml")),
];

impl NicProfile {
    /// The names that [`NicProfile::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(name, _)| *name)
    }

    /// A profile that comes with the crate.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`].
    pub fn named(name: &str) -> Result<NicProfile, ProfileError> {
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

    /// A profile by its name, or else by the path of its file: what users give.
    ///
    /// # Errors
    /// Those of [`NicProfile::load`], and [`ProfileError::Unknown`] for what is no path of a file
    /// either.
    pub fn find(name_or_path: &str) -> Result<NicProfile, ProfileError> {
        let path = Path::new(name_or_path);
        match NicProfile::named(name_or_path) {
            Err(ProfileError::Unknown { .. }) if path.exists() => NicProfile::load(path),
            found_or_unknown => found_or_unknown,
        }
    }

    /// The profile of a text, which errors call `file`.
    ///
    /// # Errors
    /// [`ProfileError::Bad`], one line that says where and what would do.
    pub fn parse(text: &str, file: &str) -> Result<NicProfile, ProfileError> {
        parse::profile(text, file)
    }
}
