//! [`Flight`]: the state of a batch in flight, request by request.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_simulation::Kernel;
use latchwork_strict::strict_assert;
use latchwork_verbs::{
    AtomicOutcome, BATCH_MAX, Completion, LocalBuffer, Message, Region, Target, VerbError, WORD,
    Words, WorkRequest, WorkRequestKind,
};

use crate::batch::Batch;
use crate::drawn::PIECES_MAX;
use crate::nic::NicFlight;
use crate::send_queue::Lane;

/// The progress of one request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// An earlier request must take effect first, or the batch has not arrived.
    Waiting,
    /// The event at which the request begins is scheduled.
    Scheduled,
    /// The request has begun, and `left` of its pieces are not placed yet.
    Placing {
        left: u8,
    },
    Done,
}

/// The outcome of a request that is about to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The request takes effect.
    Whole,
    /// The connection fails during the request, which takes effect in part or not at all.
    Partly,
    /// The request never takes effect.
    Never,
    /// The poster died under this WRITE, whose first words may take effect.
    Torn,
}

/// The cuts of a READ or WRITE into pieces: the word behind each piece.
#[derive(Clone, Copy, Default)]
struct Cuts {
    ends: [u32; PIECES_MAX],
}

/// A batch between its submission and its completion.
pub(crate) struct Flight {
    pub(crate) batch: Batch,
    pub(crate) lane: Rc<Lane>,
    /// The request during which the connection fails. The length of the batch means behind the last
    /// request.
    pub(crate) cut: Option<usize>,
    /// The first words of the request at the cut that still take effect, if a test has set their
    /// number.
    pub(crate) torn: Option<usize>,
    /// READs and WRITEs copy at most this many bytes.
    pub(crate) payload_max: usize,
    pub(crate) nic: NicFlight,
    arrived: bool,
    steps: [Step; BATCH_MAX],
    cuts: [Cuts; BATCH_MAX],
    outcome: AtomicOutcome,
    error: Option<VerbError>,
    /// After the poster was dropped: a copy of the bytes of each WRITE, because the local buffers
    /// may have another user.
    abandoned: Option<Box<[Option<Arc<Region>>; BATCH_MAX]>>,
}

/// What a request does when it begins.
pub(crate) enum Begin {
    /// The request has taken effect.
    Done,
    /// The request takes effect in this many pieces, at later events.
    Pieces(usize),
    /// The request is a message, which the caller delivers.
    Deliver(Message),
}

impl Flight {
    pub(crate) fn new(lane: &Rc<Lane>, batch: Batch) -> Self {
        Flight {
            batch,
            lane: Rc::clone(lane),
            cut: None,
            torn: None,
            payload_max: usize::MAX,
            nic: NicFlight::default(),
            arrived: false,
            steps: [Step::Waiting; BATCH_MAX],
            cuts: [Cuts::default(); BATCH_MAX],
            outcome: AtomicOutcome::default(),
            error: None,
            abandoned: None,
        }
    }

    /// Resets a completed flight to a new one.
    pub(crate) fn renew(
        &mut self,
        lane: &Rc<Lane>,
        (target, token): (Target, u64),
        requests: &[WorkRequest],
    ) {
        let Flight {
            batch,
            lane: old,
            cut,
            torn,
            payload_max,
            nic,
            arrived,
            steps,
            cuts,
            outcome,
            error,
            abandoned,
        } = self;
        batch.renew(target, token, requests);
        *old = Rc::clone(lane);
        *cut = None;
        *torn = None;
        *payload_max = usize::MAX;
        *nic = NicFlight::default();
        *arrived = false;
        *steps = [Step::Waiting; BATCH_MAX];
        // `cuts` is not reset, because the entry of a request is written before it is read, when
        // the request begins.
        let _ = cuts;
        *outcome = AtomicOutcome::default();
        *error = None;
        *abandoned = None;
    }

    pub(crate) fn arrive(&mut self) {
        self.arrived = true;
    }

    pub(crate) fn len(&self) -> usize {
        self.batch.len
    }

    /// The factor by which this batch is slower: the larger factor of its two ends.
    pub(crate) fn slowness(&self) -> u32 {
        self.lane.own.host.slowness.get().max(self.lane.there.host.slowness.get())
    }

    fn kind(&self, request: usize) -> WorkRequestKind {
        strict_assert!(request < self.batch.len, "request {request} is outside its batch");
        self.batch.requests[request].kind()
    }

    /// Whether one of the first `count` requests of this batch must take effect before a request of
    /// kind `later`, and has not yet taken effect.
    fn holds_back(&self, count: usize, later: WorkRequestKind) -> bool {
        (0..count).any(|i| self.steps[i] != Step::Done && self.kind(i).before(later))
    }

    /// Like [`Flight::holds_back`], for all requests of this batch, and a request of the next
    /// batches on its queue pair.
    pub(crate) fn holds_back_followers(&self, later: WorkRequestKind) -> bool {
        self.holds_back(self.len(), later)
    }

    /// The first waiting request at or behind `from` for which no earlier request of this batch
    /// must take effect first, with its kind. The caller schedules this request, or continues the
    /// search behind it.
    pub(crate) fn ready(&self, from: usize) -> Option<(usize, WorkRequestKind)> {
        if !self.arrived {
            return None;
        }
        let ready =
            |&i: &usize| self.steps[i] == Step::Waiting && !self.holds_back(i, self.kind(i));
        (from..self.len()).find(ready).map(|i| (i, self.kind(i)))
    }

    /// The first request that has not taken effect.
    pub(crate) fn first_open(&self) -> Option<usize> {
        (0..self.len()).find(|&i| self.steps[i] != Step::Done)
    }

    pub(crate) fn scheduled(&mut self, request: usize) {
        strict_assert!(self.steps[request] == Step::Waiting, "a request is scheduled twice");
        self.steps[request] = Step::Scheduled;
    }

    pub(crate) fn done(&mut self, request: usize) {
        self.steps[request] = Step::Done;
        strict_assert!(request < self.len(), "request {request} is outside its batch");
    }

    /// Decides the outcome of a request that is about to begin. When the poster is dead, or the
    /// target does not serve the poster, no later request of the batch begins either. The death of
    /// the poster tears a WRITE to a memory node of more than `whole` bytes.
    pub(crate) fn decide(&mut self, request: usize, whole: u32) -> Fate {
        if self.lane.own.dead.get() {
            self.give_up();
            return self.torn_or_never(request, whole);
        }
        if self.lane.there.host.gone.get() {
            return self.lose_target();
        }
        // The error is the same when the target has fenced the poster, and when the poster has
        // forgotten the target or has not admitted it.
        if self.lane.is_barred() {
            return self.lose_target();
        }
        match self.cut {
            Some(cut) if request > cut => Fate::Never,
            Some(cut) if request == cut && self.is_one_piece(request, whole) => Fate::Never,
            Some(cut) if request == cut => Fate::Partly,
            _ => Fate::Whole,
        }
    }

    /// Whether a request that is cut off changes nothing: a WRITE of at most `whole` bytes to a
    /// memory node. Without a limit, and where a test says how much is placed, it may be torn.
    fn is_one_piece(&self, request: usize, whole: u32) -> bool {
        let to_memory = matches!(self.batch.target, Target::Memory(_));
        let WorkRequest::Write { local, .. } = self.batch.requests[request] else { return false };
        to_memory && whole != u32::MAX && self.torn.is_none() && local.len <= whole
    }

    fn torn_or_never(&self, request: usize, whole: u32) -> Fate {
        let is_long = match self.batch.requests[request] {
            WorkRequest::Write { local, .. } => local.len > whole,
            _ => false,
        };
        let was_next = self.cut.is_none_or(|cut| request < cut);
        let to_memory = matches!(self.batch.target, Target::Memory(_));
        // Nothing takes effect behind a fence, not even in part.
        if is_long && was_next && to_memory && !self.lane.is_fenced() {
            Fate::Torn
        } else {
            Fate::Never
        }
    }

    fn lose_target(&mut self) -> Fate {
        self.error = Some(VerbError::Disconnected { target: self.batch.target });
        self.give_up();
        Fate::Never
    }

    /// Ends the batch with `error` before any request begins.
    pub(crate) fn end(&mut self, error: VerbError) {
        self.error = Some(error);
        self.steps = [Step::Done; BATCH_MAX];
    }

    /// Copies the bytes of each WRITE into the flight. The poster was dropped, so its local buffers
    /// may have another user before the WRITE takes effect.
    pub(crate) fn abandon(&mut self) {
        let regions = self.lane.own.regions.borrow();
        let carried = |request: &WorkRequest| {
            let WorkRequest::Write { local, .. } = request else { return None };
            let kept = Region::zeroed(local.len as usize).ok()?;
            let start = local.offset as usize;
            let here = regions[usize::from(local.region.0)].words();
            kept.words().copy_from(here.slice(start..start + local.len as usize));
            Some(kept)
        };
        let requests = self.batch.requests();
        let carried = std::array::from_fn(|at| requests.get(at).and_then(carried));
        self.abandoned = Some(Box::new(carried));
    }

    fn give_up(&mut self) {
        for step in &mut self.steps {
            if matches!(step, Step::Waiting) {
                *step = Step::Done;
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.steps[..self.len()].iter().all(|step| *step == Step::Done)
    }

    pub(crate) fn completion(&self) -> Completion {
        let target = self.batch.target;
        let error = self.error.or(self.cut.map(|_| VerbError::Ambiguous { target }));
        Completion { token: self.batch.token, result: error.map_or(Ok(self.outcome), Err) }
    }

    /// Begins a request. Atomics, single words, and READs and WRITEs that are not cut into pieces
    /// take effect at once.
    pub(crate) fn begin(&mut self, request: usize, pieces_max: usize, kernel: &Kernel) -> Begin {
        let what = self.batch.requests[request];
        match what {
            WorkRequest::Read { remote, local } | WorkRequest::Write { remote, local } => {
                let words = local.len as usize / WORD;
                if words <= 1 || pieces_max == 1 {
                    strict_assert!(
                        words * WORD == local.len as usize,
                        "a buffer is not whole words"
                    );
                    self.copy(request, remote, local, 0..local.len as usize);
                    return Begin::Done;
                }
                Begin::Pieces(self.cut_into_pieces(request, words, pieces_max, kernel))
            }
            WorkRequest::WriteWord { remote, value } => {
                self.remote(remote, WORD).set_word(0, value);
                Begin::Done
            }
            // The load and the store together are atomic, because the world has one thread and both
            // happen in one event.
            WorkRequest::CompareSwap { remote, expected, desired } => {
                let word = self.remote(remote, WORD);
                let old = word.word(0);
                if old == expected {
                    word.set_word(0, desired);
                }
                self.keep(request, old);
                kernel.note(ATOMIC, remote, old);
                Begin::Done
            }
            WorkRequest::FetchAdd { remote, add } => {
                let word = self.remote(remote, WORD);
                let old = word.word(0);
                word.set_word(0, old.wrapping_add(add));
                self.keep(request, old);
                kernel.note(ATOMIC, remote, old);
                Begin::Done
            }
            WorkRequest::Send(message) => Begin::Deliver(message),
            WorkRequest::ReadIf { .. } => unreachable!("a batch of this fabric has no conditions"),
        }
    }

    /// Begins a request during which the connection fails. Returns the number of pieces that are
    /// still placed, or `None` when the request has no effect at all.
    pub(crate) fn begin_partly(
        &mut self,
        request: usize,
        pieces_max: usize,
        kernel: &Kernel,
    ) -> Option<usize> {
        let what = self.batch.requests[request];
        let (WorkRequest::Read { local, .. } | WorkRequest::Write { local, .. }) = what else {
            return None;
        };
        let words = local.len as usize / WORD;
        if let Some(torn) = self.torn {
            self.tear(request, torn, kernel);
            return None;
        }
        if words <= 1 || pieces_max == 1 {
            return None;
        }
        let pieces = self.cut_into_pieces(request, words, pieces_max, kernel);
        let placed = kernel.random_below(pieces as u64) as usize;
        self.steps[request] = Step::Placing { left: placed as u8 };
        strict_assert!(placed < pieces, "a request that was cut off is whole");
        (placed > 0).then_some(placed)
    }

    /// Places the first `words` words of a READ or WRITE, or all if it has fewer.
    pub(crate) fn tear(&self, request: usize, words: usize, kernel: &Kernel) {
        if let WorkRequest::Read { remote, local } | WorkRequest::Write { remote, local } =
            self.batch.requests[request]
        {
            let len = (words * WORD).min(local.len as usize);
            kernel.note(PIECE, remote, len as u64);
            self.copy(request, remote, local, 0..len);
        }
    }

    /// Places a number of the first words of a WRITE, drawn between none and all.
    pub(crate) fn tear_at_random(&self, request: usize, kernel: &Kernel) {
        let words = self.batch.requests[request].local().map_or(0, |local| local.len / WORD as u32);
        self.tear(request, kernel.random_below(u64::from(words) + 1) as usize, kernel);
    }

    fn cut_into_pieces(
        &mut self,
        request: usize,
        words: usize,
        pieces_max: usize,
        kernel: &Kernel,
    ) -> usize {
        let pieces = 1 + kernel.random_below(pieces_max.min(words) as u64) as usize;
        strict_assert!(
            pieces >= 1 && pieces <= PIECES_MAX.min(words),
            "{pieces} pieces of {words} words"
        );
        let ends = &mut self.cuts[request].ends[..pieces];
        for end in ends.iter_mut() {
            *end = 1 + kernel.random_below(words as u64) as u32;
        }
        ends.sort_unstable();
        ends[pieces - 1] = words as u32;
        strict_assert!(ends.is_sorted(), "pieces out of order");
        self.steps[request] = Step::Placing { left: pieces as u8 };
        pieces
    }

    /// Places a piece of a request; true when this was the last piece.
    pub(crate) fn place(&mut self, request: usize, piece: usize, kernel: &Kernel) -> bool {
        let what = self.batch.requests[request];
        let ends = &self.cuts[request].ends;
        let start = if piece == 0 { 0 } else { ends[piece - 1] as usize * WORD };
        let range = start..ends[piece] as usize * WORD;
        strict_assert!(range.start <= range.end, "a piece ends before it begins");
        if matches!(what, WorkRequest::Write { .. }) && self.lane.own.replaced.get() {
            // Nothing of a replaced node takes effect, not even the rest of a WRITE that has begun.
            self.error = Some(VerbError::Disconnected { target: self.batch.target });
        } else if let WorkRequest::Read { remote, local } | WorkRequest::Write { remote, local } =
            what
        {
            kernel.note(PIECE, remote + range.start as u64, range.len() as u64);
            self.copy(request, remote, local, range);
        }
        let Step::Placing { left } = &mut self.steps[request] else {
            unreachable!("pieces are placed after the request began")
        };
        strict_assert!(*left > 0, "more pieces are placed than the request has");
        *left -= 1;
        *left == 0
    }

    fn copy(&self, request: usize, remote: u64, local: LocalBuffer, range: Range<usize>) {
        let range = range.start.min(self.payload_max)..range.end.min(self.payload_max);
        if range.is_empty() {
            return;
        }
        if let Some(carried) = &self.abandoned {
            // An abandoned READ has no buffer to fill.
            if let Some(carried) = &carried[request] {
                let there = self.remote(remote, local.len as usize).slice(range.clone());
                there.copy_from(carried.words().slice(range));
            }
            return;
        }
        let regions = self.lane.own.regions.borrow();
        let region = &regions[usize::from(local.region.0)];
        let start = local.offset as usize;
        let here = region.words().slice(start + range.start..start + range.end);
        strict_assert!(start + range.end <= region.len(), "a copy leaves its region");
        let there = self.remote(remote, local.len as usize).slice(range);
        match self.kind(request) {
            WorkRequestKind::Read => here.copy_from(there),
            _ => there.copy_from(here),
        }
    }

    fn remote(&self, remote: u64, len: usize) -> Words<'_> {
        let (memory, extent) = self.lane.there.memory.get().expect("checked when posted");
        let start = extent.place(remote) as usize;
        strict_assert!(start + len <= memory.words().len(), "an access leaves the memory node");
        memory.words().slice(start..start + len)
    }

    /// The word before and after `request`, an atomic that has taken effect; `None` for other
    /// requests.
    pub(crate) fn struck(&self, request: usize) -> Option<(u64, u64)> {
        let before = &self.batch.requests[..request];
        let index = before.iter().filter(|r| r.kind() == WorkRequestKind::Atomic).count();
        match self.batch.requests[request] {
            WorkRequest::FetchAdd { add, .. } => {
                let old = self.outcome.old[index];
                Some((old, old.wrapping_add(add)))
            }
            WorkRequest::CompareSwap { expected, desired, .. } => {
                let old = self.outcome.old[index];
                Some((old, if old == expected { desired } else { old }))
            }
            _ => None,
        }
    }

    fn keep(&mut self, request: usize, old: u64) {
        let before = &self.batch.requests[..request];
        let index = before.iter().filter(|r| r.kind() == WorkRequestKind::Atomic).count();
        strict_assert!(index < self.outcome.old.len(), "a batch has too many atomics");
        self.outcome.old[index] = old;
    }
}

/// The kinds of facts that verbs add to the world's event hash.
const ATOMIC: u32 = 0x7665_7201;
const PIECE: u32 = 0x7665_7202;
pub(crate) const MESSAGE: u32 = 0x7665_7203;
pub(crate) const COMPLETION: u32 = 0x7665_7204;
