//! Merges the flags of three sources: command line, environment and file.

use clap::Command;

use super::given::{Given, Origin};
use crate::AppError;

/// The flags that count, the weakest source first. `layers` has the strongest source first. The
/// order of the result gives lists the right order.
///
/// A flag of a stronger layer hides the same flag of a weaker layer, and flags that it excludes:
/// `--only payment` hides `weight` in a file. The values of a flag that may be repeated are all
/// kept.
pub(super) fn merge(layers: [Vec<Given>; 3]) -> Result<Vec<Given>, AppError> {
    let mut kept: Vec<Given> = Vec::new();
    for layer in layers {
        // A switch that is off excludes nothing.
        let active: Vec<&Given> = layer.iter().filter(|given| !given.is_idle()).collect();
        for (at, one) in active.iter().enumerate() {
            let other = active[at + 1..].iter().find(|other| one.flag.excludes(&other.flag));
            let Some(other) = other else { continue };
            // Clap reports conflicts within the command line. `--set` counts as another origin
            // here.
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

/// Checks each value from the file and the environment by itself. An error names the source.
pub(super) fn check(given: &[Given], relaxed: &Command) -> Result<(), AppError> {
    let written = given.iter().filter(|given| given.origin != Origin::CommandLine);
    written.into_iter().try_for_each(|given| given.check(relaxed))
}
