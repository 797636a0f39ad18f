//! The target `profile`: NIC profiles.

use latchwork_verbs_sim::{NicProfile, SimConfig};

use super::target::{FuzzTarget, assert_one_line};
use crate::{Mutator, class_of};

/// Files of NIC profiles.
pub const TARGET: FuzzTarget =
    FuzzTarget { name: "profile", run, mutate: Mutator::text, tried: 5_000 };

const NAME: &str = "fuzzed.toml";

/// Reads a profile.
///
/// - An error is one line, which names the file and a line of it.
/// - Numbers of a profile are finite and positive, and limits allow at least one request.
///
/// # Panics
/// When one of these does not hold.
pub fn run(data: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(data) else { return "not UTF-8".to_owned() };
    match NicProfile::parse(text, NAME) {
        Ok(profile) => {
            let rates = [profile.serve_read_rate_mops, profile.serve_atomic_rate_mops];
            assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{rates:?}");
            assert!(profile.queue_pairs > 0 && profile.atomic_bucket_bits < 32, "{profile:?}");
            let published = profile.published.len();
            let config = SimConfig::nic(profile);
            assert!(config.reads_max > 0 && config.requests_max > 0, "{config:?}");
            format!("whole: {}", published.min(40))
        }
        Err(error) => {
            let error = error.to_string();
            assert_one_line(&error);
            let place = error.strip_prefix(NAME).and_then(|rest| rest.strip_prefix(':'));
            let line = place.and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
            let lines = text.matches('\n').count() + 1;
            assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "no place: {error}");
            // The text before the last colon quotes the statement in the file.
            class_of(&error.rsplit(": ").next().unwrap_or_default())
        }
    }
}
