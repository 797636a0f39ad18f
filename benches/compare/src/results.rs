//! The measurements.

use serde::Serialize;

use crate::args::{Distribution, Structure, Workload};
use crate::machine::Machine;

/// All samples of one measurement, from one group of structures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) structure: Structure,
    /// Bytes.
    pub(crate) value_size: usize,
    pub(crate) workload: Workload,
    /// The distribution, if the workload draws keys.
    pub(crate) distribution: Option<Distribution>,
    /// The number of threads, if it matters.
    pub(crate) threads: Option<usize>,
    /// Structures of one group were measured in turn.
    pub(crate) group: usize,
    /// Operations per second (entries for scans), or bytes per key.
    pub(crate) samples: Vec<f64>,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// A measurement, of any structure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct What {
    pub(crate) value_size: usize,
    pub(crate) threads: Option<usize>,
    pub(crate) workload: Workload,
    pub(crate) distribution: Option<Distribution>,
}

impl Cell {
    pub(crate) fn what(&self) -> What {
        let Cell { value_size, workload, distribution, threads, .. } = *self;
        What { value_size, threads, workload, distribution }
    }
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

    pub(crate) fn add(&mut self, structure: Structure, what: What, group: usize, sample: f64) {
        let same = |cell: &&mut Cell| {
            cell.structure == structure && cell.what() == what && cell.group == group
        };
        let cell = match self.cells.iter_mut().find(same) {
            Some(cell) => cell,
            None => {
                let What { value_size, threads, workload, distribution } = what;
                let (samples, median, min, max) = (Vec::new(), sample, sample, sample);
                self.cells.push(Cell {
                    structure,
                    value_size,
                    workload,
                    distribution,
                    threads,
                    group,
                    samples,
                    median,
                    min,
                    max,
                });
                self.cells.last_mut().expect("just pushed")
            }
        };
        cell.samples.push(sample);
        cell.median = median(&cell.samples);
        cell.min = cell.min.min(sample);
        cell.max = cell.max.max(sample);
    }

    /// A structure's measurement. If several groups have it, the first counts.
    pub(crate) fn cell(&self, structure: Structure, what: What) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.structure == structure && cell.what() == what)
    }

    /// The speed of our tree on one node in `ours`, relative to `rival`. Both medians are from the
    /// group in which the two took turns.
    pub(crate) fn ratio(&self, ours: What, rival: Structure, theirs: What) -> Option<f64> {
        let rival = self.cell(rival, theirs)?;
        let ours = self.cells.iter().find(|cell| {
            cell.structure == Structure::Latchwork
                && cell.what() == ours
                && cell.group == rival.group
        })?;
        Some(ours.median / rival.median)
    }

    /// The measurements of this run, in the order of the tables.
    pub(crate) fn whats(&self) -> Vec<What> {
        let mut whats: Vec<What> = self.cells.iter().map(Cell::what).collect();
        whats.sort();
        whats.dedup();
        whats
    }

    /// The structures of this run, in the order of the tables.
    pub(crate) fn structures(&self) -> Vec<Structure> {
        let mut structures: Vec<Structure> = self.cells.iter().map(|cell| cell.structure).collect();
        structures.sort();
        structures.dedup();
        structures
    }
}

pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn what(workload: Workload) -> What {
        let distribution = Some(Distribution::Uniform);
        What { value_size: 8, threads: Some(1), workload, distribution }
    }

    pub(crate) fn results(samples: &[(Structure, Workload, usize, f64)]) -> Results {
        let mut results = Results::new(Machine::look());
        for (structure, workload, group, sample) in samples {
            results.add(*structure, what(*workload), *group, *sample);
        }
        results
    }

    #[test]
    fn medians_are_of_all_samples_and_ratios_of_one_group() {
        use Structure::{Ferntree, Latchwork, Papaya};
        let results = results(&[
            (Latchwork, Workload::Read, 0, 4.0),
            (Latchwork, Workload::Read, 0, 2.0),
            (Latchwork, Workload::Read, 0, 9.0),
            (Ferntree, Workload::Read, 0, 1.0),
            (Ferntree, Workload::Read, 0, 3.0),
            (Latchwork, Workload::Read, 1, 30.0),
            (Papaya, Workload::Read, 1, 10.0),
        ]);
        let read = what(Workload::Read);
        let ours = results.cell(Latchwork, read).unwrap();
        assert_eq!((ours.median, ours.min, ours.max), (4.0, 2.0, 9.0));
        assert_eq!(results.ratio(read, Ferntree, read), Some(2.0));
        assert_eq!(results.ratio(read, Papaya, read), Some(3.0));
        assert_eq!(results.ratio(read, Structure::Dashmap, read), None);
    }
}
