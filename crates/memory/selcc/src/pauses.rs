//! Back-offs after refusals, and hold-offs (SELCC 5.1.2 and 5.3.2).

use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_strict::strict_assert;

use crate::settings::{Resend, SelccSettings};

/// A late node backs off for 1/64 of the time for which it has been refused. Only shrinking
/// back-offs have this rule.
///
/// 1. A node is late once this part is more than its first back-off. By default that is after a
///    millisecond, far longer than healthy nodes usually make it wait.
/// 2. A late node most likely requests in vain until a deadline ends its want, and every request
///    costs its receivers.
/// 3. The price is small: the line comes later by at most about this part of the wait.
const LATE: u32 = 64;

/// Without requests (SEL), a back-off is at most 1/N of the time until the access's deadline (N is
/// this number), but not below the shortest back-off. So an access gets many attempts.
/// Accesses that are nearer to their deadlines back off for a shorter time, so that later accesses
/// do not get every line.
const TURNS: u32 = 64;

/// The back-off after `refusals` refusals, before the random draw. The first refusal was
/// `refused_for` ago. `asks`: refused nodes send invalidation requests.
pub(crate) fn after_refusals(
    settings: &SelccSettings,
    asks: bool,
    refusals: u8,
    refused_for: Duration,
) -> Duration {
    let SelccSettings { round_trip, resend_factor, pause, pause_max, .. } = *settings;
    match settings.resend {
        Resend::Shrinking if asks => {
            let first = round_trip.saturating_mul(resend_factor);
            let (next, late) = (first / u32::from(refusals.max(1)), refused_for / LATE);
            (if late > first { late } else { next }).min(pause_max).max(pause)
        }
        _ => doubled(pause, refusals.saturating_sub(1), pause_max),
    }
}

/// The hold-off of readers for a writer of this priority.
pub(crate) fn window(settings: &SelccSettings, priority: u8) -> Duration {
    if !settings.spin_windows {
        return Duration::ZERO;
    }
    settings.hold_off.saturating_mul(u32::from(priority)).min(settings.hold_off_max)
}

/// The hold-off of a node that released a line without a hand-over: the node leaves the line to
/// requesters of this priority. The hold-off doubles with each step. So after a few refusals the
/// hold-off is as long as a message and a word operation take, unless `hold_off_max` is shorter.
pub(crate) fn release_hold_off(settings: &SelccSettings, priority: u8) -> Duration {
    doubled(settings.hold_off, priority.saturating_sub(1), settings.hold_off_max)
}

/// The back-off before the next attempt: `pause`, shortened if a waiter would otherwise have few
/// attempts before the earliest deadline `by`. The back-off is not shortened below `least`.
pub(crate) fn in_time(pause: Duration, least: Duration, by: Option<Time>, now: Time) -> Duration {
    let shortened =
        by.map_or(pause, |by| pause.min((by.max(now) - now) / TURNS).max(least.min(pause)));
    strict_assert!(shortened <= pause, "a deadline makes a back-off of {pause:?} longer");
    shortened
}

/// `base` doubled `times` times, up to `max`.
fn doubled(base: Duration, times: u8, max: Duration) -> Duration {
    base.saturating_mul(1u32.checked_shl(u32::from(times)).unwrap_or(u32::MAX)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_ends_at_the_longest() {
        let (base, max) = (Duration::from_micros(2), Duration::from_micros(500));
        assert_eq!(doubled(base, 0, max), base);
        assert_eq!(doubled(base, 3, max), Duration::from_micros(16));
        assert_eq!(doubled(base, 255, max), max);
    }

    #[test]
    fn pauses_shrink_or_grow_within_bounds() {
        let micros = |settings: &SelccSettings, n| {
            after_refusals(settings, true, n, Duration::ZERO).as_micros()
        };
        let growing = SelccSettings { resend: Resend::Growing, ..SelccSettings::default() };
        assert_eq!([1, 2, 3, 31].map(|n| micros(&growing, n)), [2, 4, 8, 500]);
        let (resend, resend_factor) = (Resend::Shrinking, 8);
        let shrinking = SelccSettings { resend, resend_factor, ..SelccSettings::default() };
        assert_eq!([1, 2, 4, 31].map(|n| micros(&shrinking, n)), [16, 8, 4, 2]);
        let other = SelccSettings {
            resend_factor: 3,
            round_trip: Duration::from_micros(40),
            ..shrinking.clone()
        };
        assert_eq!([1, 2, 4].map(|n| micros(&other, n)), [120, 60, 30]);
        let silent = |n| after_refusals(&shrinking, false, n, Duration::ZERO).as_micros();
        assert_eq!([1, 2, 3, 31].map(silent), [2, 4, 8, 500]);
    }

    #[test]
    fn pauses_that_shrink_grow_again_after_very_many_refusals() {
        let settings = SelccSettings::default();
        let micros =
            |micros| after_refusals(&settings, true, 31, Duration::from_micros(micros)).as_micros();
        assert_eq!([0, 1_000, 1_280, 6_400, 1_000_000].map(micros), [2, 2, 20, 100, 500]);
    }

    #[test]
    fn hold_offs_after_a_release_double_with_each_step() {
        let settings = SelccSettings { spin_windows: false, ..SelccSettings::default() };
        let micros = |priority| release_hold_off(&settings, priority).as_micros();
        assert_eq!([1, 2, 5, 8, 9, 31].map(micros), [4, 8, 64, 512, 1_000, 1_000]);
    }

    #[test]
    fn windows_are_proportional_and_end() {
        let settings = SelccSettings::default();
        assert_eq!([1, 2, 5].map(|p| window(&settings, p)), [4, 8, 20].map(Duration::from_micros));
        let long = SelccSettings { hold_off: Duration::from_micros(100), ..settings.clone() };
        assert_eq!(window(&long, 31), long.hold_off_max);
        assert_eq!(window(&SelccSettings { spin_windows: false, ..settings }, 9), Duration::ZERO);
    }

    /// A back-off leaves a waiter with a deadline many attempts. Without a deadline the back-off
    /// keeps its length.
    #[test]
    fn a_pause_minds_the_deadlines_of_waiting_accesses() {
        let (pause, least) = (Duration::from_micros(500), Duration::from_micros(2));
        let now = Time::ZERO + Duration::from_millis(1);
        let shortened = |by: Duration| in_time(pause, least, Some(now + by), now);
        assert_eq!(in_time(pause, least, None, now), pause);
        assert_eq!(shortened(Duration::from_secs(1)), pause, "there is time");
        assert_eq!(shortened(Duration::from_micros(6400)), Duration::from_micros(100));
        assert_eq!(shortened(Duration::ZERO), least, "it is late");
        let late = in_time(least / 2, least, Some(now), now);
        assert_eq!(late, least / 2, "never longer than without");
    }
}
