//! The measurements as a picture: a panel per measurement, a row per structure, a bar per number of
//! threads.

use super::args::SpatialArgs;
use super::results::{Results, What};
use super::subject::{Built, Structure, Work};
use crate::report::chart::{Bar, Drawn, Legend, OTHERS, OURS, Panel, Row, chart};

const THREADS: [usize; 2] = [1, 2];
const STRUCTURES: [Structure; 4] =
    [Structure::Latchwork, Structure::LatchworkTwo, Structure::Rstar, Structure::Static];

/// The picture, as SVG.
pub(crate) fn plot(args: &SpatialArgs, results: &Results) -> Drawn<String> {
    let panel = |title: &str, built, work, slots| {
        let rows = STRUCTURES.into_iter().filter_map(|structure| {
            let bars: Vec<Bar> = THREADS[..slots]
                .iter()
                .enumerate()
                .filter_map(|(slot, &threads)| {
                    let cell = results.cell(structure, What { built, threads, work })?;
                    let [median, min, max] =
                        [cell.median, cell.min, cell.max].map(|rate| rate / 1e6);
                    Some(Bar { slot, median, min, max })
                })
                .collect();
            let is_ours = structure.is_ours();
            let (label, shades) =
                (structure.name().to_owned(), if is_ours { &OURS } else { &OTHERS });
            (!bars.is_empty()).then_some(Row { label, is_ours, shades, bars })
        });
        Panel { title: title.to_owned(), unit: "M/s", slots, rows: rows.collect() }
    };
    let packed = |title, work| panel(title, Built::Packed, work, 2);
    let panels = [
        packed("Windows with 2 hits", Work::Few),
        packed("Windows with 110 hits", Work::Some),
        packed("Windows with 9,000 hits", Work::Many),
        packed("The 10 nearest boxes", Work::NearestTen),
        packed("The nearest box", Work::Nearest),
        panel("All boxes into an empty tree, at once", Built::Packed, Work::Load, 1),
        panel("Inserts", Built::Grown, Work::Insert, 1),
        panel("Removes", Built::Grown, Work::Remove, 1),
    ];
    let panels: Vec<Panel> = panels.into_iter().filter(|panel| !panel.rows.is_empty()).collect();
    let kinds = [(&OURS, "coherent over two compute nodes"), (&OTHERS, "in memory")];
    let title = format!("R-trees with {} boxes in two dimensions", args.boxes);
    chart(&title, &Legend { threads: &THREADS, kinds: &kinds }, &panels)
}
