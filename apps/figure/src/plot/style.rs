//! The colours and the font of all plots, and the library's types with short names.

use plotters::prelude::{RGBColor, SVGBackend};

pub(super) type Area<'a> = plotters::drawing::DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
/// Drawing into text does not fail, but the library's signatures allow an error.
pub(super) type Drawn<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Colours that all readers can distinguish (Okabe and Ito, 2008), and some more.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(188, 189, 34),
];
pub(super) const INK: RGBColor = RGBColor(30, 41, 59);
pub(super) const FAINT: RGBColor = RGBColor(100, 116, 139);
pub(super) const FONT: &str = "sans-serif";

pub(super) fn colour(series: usize) -> RGBColor {
    COLOURS[series % COLOURS.len()]
}
