//! The subject of a measurement, with one call per repetition: a structure with its data.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use latchwork_runtime::Clock;

use crate::args::{Structure, Workload};
use crate::content::{Content, key};
use crate::draws::{BATCH, Draws, SCANNED, SCANS};
use crate::error::{Failure, Wrong};
use crate::map::{Map, ScanCheck, Session};
use crate::timer::{Timer, pin};

/// One repetition.
pub(crate) struct Job<'a> {
    pub(crate) workload: Workload,
    pub(crate) threads: usize,
    /// The draws of each thread.
    pub(crate) draws: &'a [Arc<Draws>],
    /// The first batch, which differs between repetitions.
    pub(crate) start: usize,
    pub(crate) time: Duration,
    pub(crate) clock: Clock,
}

/// A structure that can be filled, measured and emptied.
pub(crate) trait Subject {
    fn structure(&self) -> Structure;
    /// Whether the structure can do a workload with this number of threads.
    fn can(&self, workload: Workload, threads: usize) -> bool;
    /// Makes a new empty structure. If room must be known beforehand, it has room for `keys` keys.
    fn prepare(&mut self, keys: u64) -> Result<(), Failure>;
    /// Inserts `keys` keys, one by one, and returns keys per second. One thread is always possible.
    fn load(&mut self, keys: u64, threads: usize, clock: Clock) -> Result<f64, Failure>;
    /// Frees memory that is no longer in use, for structures that free it later.
    fn settle(&self, _keys: u64) -> Result<(), Failure> {
        Ok(())
    }
    /// Bytes of frames with data, for a structure that does not take them from the allocator.
    fn frame_bytes(&self) -> usize {
        0
    }
    /// Operations per second; entries for scans.
    fn measure(&self, job: &Job<'_>) -> Result<f64, Failure>;
    /// Frees everything.
    fn clear(&mut self);
}

/// Number of threads that settle a structure, one after the other.
const SETTLE_THREADS: u64 = 4;
/// Reads of each of these threads.
const SETTLE_READS: u64 = 50_000;

/// A structure of another crate.
pub(crate) struct Rival<M> {
    structure: Structure,
    map: Option<M>,
}

impl<M> Rival<M> {
    pub(crate) fn new(structure: Structure) -> Rival<M> {
        Rival { structure, map: None }
    }
}

impl<M: Map> Rival<M> {
    /// Runs `body` on each thread. All threads start together.
    fn threads<T: Send>(
        &self,
        threads: usize,
        body: impl Fn(usize, &M) -> Result<T, Wrong> + Sync,
    ) -> Result<Vec<T>, Failure> {
        let map = self.map.as_ref().expect("a structure is filled before it is measured");
        let barrier = Barrier::new(threads);
        let (body, barrier) = (&body, &barrier);
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|thread| {
                    scope.spawn(move || {
                        pin(thread);
                        barrier.wait();
                        body(thread, map)
                    })
                })
                .collect();
            let ends: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
            let structure = crate::report::name(self.structure);
            ends.into_iter()
                .map(|end| match end {
                    Ok(result) => result.map_err(|wrong| Failure::Wrong { structure, wrong }),
                    Err(_) => Err(Failure::Panicked { structure }),
                })
                .collect()
        })
    }
}

impl<M: Map> Subject for Rival<M> {
    fn structure(&self) -> Structure {
        self.structure
    }

    fn can(&self, workload: Workload, _threads: usize) -> bool {
        match workload {
            Workload::Scan => M::ORDERED,
            // None of these structures has a call for several keys.
            Workload::Interleaved | Workload::Tasks => false,
            _ => true,
        }
    }

    fn prepare(&mut self, _keys: u64) -> Result<(), Failure> {
        self.map = Some(M::new());
        Ok(())
    }

    fn load(&mut self, keys: u64, threads: usize, clock: Clock) -> Result<f64, Failure> {
        let spans = self.threads(threads, |thread, map| {
            let begin = clock.now();
            let mut share = (thread as u64..keys).step_by(threads).map(key);
            loop {
                let mut session = map.session();
                let mut inserted = 0;
                for key in share.by_ref().take(BATCH) {
                    if !session.insert(key, M::Value::new(key, 0)) {
                        return Err(Wrong::Known(key));
                    }
                    inserted += 1;
                }
                if inserted < BATCH {
                    return Ok((begin, clock.now()));
                }
            }
        })?;
        Ok(rate_of_spans(keys, &spans))
    }

    /// A structure frees its retired memory when threads enter and leave its epochs.
    fn settle(&self, keys: u64) -> Result<(), Failure> {
        let read_all = |_, map: &M| {
            (0..SETTLE_READS).try_for_each(|i| read(&mut map.session(), key(i % keys)))
        };
        for _ in 0..SETTLE_THREADS {
            self.threads(1, read_all)?;
        }
        Ok(())
    }

    fn measure(&self, job: &Job<'_>) -> Result<f64, Failure> {
        let rates = self.threads(job.threads, |thread, map| {
            let mut timer = Timer::start(job.clock, job.time);
            let draws = &job.draws[thread];
            let mut batch = job.start;
            match job.workload {
                Workload::Scan => loop {
                    scans(&mut map.session(), draws, batch)?;
                    if !timer.go_on(SCANS * SCANNED) {
                        break;
                    }
                    batch += 1;
                },
                Workload::Update => loop {
                    updates(&mut map.session(), draws, batch)?;
                    if !timer.go_on(BATCH) {
                        break;
                    }
                    batch += 1;
                },
                _ => loop {
                    reads(&mut map.session(), draws, batch)?;
                    if !timer.go_on(BATCH) {
                        break;
                    }
                    batch += 1;
                },
            }
            Ok(timer.rate())
        })?;
        Ok(rates.iter().sum())
    }

    fn clear(&mut self) {
        self.map = None;
    }
}

#[inline]
fn read<V: Content>(session: &mut impl Session<V>, key: u64) -> Result<(), Wrong> {
    match session.get(key) {
        Some(seen) if V::is_of(key, seen) => Ok(()),
        Some(_) => Err(Wrong::Value(key)),
        None => Err(Wrong::Missing(key)),
    }
}

fn reads<V: Content>(
    session: &mut impl Session<V>,
    draws: &Draws,
    batch: usize,
) -> Result<(), Wrong> {
    draws.points(batch).0.iter().try_for_each(|key| read(session, *key))
}

fn updates<V: Content>(
    session: &mut impl Session<V>,
    draws: &Draws,
    batch: usize,
) -> Result<(), Wrong> {
    let (keys, coins) = draws.points(batch);
    for (i, &key) in keys.iter().enumerate() {
        if coins >> i & 1 == 0 {
            read(session, key)?;
        } else if !session.update(key, V::new(key, batch as u16)) {
            return Err(Wrong::Missing(key));
        }
    }
    Ok(())
}

fn scans<V: Content>(
    session: &mut impl Session<V>,
    draws: &Draws,
    batch: usize,
) -> Result<(), Wrong> {
    for &range in draws.ranges(batch) {
        let mut check = ScanCheck::new(range);
        session.scan(range.from, |key, seen| check.visit::<V>(key, seen));
        check.end()?;
    }
    Ok(())
}

/// Keys per second, for `keys` keys from the first start to the last end.
pub(crate) fn rate_of_spans(
    keys: u64,
    spans: &[(latchwork_runtime::Time, latchwork_runtime::Time)],
) -> f64 {
    let begin = spans.iter().map(|(begin, _)| *begin).min();
    let end = spans.iter().map(|(_, end)| *end).max();
    match (begin, end) {
        (Some(begin), Some(end)) => keys as f64 / (end - begin).as_secs_f64().max(1e-9),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Distribution;
    use crate::content::Seen;
    use crate::draws::Source;
    use crate::rivals::LockedBTreeMap;

    /// Right, except for the one seeded bug.
    struct Liar<const LIE: u8>(LockedBTreeMap<u64>);

    const FORGETS: u8 = 1;
    const MIXES_UP: u8 = 2;
    const SKIPS: u8 = 3;
    const LOSES_UPDATES: u8 = 4;

    impl<const LIE: u8> Map for Liar<LIE> {
        type Value = u64;
        type Session<'m> = &'m Self;
        const ORDERED: bool = true;

        fn new() -> Self {
            Liar(LockedBTreeMap::new())
        }

        fn session(&self) -> &Self {
            self
        }
    }

    impl<const LIE: u8> Session<u64> for &Liar<LIE> {
        fn insert(&mut self, key: u64, value: u64) -> bool {
            (&self.0).insert(key, value)
        }

        fn get(&mut self, key: u64) -> Option<Seen> {
            let lies = key & 0xff == 7;
            match LIE {
                FORGETS if lies => None,
                MIXES_UP if lies => Some(u64::new(!key, 0).seen()),
                _ => (&self.0).get(key),
            }
        }

        fn update(&mut self, key: u64, value: u64) -> bool {
            LIE != LOSES_UPDATES && (&self.0).update(key, value)
        }

        fn scan(&mut self, from: u64, mut visit: impl FnMut(u64, Seen)) {
            let mut shown = 0;
            (&self.0).scan(from, |key, seen| {
                shown += 1;
                if LIE != SKIPS || shown != 50 {
                    visit(key, seen);
                }
            });
        }
    }

    fn wrong<const LIE: u8>(workload: Workload) -> Option<Wrong> {
        let clock = Clock::start();
        let mut subject = Rival::<Liar<LIE>>::new(Structure::Btreemap);
        subject.prepare(5000).expect("an empty structure");
        subject.load(5000, 2, clock).expect("a load that is right");
        let source = Source::new(5000, 1);
        let draws = source.draws(Distribution::Uniform, 1, 0).unwrap();
        let draws = [Arc::new(draws)];
        let time = Duration::from_millis(20);
        let job = Job { workload, threads: 1, draws: &draws, start: 0, time, clock };
        match subject.measure(&job) {
            Ok(rate) => {
                assert!(rate > 0.0);
                None
            }
            Err(Failure::Wrong { wrong, .. }) => Some(wrong),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn every_kind_of_wrong_answer_ends_the_run() {
        for workload in [Workload::Read, Workload::Update, Workload::Scan] {
            assert_eq!(wrong::<0>(workload), None);
        }
        assert!(matches!(wrong::<FORGETS>(Workload::Read), Some(Wrong::Missing(_))));
        assert!(matches!(wrong::<MIXES_UP>(Workload::Read), Some(Wrong::Value(_))));
        assert!(matches!(wrong::<SKIPS>(Workload::Scan), Some(Wrong::Scan(_))));
        assert!(matches!(wrong::<LOSES_UPDATES>(Workload::Update), Some(Wrong::Missing(_))));
    }

    #[test]
    fn a_structure_that_is_loaded_twice_is_noticed() {
        let mut subject = Rival::<LockedBTreeMap<u64>>::new(Structure::Btreemap);
        subject.prepare(1).expect("an empty structure");
        subject.map.as_ref().unwrap().session().insert(key(3), 0);
        let again = subject.threads(1, |_, map| {
            let new = map.session().insert(key(3), 0);
            if new { Ok(()) } else { Err(Wrong::Known(key(3))) }
        });
        assert!(matches!(again, Err(Failure::Wrong { wrong: Wrong::Known(_), .. })));
    }
}
