//! From what three places say to one command line.

use clap::Command;

use super::given::{Given, Origin};
use crate::AppError;

/// What counts of what was given, weakest first, as lists want it. `layers` are the strongest
/// first.
///
/// A stronger layer's value hides a weaker one's, and those of flags that it excludes: `--only
/// payment` wins over `weight` in a file. Lists are put one behind the other.
pub(super) fn merge(layers: [Vec<Given>; 3]) -> Result<Vec<Given>, AppError> {
    let mut kept: Vec<Given> = Vec::new();
    for layer in layers {
        // Of two switches that exclude each other one may be off.
        let active: Vec<&Given> = layer.iter().filter(|given| !given.is_idle()).collect();
        for (at, one) in active.iter().enumerate() {
            let other = active[at + 1..].iter().find(|other| one.flag.excludes(&other.flag));
            let Some(other) = other else { continue };
            // Clap has checked the flags of the command line.
            let (one, other) = match (&one.origin, &other.origin) {
                (Origin::CommandLine, Origin::CommandLine) => continue,
                (Origin::CommandLine, _) => (other, one),
                _ => (one, other),
            };
            let (name, origin) = (&other.flag.name, &other.origin);
            let what = format!("it cannot be used with {name} ({origin}); leave one of them out");
            return Err(one.origin.wrong(&one.flag.name, what));
        }
        let stronger = kept.len();
        for given in layer {
            let hidden = kept[..stronger].iter().any(|other| {
                let same = other.flag.id == given.flag.id && !given.flag.is_list;
                same || !other.is_idle() && !given.is_idle() && other.flag.excludes(&given.flag)
            });
            if !hidden {
                kept.push(given);
            }
        }
    }
    kept.reverse();
    Ok(kept)
}

/// Looks at each value by itself, and tells what is wrong of the place where it is written.
pub(super) fn check(given: &[Given], relaxed: &Command) -> Result<(), AppError> {
    let written = given.iter().filter(|given| given.origin != Origin::CommandLine);
    written.into_iter().try_for_each(|given| given.check(relaxed))
}
