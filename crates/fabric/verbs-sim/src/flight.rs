//! [`Flight`]: a batch under way, request by request.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_simulation::Kernel;
use latchwork_verbs::{
    BATCH_MAX, Completion, Kind, LocalBuffer, Message, Outcome, Region, Request, Target, VerbError,
    WORD, Words,
};

use crate::drawn::PIECES_MAX;
use crate::lane::Lane;
use crate::nic::NicFlight;

/// A batch as it was posted.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) target: Target,
    pub(crate) token: u64,
    requests: [Request; BATCH_MAX],
    len: usize,
}

impl Batch {
    /// A copy of `requests`, 1 to [`BATCH_MAX`] of them, as a NIC executes them.
    pub(crate) fn new(target: Target, token: u64, requests: &[Request]) -> Self {
        let len = requests.len();
        let requests = std::array::from_fn(|i| requests[i.min(len - 1)].unconditional());
        Batch { target, token, requests, len }
    }

    fn renew(&mut self, target: Target, token: u64, requests: &[Request]) {
        (self.target, self.token, self.len) = (target, token, requests.len());
        for (slot, request) in self.requests.iter_mut().zip(requests) {
            *slot = request.unconditional();
        }
    }

    pub(crate) fn requests(&self) -> &[Request] {
        &self.requests[..self.len]
    }

    /// READs and atomics in it.
    pub(crate) fn reads(&self) -> usize {
        let counts = |r: &&Request| matches!(r.kind(), Kind::Read | Kind::Atomic);
        self.requests().iter().filter(counts).count()
    }
}

/// How far one request is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Requests before it must take effect first, or the batch has not arrived.
    Waiting,
    /// It will begin at an event of its own.
    Scheduled,
    /// It begins; so many pieces are not placed yet.
    Placing {
        left: u8,
    },
    Done,
}

/// What becomes of a request that is about to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It takes effect.
    Whole,
    /// The connection fails while it is under way.
    Partly,
    /// It never takes effect.
    Never,
}

/// The words of a request, cut into pieces.
#[derive(Clone, Copy, Default)]
struct Cuts {
    ends: [u32; PIECES_MAX],
}

/// A batch between its submission and its completion.
pub(crate) struct Flight {
    pub(crate) batch: Batch,
    pub(crate) lane: Rc<Lane>,
    /// Where the connection fails: before this request.
    pub(crate) cut: Option<usize>,
    /// READs and WRITEs copy so many bytes at most.
    pub(crate) payload_max: usize,
    pub(crate) nic: NicFlight,
    arrived: bool,
    steps: [Step; BATCH_MAX],
    cuts: [Cuts; BATCH_MAX],
    outcome: Outcome,
    error: Option<VerbError>,
    /// What its WRITEs carry, by request, once its poster is gone and local buffers are somebody
    /// else's.
    abandoned: Option<Box<[Option<Arc<Region>>; BATCH_MAX]>>,
}

/// What a request does when it begins.
pub(crate) enum Begin {
    /// It is done.
    Done,
    /// It will be placed in so many pieces.
    Pieces(usize),
    /// It is a message, to be delivered now.
    Deliver(Message),
}

impl Flight {
    pub(crate) fn new(lane: &Rc<Lane>, batch: Batch) -> Self {
        Flight {
            batch,
            lane: Rc::clone(lane),
            cut: None,
            payload_max: usize::MAX,
            nic: NicFlight::default(),
            arrived: false,
            steps: [Step::Waiting; BATCH_MAX],
            cuts: [Cuts::default(); BATCH_MAX],
            outcome: Outcome::default(),
            error: None,
            abandoned: None,
        }
    }

    /// Makes this another flight, as if it were new.
    pub(crate) fn renew(
        &mut self,
        lane: &Rc<Lane>,
        (target, token): (Target, u64),
        requests: &[Request],
    ) {
        let Flight {
            batch,
            lane: old,
            cut,
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
        *payload_max = usize::MAX;
        *nic = NicFlight::default();
        *arrived = false;
        *steps = [Step::Waiting; BATCH_MAX];
        // Written before they are read: when a request begins.
        let _ = cuts;
        *outcome = Outcome::default();
        *error = None;
        *abandoned = None;
    }

    pub(crate) fn arrive(&mut self) {
        self.arrived = true;
    }

    pub(crate) fn len(&self) -> usize {
        self.batch.len
    }

    /// How many times as long as usual everything takes on this way.
    pub(crate) fn slowness(&self) -> u32 {
        self.lane.own.host.slowness.get().max(self.lane.there.host.slowness.get())
    }

    fn kind(&self, request: usize) -> Kind {
        self.batch.requests[request].kind()
    }

    /// Whether a request of kind `later`, behind the first `count` of this batch, must still wait.
    fn holds_back(&self, count: usize, later: Kind) -> bool {
        (0..count).any(|i| self.steps[i] != Step::Done && self.kind(i).before(later))
    }

    /// Whether a batch behind this one, on the same queue pair, must wait with a request of this
    /// kind.
    pub(crate) fn holds_back_followers(&self, later: Kind) -> bool {
        self.holds_back(self.len(), later)
    }

    /// A request that nothing in this batch holds back, and its kind. The caller schedules it or
    /// looks for the next from `from` on.
    pub(crate) fn ready(&self, from: usize) -> Option<(usize, Kind)> {
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
        self.steps[request] = Step::Scheduled;
    }

    pub(crate) fn done(&mut self, request: usize) {
        self.steps[request] = Step::Done;
    }

    /// Decides what becomes of a request that is about to begin. When the target is gone, that is
    /// the end of all that have not begun.
    pub(crate) fn decide(&mut self, request: usize) -> Fate {
        if self.lane.own.dead.get() {
            self.give_up();
            return Fate::Never;
        }
        if self.lane.there.host.gone.get() {
            return self.lose_target();
        }
        // Who is told that it is kept out may as well be told that nobody is there.
        if self.lane.there.host.keeps_out(self.lane.own.id) || self.lane.is_given_up() {
            return self.lose_target();
        }
        match self.cut {
            Some(cut) if request > cut => Fate::Never,
            Some(cut) if request == cut => Fate::Partly,
            _ => Fate::Whole,
        }
    }

    fn lose_target(&mut self) -> Fate {
        self.error = Some(VerbError::Disconnected { target: self.batch.target });
        self.give_up();
        Fate::Never
    }

    /// Ends it before it begins.
    pub(crate) fn end(&mut self, error: VerbError) {
        self.error = Some(error);
        self.steps = [Step::Done; BATCH_MAX];
    }

    /// Nobody waits for its end any more, and its local buffers are somebody else's: what it has to
    /// carry, it takes along.
    pub(crate) fn abandon(&mut self) {
        let regions = self.lane.own.regions.borrow();
        let carried = |request: &Request| {
            let Request::Write { local, .. } = request else { return None };
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

    /// Begins a request: atomics and single words take effect at once, and so does all that is not
    /// cut into pieces.
    pub(crate) fn begin(&mut self, request: usize, pieces_max: usize, kernel: &Kernel) -> Begin {
        let what = self.batch.requests[request];
        match what {
            Request::Read { remote, local } | Request::Write { remote, local } => {
                let words = local.len as usize / WORD;
                if words <= 1 || pieces_max == 1 {
                    self.copy(request, remote, local, 0..local.len as usize);
                    return Begin::Done;
                }
                Begin::Pieces(self.cut_into_pieces(request, words, pieces_max, kernel))
            }
            Request::WriteWord { remote, value } => {
                self.remote(remote, WORD).set_word(0, value);
                Begin::Done
            }
            // Load and store are atomic here: one thread, one event.
            Request::CompareSwap { remote, expected, desired } => {
                let word = self.remote(remote, WORD);
                let old = word.word(0);
                if old == expected {
                    word.set_word(0, desired);
                }
                self.keep(request, old);
                kernel.note(ATOMIC, remote, old);
                Begin::Done
            }
            Request::FetchAdd { remote, add } => {
                let word = self.remote(remote, WORD);
                let old = word.word(0);
                word.set_word(0, old.wrapping_add(add));
                self.keep(request, old);
                kernel.note(ATOMIC, remote, old);
                Begin::Done
            }
            Request::Send(message) => Begin::Deliver(message),
            Request::ReadIf { .. } => unreachable!("a batch of this fabric has no conditions"),
        }
    }

    /// Begins a request that the failing connection cuts short: how many pieces are placed.
    pub(crate) fn begin_partly(
        &mut self,
        request: usize,
        pieces_max: usize,
        kernel: &Kernel,
    ) -> Option<usize> {
        let what = self.batch.requests[request];
        let (Request::Read { local, .. } | Request::Write { local, .. }) = what else {
            return None;
        };
        let words = local.len as usize / WORD;
        if words <= 1 || pieces_max == 1 {
            return None;
        }
        let pieces = self.cut_into_pieces(request, words, pieces_max, kernel);
        let placed = kernel.random_below(pieces as u64) as usize;
        self.steps[request] = Step::Placing { left: placed as u8 };
        (placed > 0).then_some(placed)
    }

    fn cut_into_pieces(
        &mut self,
        request: usize,
        words: usize,
        pieces_max: usize,
        kernel: &Kernel,
    ) -> usize {
        let pieces = 1 + kernel.random_below(pieces_max.min(words) as u64) as usize;
        let ends = &mut self.cuts[request].ends[..pieces];
        for end in ends.iter_mut() {
            *end = 1 + kernel.random_below(words as u64) as u32;
        }
        ends.sort_unstable();
        ends[pieces - 1] = words as u32;
        self.steps[request] = Step::Placing { left: pieces as u8 };
        pieces
    }

    /// Places a piece of a request; true when it was the last.
    pub(crate) fn place(&mut self, request: usize, piece: usize, kernel: &Kernel) -> bool {
        let what = self.batch.requests[request];
        let ends = &self.cuts[request].ends;
        let start = if piece == 0 { 0 } else { ends[piece - 1] as usize * WORD };
        let range = start..ends[piece] as usize * WORD;
        if let Request::Read { remote, local } | Request::Write { remote, local } = what {
            kernel.note(PIECE, remote + range.start as u64, range.len() as u64);
            self.copy(request, remote, local, range);
        }
        let Step::Placing { left } = &mut self.steps[request] else {
            unreachable!("pieces are placed after the request began")
        };
        *left -= 1;
        *left == 0
    }

    fn copy(&self, request: usize, remote: u64, local: LocalBuffer, range: Range<usize>) {
        let range = range.start.min(self.payload_max)..range.end.min(self.payload_max);
        if range.is_empty() {
            return;
        }
        if let Some(carried) = &self.abandoned {
            // There is nobody for what a READ brings.
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
        let there = self.remote(remote, local.len as usize).slice(range);
        match self.kind(request) {
            Kind::Read => here.copy_from(there),
            _ => there.copy_from(here),
        }
    }

    fn remote(&self, remote: u64, len: usize) -> Words<'_> {
        let memory = self.lane.there.memory.get().expect("checked when posted");
        memory.words().slice(remote as usize..remote as usize + len)
    }

    /// What an atomic that has taken effect found and left.
    pub(crate) fn struck(&self, request: usize) -> Option<(u64, u64)> {
        let before = &self.batch.requests[..request];
        let index = before.iter().filter(|r| r.kind() == Kind::Atomic).count();
        match self.batch.requests[request] {
            Request::FetchAdd { add, .. } => {
                let old = self.outcome.old[index];
                Some((old, old.wrapping_add(add)))
            }
            Request::CompareSwap { expected, desired, .. } => {
                let old = self.outcome.old[index];
                Some((old, if old == expected { desired } else { old }))
            }
            _ => None,
        }
    }

    fn keep(&mut self, request: usize, old: u64) {
        let before = &self.batch.requests[..request];
        let index = before.iter().filter(|r| r.kind() == Kind::Atomic).count();
        self.outcome.old[index] = old;
    }
}

/// Kinds of facts that verbs fold into the event hash.
const ATOMIC: u32 = 0x7665_7201;
const PIECE: u32 = 0x7665_7202;
pub(crate) const MESSAGE: u32 = 0x7665_7203;
pub(crate) const COMPLETION: u32 = 0x7665_7204;
