//! The measurements of trees of boxes.

use serde::Serialize;

use super::subject::{Built, Structure, Work};
use crate::machine::Machine;
use crate::results::median;

/// A measurement, of any structure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(crate) struct What {
    pub(crate) built: Built,
    pub(crate) threads: usize,
    pub(crate) work: Work,
}

/// All samples of one measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) structure: Structure,
    #[serde(flatten)]
    pub(crate) what: What,
    /// Operations per second, or bytes of pages per byte of entries.
    pub(crate) samples: Vec<f64>,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// All measurements.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) cells: Vec<Cell>,
}

impl Results {
    pub(crate) fn new(machine: Machine) -> Results {
        Results { machine, cells: Vec::new() }
    }

    pub(crate) fn add(&mut self, structure: Structure, what: What, sample: f64) {
        let same = |cell: &Cell| cell.structure == structure && cell.what == what;
        let at = self.cells.iter().position(same).unwrap_or_else(|| {
            let (samples, median, min, max) = (Vec::new(), sample, sample, sample);
            self.cells.push(Cell { structure, what, samples, median, min, max });
            self.cells.len() - 1
        });
        let cell = &mut self.cells[at];
        cell.samples.push(sample);
        cell.median = median(&cell.samples);
        cell.min = cell.min.min(sample);
        cell.max = cell.max.max(sample);
    }

    pub(crate) fn cell(&self, structure: Structure, what: What) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.structure == structure && cell.what == what)
    }

    /// The first median as a multiple of the second.
    pub(crate) fn ratio(&self, one: (Structure, What), other: (Structure, What)) -> Option<f64> {
        Some(self.cell(one.0, one.1)?.median / self.cell(other.0, other.1)?.median)
    }
}
