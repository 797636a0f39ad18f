//! Giving a line up: to those who asked for it, or because its frame is needed.

use super::{Line, Phase, answer};
use crate::message::{Answer, GrantMode, Message, Remembered, Request, RequestKind};
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
        if self.remembered.is_empty() || !self.can_serve() {
            return;
        }
        match self.hold {
            Hold::Nothing => {}
            Hold::Shared => self.serve_from_shared(rules, copy, out),
            Hold::Exclusive => self.serve_from_exclusive(rules, copy, out),
        }
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
        let Some(priority) = self.remembered.iter().map(|r| r.priority).max() else { return };
        if copy.try_invalidate() {
            self.hold = Hold::Nothing;
            if self.phase == Phase::Pausing {
                self.raise_priority(rules);
            }
            out.push(Action::HoldOff { priority });
            self.start(WordOp::ReleaseShared, out);
        }
    }

    fn serve_from_exclusive(
        &mut self,
        rules: &Rules,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
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
                    // A writer that saw several owners has asked each. What it asked the others must
                    // not come to itself: it waits for those answers before it serves anybody.
                    travelling.retain(|other| {
                        let own = other.from == request.from;
                        if own {
                            answer(other, Answer::Released, out);
                        }
                        !own
                    });
                    self.grant(request, GrantMode::Exclusive, travelling, out);
                    self.start(WordOp::HandOver(request.from), out);
                }
            }
            RequestKind::Read => {
                if copy.try_demote() {
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
