//! Giving a line up: for a request of another node, or by an eviction.

use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};
use latchwork_verbs::ComputeNodeId;

use super::{Line, Phase, answer};
use crate::message::{
    Answer, GrantMode, InvalidationRequest, LatchMessage, QueuedRequests, RequestKind,
    TRAVELLING_MAX,
};
use crate::{Action, Hold, LocalCopy, Rules, WordOp};

impl Line {
    pub(super) fn can_serve(&self) -> bool {
        let free = match self.phase {
            Phase::Rest => true,
            // In a back-off of an upgrade, another node's writer need not wait for the end of the
            // back-off.
            Phase::Pausing => self.hold == Hold::Shared,
            _ => false,
        };
        free && !self.unsettled && self.hold != Hold::Nothing
    }

    /// Serves queued requests, as far as local code permits.
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

    /// Refuses the queued requests that a lock of a transaction excludes. This holds even while the
    /// node could not serve these requests for other reasons.
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

    /// Refuses readers whose priority is below that of the starved writer that won the line. Each
    /// refusal raises the priority of a reader. The starved priority is at most
    /// [`Rules::priority_max`], which the priority of a reader reaches, so every reader gets
    /// through.
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
        // A reader sends a request only after it found the exclusive field set. The field is zero
        // while this node shares the line, so the reader's registered wait is ownership by now.
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
        strict_assert_eq!(self.hold, Hold::Shared);
        if stopped {
            strict_assert!(!self.unsettled, "R4: a line is given up before it is settled");
            self.hold = Hold::Nothing;
            out.push(Action::HoldOff { priority: first.priority });
            if rules.takeover {
                strict_assert!(
                    !self.is_upgrading() || self.phase == Phase::Pausing || !rules.binding,
                    "a node whose upgrade is in flight pledges its copy"
                );
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
            // A lock to read permits readers, but the copy has to stay. After the downgrade this
            // node answers the readers, which look at the word again and find that they own the
            // line.
            if copy.locked().is_some() {
                if copy.try_demote() {
                    copy.set_starved(0);
                    self.hold = Hold::Shared;
                    self.start(WordOp::Downgrade, out);
                }
                return;
            }
            // All requesters look at the word again when this operation is complete.
            if copy.try_invalidate() {
                strict_assert!(copy.starved() <= rules.priority_max);
                self.hold = Hold::Nothing;
                self.start(WordOp::ReleaseExclusive, out);
            }
            return;
        }
        strict_assert!(
            !self.remembered.is_empty() && !self.unsettled,
            "R4: a line is served before it is settled"
        );
        // The highest priority; among equals, the request that came first.
        let best = (0..self.remembered.len())
            .rev()
            .max_by_key(|&at| self.remembered[at].priority)
            .expect("somebody is remembered");
        match self.remembered[best].kind {
            RequestKind::Write => {
                if copy.try_invalidate() {
                    self.hold = Hold::Nothing;
                    strict_assert_eq!(
                        self.phase,
                        Phase::Rest,
                        "R1: the line is handed over while an operation is in flight"
                    );
                    let request = self.remembered.remove(best);
                    let mut travelling = std::mem::take(&mut self.remembered);
                    // A writer that saw several owners sent a request to each. Such a request must
                    // not travel to the writer itself: the writer waits for its answer before it
                    // serves any request.
                    travelling.retain(|other| {
                        let own = other.from == request.from;
                        if own {
                            answer(other, Answer::Released, out);
                        }
                        !own
                    });
                    self.remembered = split_off(rules, &mut travelling);
                    strict_assert!(
                        travelling.len() <= usize::from(rules.travelling_max),
                        "more requests travel than the grant has room for"
                    );
                    strict_assert!(
                        travelling.iter().all(|other| other.from != request.from),
                        "a request travels to its own sender"
                    );
                    self.grant(request, GrantMode::Exclusive, travelling, out);
                    self.start(WordOp::HandOver(request.from), out);
                    strict_assert_eq!(self.served.len(), 1, "a hand-over serves one writer");
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
                            self.grant(request, GrantMode::Shared, QueuedRequests::new(), out);
                        } else {
                            self.remembered.push(request);
                        }
                    }
                    strict_assert!(!self.served.is_empty(), "a downgrade serves a reader");
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

    /// Begins a hold-off after a release for other nodes: by an eviction, or because the rules have
    /// no [`Rules::forwarding`].
    ///
    /// 1. The requesters learn of the release by a message, and this node knows of it earlier.
    ///    Without a hold-off, this node would most likely reach the word before the requesters.
    /// 2. A node with few frames may evict the line after each access. Then a request mostly
    ///    arrives during a release, and no hand-over serves the requester.
    /// 3. A requester without an earlier refusal causes no hold-off, because most likely this node
    ///    does not win again and again.
    pub(super) fn hold_off_after_release(&mut self, rules: &Rules, out: &mut Vec<Action>) {
        let highest = self.remembered.iter().map(|request| request.priority).max();
        strict_assert_eq!(self.hold, Hold::Nothing);
        let Some(asked) = highest else { return };
        // Without aging, requests carry no priority. So the hold-off is the longest one.
        let priority = if rules.aging { asked } else { rules.priority_max };
        if priority > 0 {
            strict_assert!(
                priority <= rules.priority_max,
                "a request carries a priority above {}",
                rules.priority_max
            );
            self.phase = Phase::StandingBack;
            out.push(Action::ReleaseHoldOff { priority });
        }
    }

    fn grant(
        &mut self,
        request: InvalidationRequest,
        mode: GrantMode,
        travelling: QueuedRequests,
        out: &mut Vec<Action>,
    ) {
        strict_assert_ne!(request.from, self.me, "a node grants its own request");
        strict_assert!(
            !self.served.contains(&(request.from, request.seq)),
            "a request is granted twice"
        );
        self.served.push((request.from, request.seq));
        strict_assert!(
            mode == GrantMode::Exclusive || travelling.is_empty(),
            "requests travel with exclusive ownership only"
        );
        let message =
            LatchMessage::Grant { asked: request.asked, seq: request.seq, mode, travelling };
        out.push(Action::Forward { request, message });
    }

    /// Sends queued requests on to the new owner: requests without room in the grant, and requests
    /// that arrived after the grant was sent.
    ///
    /// 1. A request leaves this node's queue as it is sent, so the request still exists once.
    /// 2. The new owner handles the request like any other request. The new owner refuses a request
    ///    that overtook the grant, or that arrives after the new owner has given the line up. In
    ///    every case the requester gets one final answer (R5).
    /// 3. A node with open requests and without ownership queues no request. So a request that
    ///    overtook the grant does not wait at a node that waits.
    ///
    /// Requests of the new owner itself are answered here instead: the new owner waits for these
    /// answers before it serves any request.
    pub(super) fn pass_on(&mut self, to: ComputeNodeId, out: &mut Vec<Action>) {
        for request in std::mem::take(&mut self.remembered) {
            if request.from == to {
                answer(&request, Answer::Released, out);
            } else {
                out.push(Action::Send { to, message: LatchMessage::Request(request) });
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

/// Keeps the requests that can travel, those of the highest priority, and returns the others.
fn split_off(rules: &Rules, travelling: &mut QueuedRequests) -> QueuedRequests {
    let most = usize::from(rules.travelling_max).min(TRAVELLING_MAX);
    if travelling.len() <= most {
        return QueuedRequests::new();
    }
    // The sort is stable: among equals, the request that came first goes first.
    travelling.sort_by_key(|request| std::cmp::Reverse(request.priority));
    strict_assert!(travelling.is_sorted_by_key(|request| std::cmp::Reverse(request.priority)));
    travelling.drain(most..).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::unused::Unused;
    use crate::{Event, Seq};

    /// Bug: an assertion took a lock that its transaction was about to give up for one that stays.
    #[test]
    fn a_lock_that_comes_too_late_changes_nothing() {
        let node = |id| ComputeNodeId::new(id).expect("a valid id");
        for kind in [RequestKind::Read, RequestKind::Write] {
            let mut line = Line::at_rest(node(1), Hold::Exclusive, Seq(0));
            let (from, asked, seq, priority, buffer) = (node(2), node(1), Seq(1), 0, 0);
            let request = InvalidationRequest { from, asked, kind, seq, priority, buffer };
            let (event, mut out) = (Event::Received(LatchMessage::Request(request)), Vec::new());
            let mut copy = Unused::default();
            line.step(&Rules::DISCIPLINE, event, &mut copy, &mut out);
            assert!(copy.locked().is_some(), "the line was taken away");
            let grants = |action: &Action| {
                matches!(action, Action::Forward { message: LatchMessage::Grant { .. }, .. })
            };
            assert!(out.iter().any(grants), "{kind:?}: {out:?}");
        }
    }
}
