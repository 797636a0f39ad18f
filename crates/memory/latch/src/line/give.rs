//! Giving a line up: to those who asked for it, or because its frame is needed.

use latchwork_verbs::ComputeNodeId;

use super::{Line, Phase, answer};
use crate::message::{
    Answer, GrantMode, Message, Remembered, Request, RequestKind, TRAVELLING_MAX,
};
use crate::{Action, Hold, LocalCopy, Rules, WordOp};

impl Line {
    pub(super) fn can_serve(&self) -> bool {
        let free = match self.phase {
            Phase::Rest => true,
            // Paused in an upgrade: another writer that comes before this one need not wait.
            Phase::Pausing => self.hold == Hold::Shared,
            _ => false,
        };
        free && !self.unsettled && self.hold != Hold::Nothing
    }

    /// Serves remembered requests, as far as local code permits.
    pub(super) fn serve(
        &mut self,
        rules: &Rules,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        self.refuse_locked_out(copy, out);
        self.refuse_lower(copy, out);
        if self.remembered.is_empty() || !self.can_serve() {
            return;
        }
        match self.hold {
            Hold::Nothing => {}
            Hold::Shared => self.serve_from_shared(rules, copy, out),
            Hold::Exclusive => self.serve_from_exclusive(rules, copy, out),
        }
    }

    /// Who waits for a line that a transaction has locked meanwhile does not go on waiting: not
    /// even where the request could not be served for other reasons.
    fn refuse_locked_out(&mut self, copy: &impl LocalCopy, out: &mut Vec<Action>) {
        if self.remembered.is_empty() || self.hold == Hold::Nothing {
            return;
        }
        let lock = copy.locked();
        self.remembered.retain(|request| {
            let out_of_it = request.kind.is_locked_out_by(lock);
            if out_of_it {
                answer(request, Answer::Busy, out);
            }
            !out_of_it
        });
    }

    /// Readers come to a line that a starved writer has won only with a priority as high as its
    /// was: those below are refused, and each refusal raises them. Priorities end at the same
    /// height for all, so every reader gets there.
    fn refuse_lower(&mut self, copy: &impl LocalCopy, out: &mut Vec<Action>) {
        if self.remembered.is_empty() || self.hold != Hold::Exclusive {
            return;
        }
        let starved = copy.starved();
        self.remembered.retain(|request| {
            let lower = request.kind == RequestKind::Read && request.priority < starved;
            if lower {
                answer(request, Answer::Dropped, out);
            }
            !lower
        });
    }

    fn serve_from_shared(
        &mut self,
        rules: &Rules,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        // A reader that asks a reader saw the time before a downgrade: its wait is ownership now.
        self.remembered.retain(|request| {
            let stale = request.kind == RequestKind::Read;
            if stale {
                answer(request, Answer::Released, out);
            }
            !stale
        });
        let first = self.remembered.iter().copied().max_by_key(|r| (r.priority, r.from));
        let Some(first) = first else { return };
        let stopped = if rules.takeover { copy.try_suspend() } else { copy.try_invalidate() };
        if stopped {
            self.hold = Hold::Nothing;
            out.push(Action::HoldOff { priority: first.priority });
            if rules.takeover {
                self.pledge(first, out);
            } else {
                if self.phase == Phase::Pausing {
                    self.raise_priority(rules);
                }
                self.start(WordOp::ReleaseShared, out);
            }
        }
    }

    fn serve_from_exclusive(
        &mut self,
        rules: &Rules,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        if !rules.forwarding {
            // A lock to read permits readers, but the copy has to stay. They look at the word again
            // behind this, and find that they own the line.
            if copy.locked().is_some() {
                if copy.try_demote() {
                    copy.set_starved(0);
                    self.hold = Hold::Shared;
                    self.start(WordOp::Downgrade, out);
                }
                return;
            }
            // All who wait look at the word again when this is complete.
            if copy.try_invalidate() {
                self.hold = Hold::Nothing;
                self.start(WordOp::ReleaseExclusive, out);
            }
            return;
        }
        // The highest priority, and the first that came among equals.
        let best = (0..self.remembered.len())
            .rev()
            .max_by_key(|&at| self.remembered[at].priority)
            .expect("somebody is remembered");
        match self.remembered[best].kind {
            RequestKind::Write => {
                if copy.try_invalidate() {
                    self.hold = Hold::Nothing;
                    let request = self.remembered.remove(best);
                    let mut travelling = std::mem::take(&mut self.remembered);
                    // A writer that saw several owners has asked each. What it asked the others
                    // must not come to itself: it waits for those answers before it serves anybody.
                    travelling.retain(|other| {
                        let own = other.from == request.from;
                        if own {
                            answer(other, Answer::Released, out);
                        }
                        !own
                    });
                    self.remembered = split_off(rules, &mut travelling);
                    self.grant(request, GrantMode::Exclusive, travelling, out);
                    self.start(WordOp::HandOver(request.from), out);
                }
            }
            RequestKind::Read => {
                if copy.try_demote() {
                    copy.set_starved(0);
                    self.hold = Hold::Shared;
                    let first = self.remembered[best].from;
                    let all = std::mem::take(&mut self.remembered);
                    for request in all {
                        let serve = rules.registered_wait || request.from == first;
                        if request.kind == RequestKind::Read && serve {
                            self.grant(request, GrantMode::Shared, Remembered::new(), out);
                        } else {
                            self.remembered.push(request);
                        }
                    }
                    let op = if rules.registered_wait {
                        WordOp::Downgrade
                    } else {
                        WordOp::DowngradeFor(first)
                    };
                    self.start(op, out);
                }
            }
        }
    }

    /// The line was given back and handed to nobody, and those who asked for it learn of that by
    /// message. Who gave it back knows first, and would be at the word before them, time after
    /// time; so it leaves them a while. Who has not been refused yet is left none: it will most
    /// likely be refused seldom.
    pub(super) fn stand_back(&mut self, rules: &Rules, out: &mut Vec<Action>) {
        let highest = self.remembered.iter().map(|request| request.priority).max();
        let Some(asked) = highest.filter(|_| !rules.forwarding) else { return };
        // Where priorities are not told, nobody knows for whom it is time.
        let priority = if rules.aging { asked } else { rules.priority_max };
        if priority > 0 {
            self.phase = Phase::StandingBack;
            out.push(Action::StandBack { priority });
        }
    }

    fn grant(
        &mut self,
        request: Request,
        mode: GrantMode,
        travelling: Remembered,
        out: &mut Vec<Action>,
    ) {
        self.served.push((request.from, request.seq));
        let message = Message::Grant { asked: request.asked, seq: request.seq, mode, travelling };
        out.push(Action::Forward { request, message });
    }

    /// Sends the requests on to the new owner that found no room in the grant, or came since.
    ///
    /// Each is forgotten here as it is sent, so there is still one of it, which gets one final
    /// answer (R5): the new owner remembers it, or, when it owns the line no more or the request
    /// has overtaken the grant after all, answers `Dropped`, as to any question that it can do
    /// nothing about. In particular a node that asks remembers nobody, so that nobody waits for a
    /// node that waits.
    ///
    /// What the new owner itself has asked others must not come to itself: it waits for those
    /// answers before it serves anybody.
    pub(super) fn pass_on(&mut self, to: ComputeNodeId, out: &mut Vec<Action>) {
        for request in std::mem::take(&mut self.remembered) {
            if request.from == to {
                answer(&request, Answer::Released, out);
            } else {
                out.push(Action::Send { to, message: Message::Request(request) });
            }
        }
    }

    pub(super) fn evict(&mut self, copy: &mut impl LocalCopy, out: &mut Vec<Action>) {
        if !self.is_at_rest() || self.hold == Hold::Nothing || !copy.try_invalidate() {
            return;
        }
        let op = match self.hold {
            Hold::Exclusive => WordOp::ReleaseExclusive,
            _ => WordOp::ReleaseShared,
        };
        self.hold = Hold::Nothing;
        self.start(op, out);
    }
}

/// Leaves as many requests as can travel, those of the highest priority, and returns the others.
fn split_off(rules: &Rules, travelling: &mut Remembered) -> Remembered {
    let most = usize::from(rules.travelling_max).min(TRAVELLING_MAX);
    if travelling.len() <= most {
        return Remembered::new();
    }
    // Stable: among equals the first that came goes first.
    travelling.sort_by_key(|request| std::cmp::Reverse(request.priority));
    travelling.drain(most..).collect()
}
