//! [`Session`]: the inputs of one target, and the classes that they reached.

use std::collections::BTreeSet;

use crate::{Corpus, FuzzTarget, Mutator};

/// The highest number of classes of a session, and so of inputs that it keeps.
const KEPT_MAX: usize = 4096;

/// One target, its reached classes, and the source of the next input.
#[derive(Debug)]
pub struct Session {
    target: FuzzTarget,
    mutator: Mutator,
    inputs: Vec<Vec<u8>>,
    classes: BTreeSet<String>,
}

impl Session {
    /// A session that begins with a corpus. The same seed gives the same inputs, if the target
    /// returns the same classes.
    pub fn new(target: FuzzTarget, corpus: &Corpus, seed: u64) -> Session {
        let mut inputs: Vec<_> = corpus.inputs.iter().map(|(_, input)| input.clone()).collect();
        if inputs.is_empty() {
            inputs.push(Vec::new());
        }
        Session { target, mutator: Mutator::new(seed), inputs, classes: BTreeSet::new() }
    }

    /// A new input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let Session { target, mutator, inputs, .. } = self;
        // Half of the time one of the latest inputs is chosen, because these are the most unusual.
        let recent = inputs.len().saturating_sub(16);
        let at = match mutator.one_in(2) {
            true => recent + mutator.below(inputs.len() - recent),
            false => mutator.below(inputs.len()),
        };
        let partner = mutator.below(inputs.len());
        mutator.set_partner(&inputs[partner]);
        let mut input = inputs[at].clone();
        (target.mutate)(mutator, &mut input);
        input
    }

    /// Records that the target returned `class` for `input`. Returns whether the class is new. The
    /// session keeps an input with a new class.
    pub fn took(&mut self, input: &[u8], class: String) -> bool {
        let is_new = self.classes.len() < KEPT_MAX && self.classes.insert(class);
        if is_new {
            self.inputs.push(input.to_vec());
        }
        is_new
    }

    /// All reached classes.
    pub fn classes(&self) -> &BTreeSet<String> {
        &self.classes
    }
}
