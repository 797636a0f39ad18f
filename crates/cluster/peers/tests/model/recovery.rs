//! What [`Steps`] shows: which node has taken which step of which recovery; S6 to S9.

use latchwork_peers::{NodeEpoch, Peers, RecoveryStep};

use crate::world::{Id, Life, Steps, World, is_compute};

const S6_LET_GO: &str = "S6: all that act let go of a dead node before one drains";
const S6_DRAIN: &str = "S6: all that act drain before one closes";
const S7: &str = "S7: all that act have closed before the sweep";
const S7_LATER: &str = "S7: no sweep finds the next holder of the id";
const S8_SWEEP: &str = "S8: a sweep has ended before one clears";
const S8_CLEAR: &str = "S8: no operation names a reclaimed node";
const S9: &str = "S9: what a node closes comes from no dead node with requests left";

impl Steps {
    fn have_swept(&self, dead: NodeEpoch<Id>) -> bool {
        self.ended.iter().any(|(step, of, _)| (*step, *of) == (RecoveryStep::Sweep, dead))
    }
}

fn fault(is_wrong: bool, what: &'static str) -> Option<&'static str> {
    is_wrong.then_some(what)
}

impl World {
    fn has_ended(&self, step: RecoveryStep, dead: NodeEpoch<Id>, by: NodeEpoch<Id>) -> bool {
        self.recovered.as_ref().is_some_and(|steps| steps.ended.contains(&(step, dead, by)))
    }

    /// Whether all living compute nodes that act have ended the step.
    fn all_have_ended(&self, step: RecoveryStep, dead: NodeEpoch<Id>) -> bool {
        self.lives.iter().filter(|life| life.acts).all(|life| self.has_ended(step, dead, life.me))
    }

    /// Whether the dead node can change nothing at the living nodes that it may have reached.
    pub(crate) fn is_cut_off(&self, dead: &Life) -> bool {
        let Some((death, true)) = dead.end else { return false };
        let has_fenced = |life: &Life| life.fenced[usize::from(dead.me.node)] >= dead.me.epoch;
        self.lives.iter().filter(|life| life.lives() && life.me.epoch < death).all(has_fenced)
    }

    /// A node is about to act.
    pub(crate) fn credit(&mut self, me: NodeEpoch<Id>) {
        let Some(mut steps) = self.recovered.take() else { return };
        steps.acted.insert(me);
        self.recovered = Some(steps);
        let has_died = |life: &&Life| is_compute(life.me.node) && life.end.is_some_and(|end| end.1);
        let dead: Vec<_> = self.lives.iter().filter(has_died).map(|life| life.me).collect();
        for dead in dead {
            let mut credit = Vec::new();
            if self.all_have_ended(RecoveryStep::Close, dead) {
                credit.extend([RecoveryStep::LetGo, RecoveryStep::Drain, RecoveryStep::Close]);
            }
            let steps = self.recovered.as_mut().expect("put back above");
            credit.extend(steps.have_swept(dead).then_some(RecoveryStep::Clear));
            steps.ended.extend(credit.into_iter().map(|step| (step, dead, me)));
        }
    }

    /// What is wrong when the machine asks for a step.
    pub(crate) fn begins(
        &self,
        by: NodeEpoch<Id>,
        step: RecoveryStep,
        dead: NodeEpoch<Id>,
    ) -> Option<&'static str> {
        use RecoveryStep::{Clear, Close, Drain, LetGo, Sweep};
        let steps = self.recovered.as_ref()?;
        match step {
            LetGo => None,
            Drain => fault(!self.all_have_ended(LetGo, dead), S6_LET_GO),
            Close => {
                let is_clean = |other: &&NodeEpoch<Id>| match self.life(**other).end {
                    Some((_, false)) => true,
                    Some((_, true)) if self.all_have_ended(Drain, **other) => true,
                    _ => self.has_ended(Drain, dead, **other),
                };
                let mut others = steps.acted.iter().filter(|it| **it != by && **it != dead);
                fault(!self.all_have_ended(Drain, dead), S6_DRAIN)
                    .or(fault(!others.all(|other| is_clean(&other)), S9))
            }
            Sweep => fault(!self.all_have_ended(Close, dead), S7),
            Clear => fault(!steps.have_swept(dead), S8_SWEEP),
        }
    }

    /// What is wrong when a step takes effect. Only a sweep can do so without success.
    pub(crate) fn recovers(
        &mut self,
        by: NodeEpoch<Id>,
        step: RecoveryStep,
        dead: NodeEpoch<Id>,
        is_certain: bool,
    ) -> Option<&'static str> {
        let has_acted = self.recovered.as_ref().is_some_and(|steps| steps.acted.contains(&dead));
        let wrong = match step {
            RecoveryStep::Close => fault(!self.all_have_ended(RecoveryStep::Drain, dead), S6_DRAIN),
            RecoveryStep::Sweep => {
                // A sweep finds nothing of a node that has never acted.
                let holder = self.slots[usize::from(dead.node)].filter(|_| has_acted);
                fault(!self.all_have_ended(RecoveryStep::Close, dead), S7)
                    .or(fault(holder.is_some_and(|epoch| epoch > dead.epoch), S7_LATER))
            }
            _ => None,
        };
        let steps = self.recovered.as_mut().expect("the setting recovers");
        if is_certain {
            steps.ended.insert((step, dead, by));
        }
        wrong
    }

    /// What is wrong when the reclaim of a dead node takes effect.
    pub(crate) fn reclaims(&self, dead: NodeEpoch<Id>) -> Option<&'static str> {
        let steps = self.recovered.as_ref()?;
        let is_clear = |other: &NodeEpoch<Id>| {
            let life = self.life(*other);
            let has_left = matches!(life.end, Some((_, false)));
            let has_ended = self.has_ended(RecoveryStep::Clear, dead, *other);
            has_left || has_ended || self.is_cut_off(life)
        };
        let mut others = steps.acted.iter().filter(|other| **other != dead);
        fault(!steps.have_swept(dead) || !others.all(is_clear), S8_CLEAR)
    }

    /// What a node takes out of words ahead of the sweep is what a sweep of it may take out now.
    pub(crate) fn may_mend(&self) -> bool {
        let machines = self.lives.iter().filter(|life| life.lives() && life.acts);
        let mut mendable =
            machines.filter_map(|life| life.machine.as_ref()).flat_map(Peers::mendable);
        mendable.all(|dead| {
            let holder = self.slots[usize::from(dead.node)];
            self.all_have_ended(RecoveryStep::Close, dead)
                && holder.is_none_or(|epoch| epoch <= dead.epoch)
        })
    }

    /// Whether each living node has closed each dead node of which it has let go. Until then it
    /// sends no requests.
    pub(crate) fn is_none_quiet(&self) -> bool {
        let Some(steps) = &self.recovered else { return true };
        let ended = steps.ended.iter().filter(|(_, _, by)| self.life(*by).lives());
        let mut let_go = ended.filter(|(step, _, _)| *step == RecoveryStep::LetGo);
        let_go.all(|(_, dead, by)| self.has_ended(RecoveryStep::Close, *dead, *by))
    }
}
