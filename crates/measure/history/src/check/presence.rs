//! Observations: a reader that knows only whether a key existed, and not in which version. The
//! times of the writes decide which states the reader may have seen.
//!
//! Two kinds of reads have no version. A purged tombstone leaves no trace, so an absent row may be
//! a row before its insert or after any of its deletions. An entry of an index has no version at
//! all. The reader saw the state after the last write that was over before the reader began, or
//! after a write that ran beside the reader:
//!
//! ```text
//!   put ──── delete ──── put ──── delete ────────────── put         versions of a key
//!   |over before the reader began|   |while it ran|  |after it|
//!                          ▲                ▲
//!                 the last of these, or one of these
//! ```
//!
//! If several states are possible, [`choice`](super::choice) searches for one that fits.

use std::ops::Range;

use latchwork_strict::strict_assert;

use super::choice::{Candidate, Choice};
use super::graph::Builder;
use super::index::{Index, Written};
use super::report::{Class, Findings, name};

/// Times of versions. Binary searches in them find the versions around a reader.
pub(crate) struct Times {
    /// For each version, the latest end among it and the earlier versions of its key.
    ended: Vec<u64>,
    /// For each version, the earliest begin among it and the later versions of its key.
    began: Vec<u64>,
    /// Whether time agrees with the order of versions, for each key. Time disagrees if the writer
    /// of a later version was over before the writer of an earlier version began.
    in_time: Vec<bool>,
}

impl Times {
    pub(crate) fn new(index: &Index<'_>) -> Times {
        let all = index.versions.all();
        let begin = |written: &Written| index.transaction(written.writer).begin;
        let mut ended: Vec<u64> = all.iter().map(|written| index.over(written.writer)).collect();
        let mut began: Vec<u64> = all.iter().map(begin).collect();
        let mut in_time = vec![true; index.keys.len()];
        for key in 0..index.keys.len() as u32 {
            let place = index.versions.place(key);
            let mut end_behind = u64::MAX;
            for at in place.clone().rev() {
                in_time[key as usize] &= began[at] <= end_behind;
                end_behind = end_behind.min(ended[at]);
            }
            for at in place.clone().skip(1) {
                ended[at] = ended[at].max(ended[at - 1]);
            }
            for at in place.rev().skip(1) {
                began[at] = began[at].min(began[at + 1]);
            }
        }
        strict_assert!(
            ended.len() == all.len() && began.len() == all.len(),
            "a version has no time"
        );
        Times { ended, began, in_time }
    }

    pub(crate) fn in_time(&self, key: u32) -> bool {
        self.in_time[key as usize]
    }
}

/// One reader, one key, and whether the reader found the key. The version is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    pub(crate) reader: u32,
    pub(crate) key: u32,
    pub(crate) is_there: bool,
    pub(crate) is_range: bool,
}

impl Observation {
    /// Adds the edges of the observed state if only one state is possible. Adds a [`Choice`] if
    /// several are.
    pub(crate) fn settle(
        self,
        index: &Index<'_>,
        times: &Times,
        graph: &mut Builder,
        findings: &mut Findings,
        choices: &mut Vec<Choice>,
    ) {
        let Observation { reader, key, is_there, is_range } = self;
        let me = index.transaction(reader);
        let may_have_made_it_so = |written: &Written| {
            let begin = index.transaction(written.writer).begin;
            written.change.is_put() == is_there && begin <= me.end
        };
        if index.open.of(key).iter().any(may_have_made_it_so) {
            findings.report.undecided += 1;
            return;
        }
        let candidates = self.candidates(index, times);
        let choice = Choice { reader, key, is_range, candidates };
        strict_assert!(
            choice.candidates.iter().all(
                |candidate| candidate.after != Some(reader) || candidate.before != Some(reader)
            ),
            "a reader comes before itself"
        );
        match choice.candidates.len() {
            0 => {
                let text = format!("found {}, and nobody put it there", name(index, key));
                findings.add(Class::Unwritten, &[me.id], text);
            }
            1 => choice.take(0, graph),
            _ => choices.push(choice),
        }
    }

    /// The possible states. Empty if the reader found a row that no transaction put.
    fn candidates(self, index: &Index<'_>, times: &Times) -> Vec<Candidate> {
        let Observation { reader, key, is_there, .. } = self;
        let (versions, place) = (index.versions.of(key), index.versions.place(key));
        // The run of versions around `at` in which presence is `is_there`. With `None`, the run at
        // the start.
        let run = |at: Option<usize>| {
            // A reader's own write ends a run: the reader's later reads of the key find this write,
            // and are not recorded.
            let is_same = |written: &&Written| {
                written.change.is_put() == is_there && written.writer != reader
            };
            let from = at
                .map_or(0, |at| at + 1 - versions[..=at].iter().rev().take_while(is_same).count());
            let next = at.map_or(0, |at| at + 1);
            from..next + versions[next..].iter().take_while(is_same).count()
        };
        let candidate = |run: &Range<usize>| {
            // The state at the start lasts until a write changes it, so no writer began it.
            let is_start = run.is_empty() || run.start == 0 && starts(index, is_there);
            Candidate {
                after: Some(run.start).filter(|_| !is_start).map(|at| versions[at].writer),
                before: versions.get(run.end).map(|written| written.writer),
            }
        };
        let me = index.transaction(reader);
        let overlap_from = times.ended[place.clone()].partition_point(|end| *end < me.begin);
        let overlap_to =
            times.began[place].partition_point(|begin| *begin <= me.end).max(overlap_from);
        let is_over = |at: usize| index.over(versions[at].writer) < me.begin;
        strict_assert!(
            overlap_from <= overlap_to && overlap_to <= versions.len(),
            "versions beside the reader end before they begin"
        );
        let over = (0..overlap_to).rev().find(|at| *at < overlap_from || is_over(*at));
        // The state when the reader began.
        let stood = match over {
            Some(at) if versions[at].change.is_put() == is_there => Some(run(Some(at))),
            None if starts(index, is_there) => Some(run(None)),
            _ => None,
        };
        let mut found: Vec<Candidate> = stood.iter().map(candidate).collect();
        let mut last = 0..0;
        let around = versions.iter().enumerate().take(overlap_to).skip(overlap_from);
        for (at, written) in around {
            let is_known =
                last.contains(&at) || stood.as_ref().is_some_and(|run| run.contains(&at));
            if is_known || written.writer == reader || written.change.is_put() != is_there {
                continue;
            }
            let begin = index.transaction(written.writer).begin;
            if begin <= me.end && index.over(written.writer) >= me.begin {
                last = run(Some(at));
                found.push(candidate(&last));
            }
        }
        if found.is_empty() {
            // No state agrees with time. The reader gets the last state before its begin in which
            // presence is `is_there`. The graph then has a cycle if other edges contradict this
            // state.
            let before = (0..over.unwrap_or(0)).rev();
            let same = before.into_iter().find(|at| versions[*at].change.is_put() == is_there);
            if same.is_some() || starts(index, is_there) {
                found.push(candidate(&run(same)));
            }
        }
        found
    }
}

/// Whether a key may have been present (or absent) at the start of the history. A key may have been
/// present only if the database was not empty.
fn starts(index: &Index<'_>, is_there: bool) -> bool {
    !is_there || index.history.base > 0
}
