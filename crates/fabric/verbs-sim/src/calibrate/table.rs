//! [`CalibrationTable`]: a readable table of figures.

use std::fmt;

use super::Figure;

/// The figures of one profile, one per line. A line with the source follows the last figure of each
/// source.
#[derive(Debug)]
pub struct CalibrationTable<'a> {
    /// The profile's name.
    pub name: &'a str,
    /// The figures in the order of the lines.
    pub figures: &'a [Figure],
}

impl fmt::Display for CalibrationTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (published, simulated) = ("published", "simulated");
        writeln!(
            f,
            "{:24} {:>6} {published:>9} {simulated:>9} {:6} {:>5}  tolerance",
            self.name, "bytes", "", "ratio",
        )?;
        for (at, figure) in self.figures.iter().enumerate() {
            let (published, ratio) = (&figure.published, figure.ratio());
            let percent = published.tolerance * 100.0;
            let verdict = if figure.is_within() { "ok" } else { "OUTSIDE" };
            writeln!(
                f,
                "{:24} {:6} {:9.2} {:9.2} {:6} {ratio:5.2}  {percent:2.0} % {verdict}",
                published.measure.to_string(),
                published.bytes,
                published.value,
                figure.simulated,
                published.unit.to_string(),
            )?;
            // Adjacent figures with the same source share one line with the source.
            let next = self.figures.get(at + 1).map(|figure| &figure.published.source);
            if next != Some(&published.source) {
                writeln!(f, "    {}", published.source)?;
            }
        }
        Ok(())
    }
}
