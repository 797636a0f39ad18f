//! `sim calibrate`: NIC profiles against published figures of the NICs.

use latchwork_harness::{AppError, folded, write};
use latchwork_verbs_sim::NicProfile;
use latchwork_verbs_sim::calibrate::{CalibrationTable, Figure, calibrate as figures_of};
use serde_json::{Value, json as object};

use crate::args::CalibrateArgs;
use crate::outcome;

/// Measures and compares; returns whether all figures are within their tolerance.
pub(crate) fn calibrate(arguments: &CalibrateArgs) -> Result<bool, AppError> {
    let profiles = match arguments.nic.as_slice() {
        [] => NicProfile::names().map(NicProfile::named).collect::<Result<Vec<_>, _>>(),
        chosen => Ok(chosen.iter().map(|nic| nic.profile.clone()).collect()),
    };
    let profiles = profiles.map_err(|error| AppError::Usage(error.to_string()))?;
    let json = arguments.output.destination()?;
    let (mut documents, mut all, mut outside) = (Vec::new(), 0, 0);
    for profile in &profiles {
        if profile.published.is_empty() {
            let name = &profile.name;
            let problem = format!("{name}: nothing to compare with; list figures as [[published]]");
            return Err(AppError::Usage(problem));
        }
        let figures = figures_of(profile)
            .map_err(|error| AppError::Usage(format!("{name}: {error}", name = profile.name)))?;
        let table = CalibrationTable { name: &profile.name, figures: &figures };
        outcome::tell(&folded(&format!("{table}\n")), json.as_ref())?;
        all += figures.len();
        outside += figures.iter().filter(|figure| !figure.is_within()).count();
        documents.push(document(&profile.name, &figures));
    }
    let verdict = match outside {
        0 => format!("all {all} figures are within their tolerances\n"),
        _ => format!("{outside} of {all} figures are OUTSIDE their tolerances\n"),
    };
    outcome::tell(&verdict, json.as_ref())?;
    if let Some(output) = &json {
        let (version, git) = (env!("CARGO_PKG_VERSION"), latchwork_harness::GIT);
        let document = object!({
            "schema": 1, "app": "sim calibrate", "version": version, "git": git,
            "profiles": documents,
        });
        write(output, format!("{document:#}\n"))?;
    }
    Ok(outside == 0)
}

fn document(name: &str, figures: &[Figure]) -> Value {
    let figure = |figure: &Figure| {
        object!({
            "measure": figure.published.measure,
            "bytes": figure.published.bytes,
            "unit": figure.published.unit,
            "published": figure.published.value,
            "tolerance": figure.published.tolerance,
            "source": figure.published.source,
            "simulated": figure.simulated,
            "ratio": figure.ratio(),
            "within": figure.is_within(),
        })
    };
    object!({ "name": name, "figures": figures.iter().map(figure).collect::<Vec<_>>() })
}
