//! [`SpatialMix`]: how often each kind of operation occurs.

use latchwork_report::histogram::OperationKindSet;

use crate::random::WorkloadRandom;

/// Kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpatialKind {
    /// A new object.
    Insert,
    /// All objects that meet a window.
    Window,
    /// The objects nearest to a point.
    Nearest,
    /// An object goes a step.
    Move,
}

impl SpatialKind {
    const ALL: [SpatialKind; 4] =
        [SpatialKind::Insert, SpatialKind::Window, SpatialKind::Nearest, SpatialKind::Move];
}

impl OperationKindSet for SpatialKind {
    const NAMES: &'static [&'static str] = &["INSERT", "WINDOW", "NEAREST", "MOVE"];

    fn index(self) -> usize {
        self as usize
    }
}

/// The weights of the kinds of operations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpatialMix {
    /// By the order of [`SpatialKind`]; not negative, and not all 0.
    weights: [f64; 4],
}

const NAMES: [&str; 4] = ["insert", "window", "nearest", "move"];

const BUILTIN: [(&str, [f64; 4]); 4] = [
    ("insert", [1.0, 0.0, 0.0, 0.0]),
    ("query", [0.0, 4.0, 1.0, 0.0]),
    ("move", [0.0, 0.0, 0.0, 1.0]),
    ("mixed", [1.0, 4.0, 1.0, 4.0]),
];

impl SpatialMix {
    /// The mix of a name, or of a list of weights such as `window=4,move=1`.
    ///
    /// # Errors
    /// The valid values.
    pub fn parse(text: &str) -> Result<SpatialMix, String> {
        if let Some((_, weights)) = BUILTIN.iter().find(|(name, _)| *name == text) {
            return Ok(SpatialMix { weights: *weights });
        }
        let would_do = || {
            "use insert, query, move or mixed, or weights as in insert=1,window=4,nearest=1,move=4"
                .to_owned()
        };
        let mut weights = [0.0; 4];
        for one in text.split(',') {
            let (name, weight) = one.split_once('=').ok_or_else(would_do)?;
            let at = NAMES.iter().position(|known| *known == name).ok_or_else(would_do)?;
            let weight: f64 = weight.parse().map_err(|_| would_do())?;
            if !(0.0..=1e9).contains(&weight) {
                return Err(would_do());
            }
            weights[at] = weight;
        }
        let is_something = weights.iter().any(|weight| *weight > 0.0);
        is_something.then_some(SpatialMix { weights }).ok_or_else(would_do)
    }

    /// The share of a kind, 0 to 1.
    pub fn share(&self, kind: SpatialKind) -> f64 {
        self.weights[kind.index()] / self.weights.iter().sum::<f64>()
    }

    pub(super) fn draw(&self, random: &mut WorkloadRandom) -> SpatialKind {
        let mut left = random.next_f64() * self.weights.iter().sum::<f64>();
        let mut last = SpatialKind::Window;
        for kind in SpatialKind::ALL {
            let weight = self.weights[kind.index()];
            if weight > 0.0 {
                last = kind;
                if left < weight {
                    return kind;
                }
            }
            left -= weight;
        }
        // Rounding can leave a rest behind the last kind.
        last
    }
}

impl std::fmt::Display for SpatialMix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((name, _)) = BUILTIN.iter().find(|(_, weights)| *weights == self.weights) {
            return f.write_str(name);
        }
        let pairs = NAMES.iter().zip(&self.weights).filter(|(_, weight)| **weight > 0.0);
        let pairs: Vec<String> = pairs.map(|(name, weight)| format!("{name}={weight}")).collect();
        f.write_str(&pairs.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_a_name_or_weights_and_shows_as_it_was_given() {
        for text in ["insert", "query", "move", "mixed", "window=3,move=0.5"] {
            assert_eq!(SpatialMix::parse(text).map(|mix| mix.to_string()), Ok(text.to_owned()));
        }
        for text in
            ["", "swim", "window", "window=x", "window=-1", "window=0", "fly=1", "window=1e99"]
        {
            assert!(SpatialMix::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn kinds_occur_by_their_weights() {
        let mix = SpatialMix::parse("window=3,move=1").expect("a mix");
        assert_eq!(mix.share(SpatialKind::Window), 0.75);
        let mut random = WorkloadRandom::new(1);
        let mut seen = [0; 4];
        (0..10_000).for_each(|_| seen[mix.draw(&mut random).index()] += 1);
        assert!(seen[0] == 0 && seen[2] == 0 && (7_300..7_700).contains(&seen[1]), "{seen:?}");
    }
}
