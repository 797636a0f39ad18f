//! [`LongAccesses`]: the long accesses of a process, by the time of their end.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_runtime::sync::Mutex;

/// Shorter accesses are not kept. Those that wait for a recovery are longer.
const LONG: Duration = Duration::from_millis(1);

/// Of the accesses that end in one such window, only the longest is kept. So a run of an hour has
/// 360 000 at most.
const WINDOW: Duration = Duration::from_millis(10);

/// The longest access of each window of time.
#[derive(Default)]
pub struct LongAccesses(Mutex<BTreeMap<u128, (Time, Time)>>);

impl LongAccesses {
    /// Notes an access of a worker of this process, with its times on the clock of the workers.
    #[inline]
    pub fn note(&self, begin: Time, end: Time) {
        if end - begin >= LONG {
            let window = (end - Time::ZERO).as_nanos() / WINDOW.as_nanos();
            let mut all = self.0.lock();
            let (from, to) = all.entry(window).or_insert((begin, end));
            if end - begin > *to - *from {
                (*from, *to) = (begin, end);
            }
        }
    }

    /// The longest access that was in flight at some time from `from` to `to`. `None` if none of
    /// them took a millisecond.
    pub(crate) fn longest(&self, from: Time, to: Time) -> Option<Duration> {
        let all = self.0.lock();
        let in_flight = all.values().filter(|(begin, end)| *begin <= to && *end >= from);
        in_flight.map(|(begin, end)| *end - *begin).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_access_is_one_that_was_in_flight_in_the_time() {
        let accesses = LongAccesses::default();
        let ms = |ms| Time::ZERO + Duration::from_millis(ms);
        for (begin, end) in [(5, 95), (0, 100), (90, 111), (150, 250), (251, 999)] {
            accesses.note(ms(begin), ms(end));
        }
        // It is too short to count.
        accesses.note(ms(120), ms(120) + LONG / 2);
        let longest = |from, to| accesses.longest(ms(from), ms(to)).map(|it| it.as_millis());
        assert_eq!(longest(98, 120), Some(100));
        assert_eq!(longest(101, 149), Some(21));
        assert_eq!(longest(112, 149), None);
        assert_eq!(longest(112, 250), Some(100));
        assert_eq!(longest(0, 2000), Some(748));
    }
}
