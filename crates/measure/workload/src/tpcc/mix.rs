//! The choice of the type of a terminal's next transaction.

use latchwork_report::histogram::OperationKindSet;

use super::TransactionKind;
use crate::WorkloadError;
use crate::random::WorkloadRandom;

/// The share of each transaction type, in percent.
///
/// ```
/// use latchwork_workload::tpcc::Weights;
///
/// let weights: Weights = "45,43,4,4,4".parse()?;
/// assert_eq!(weights, Weights::default());
/// assert!(weights.is_standard());
/// let error = "50,50,4,4,4".parse::<Weights>().unwrap_err();
/// assert!(error.to_string().contains("112"));
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weights([u8; 5]);

impl Default for Weights {
    fn default() -> Weights {
        Weights([45, 43, 4, 4, 4])
    }
}

impl Weights {
    /// Weights in the order of [`TransactionKind::ALL`].
    ///
    /// # Errors
    ///
    /// Fails when the weights do not sum to 100.
    pub fn new(weights: [u8; 5]) -> Result<Weights, WorkloadError> {
        match weights.iter().map(|weight| u32::from(*weight)).sum::<u32>() {
            100 => Ok(Weights(weights)),
            sum => Err(WorkloadError::Conflict(format!(
                "the weights {weights:?} sum to {sum}: give five that sum to 100, as 45,43,4,4,4"
            ))),
        }
    }

    /// All weight on one transaction.
    pub fn only(kind: TransactionKind) -> Weights {
        let mut weights = [0; 5];
        weights[kind.index()] = 100;
        Weights(weights)
    }

    /// The share of one transaction, in percent.
    pub fn percent(&self, kind: TransactionKind) -> u32 {
        u32::from(self.0[kind.index()])
    }

    /// Whether a run with these weights has the standard's mix (clause 5.2.3).
    pub fn is_standard(&self) -> bool {
        TransactionKind::ALL.iter().all(|kind| self.percent(*kind) >= kind.least_percent())
    }
}

impl std::str::FromStr for Weights {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Weights, WorkloadError> {
        let bad = || {
            WorkloadError::Conflict(format!(
                "the weights `{text}`: give five whole numbers with commas between them that sum to \
                 100: new order, payment, order status, delivery, stock level, as 45,43,4,4,4"
            ))
        };
        let weights: Vec<u8> = text
            .split(',')
            .map(|weight| weight.trim().parse().map_err(|_| bad()))
            .collect::<Result<_, _>>()?;
        Weights::new(weights.try_into().map_err(|_| bad())?)
    }
}

/// The method of choice. Clause 5.2.4.2 permits both methods.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MixChoice {
    /// A deck of 100 cards, one for each percent of the mix. An empty deck is refilled and
    /// shuffled. So each run of 100 transactions from one deck has the exact mix.
    #[default]
    Deck,
    /// Each transaction is drawn independently, by the weights.
    Independent,
}

/// The sequence of transaction types of one terminal.
#[derive(Clone, Debug)]
pub struct Mix {
    deck: [TransactionKind; 100],
    choice: MixChoice,
    /// Cards that remain in the deck.
    left: usize,
}

impl Mix {
    /// The sequence from its first transaction.
    pub fn new(weights: Weights, choice: MixChoice) -> Mix {
        let mut cards = TransactionKind::ALL
            .into_iter()
            .flat_map(|kind| std::iter::repeat_n(kind, weights.percent(kind) as usize));
        // The weights sum to 100, so the default does not occur.
        let deck = [(); 100].map(|()| cards.next().unwrap_or(TransactionKind::NewOrder));
        Mix { deck, choice, left: 0 }
    }

    /// The next transaction.
    #[inline]
    pub fn draw(&mut self, random: &mut WorkloadRandom) -> TransactionKind {
        if self.choice == MixChoice::Independent {
            return self.deck[random.below(100) as usize];
        }
        if self.left == 0 {
            self.left = self.deck.len();
        }
        // One step of the shuffle of Fisher and Yates for each card, so no draw shuffles the whole
        // deck.
        let drawn = random.below(self.left as u64) as usize;
        self.left -= 1;
        self.deck.swap(drawn, self.left);
        self.deck[self.left]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deck_holds_the_exact_mix_and_another_order_each_time() {
        let (mut mix, mut random) =
            (Mix::new(Weights::default(), MixChoice::Deck), WorkloadRandom::new(1));
        let mut decks = Vec::new();
        for _ in 0..50 {
            let deck: Vec<_> = (0..100).map(|_| mix.draw(&mut random)).collect();
            for kind in TransactionKind::ALL {
                let count = deck.iter().filter(|drawn| **drawn == kind).count() as u32;
                assert_eq!(count, Weights::default().percent(kind));
            }
            decks.push(deck);
        }
        decks.sort();
        decks.dedup();
        assert_eq!(decks.len(), 50);
    }

    #[test]
    fn independent_draws_follow_the_weights_only_on_average() {
        let weights = Weights::new([20, 20, 20, 20, 20]).unwrap();
        let (mut mix, mut random) =
            (Mix::new(weights, MixChoice::Independent), WorkloadRandom::new(2));
        let mut counts = [0u32; 5];
        let mut exact = 0;
        for _ in 0..1_000 {
            let mut hundred = [0u32; 5];
            (0..100).for_each(|_| hundred[mix.draw(&mut random).index()] += 1);
            exact += u32::from(hundred == [20; 5]);
            counts.iter_mut().zip(hundred).for_each(|(sum, count)| *sum += count);
        }
        assert!(exact < 10, "{exact} of 1000 hundreds are exact: that is a deck");
        // Five standard deviations of 126.
        assert!(counts.iter().all(|count| count.abs_diff(20_000) < 632), "{counts:?}");
    }

    #[test]
    fn only_one_kind_is_only_that_kind() {
        for kind in TransactionKind::ALL {
            for choice in [MixChoice::Deck, MixChoice::Independent] {
                let (mut mix, mut random) =
                    (Mix::new(Weights::only(kind), choice), WorkloadRandom::new(3));
                assert!((0..300).all(|_| mix.draw(&mut random) == kind));
            }
        }
    }

    #[test]
    fn bad_weights_are_one_clear_error() {
        for bad in ["", "100", "45,43,4,4", "45,43,4,4,4,0", "45,43,4,4,-4", "45,43,4,4,x", "256,0"]
        {
            let error = bad.parse::<Weights>().unwrap_err().to_string();
            assert!(error.contains("as 45,43,4,4,4") && !error.contains('\n'), "{error}");
        }
        let error = Weights::new([255; 5]).unwrap_err().to_string();
        assert!(error.contains("sum to 1275"), "{error}");
        assert!(!Weights::new([50, 50, 0, 0, 0]).unwrap().is_standard());
    }
}
