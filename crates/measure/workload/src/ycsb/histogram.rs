//! [`LengthHistogram`]: lengths of fields from a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchwork_files::InputKind;

use crate::WorkloadError;
use crate::properties::{Source, natural_lines};

/// The limit for a file of lengths: 1 MiB.
pub(super) const FILE: InputKind =
    InputKind { name: "a histogram of field lengths", bytes_max: 1 << 20 };

/// Lengths of fields with weights, in the format of YCSB's `HistogramGenerator`: the width of the
/// buckets, and then for each bucket, from 0, how many fields are in it. All fields of a bucket
/// have its greatest length.
///
/// Departure from YCSB, whose code differs from its documentation: the last bucket has its own
/// length and not that of the one before, and no draw of one bucket goes to another.
///
/// ```
/// use latchwork_workload::ycsb::LengthHistogram;
///
/// let lengths = LengthHistogram::parse("BlockSize\t100\n0\t7\n1\t0\n2\t1\n", "hist.txt")?;
/// assert_eq!(lengths.weights().collect::<Vec<_>>(), [(100, 7), (300, 1)]);
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LengthHistogram {
    /// The lengths, in order. Each has the weight of all lengths up to it.
    lengths: Arc<[(u16, u64)]>,
}

impl LengthHistogram {
    /// The lengths in `text`, which error messages call `name`.
    ///
    /// # Errors
    ///
    /// Fails at the first malformed line, at a bucket of fields longer than 65535 bytes, and when
    /// no bucket has a field.
    pub fn parse(text: &str, name: &str) -> Result<LengthHistogram, WorkloadError> {
        let name: Arc<str> = name.into();
        let wrong = |line, problem: String| {
            let at = Source::File { name: Arc::clone(&name), line };
            Err(WorkloadError::Syntax { at, problem })
        };
        let mut lines = natural_lines(text)
            .enumerate()
            .map(|(index, line)| (index + 1, line.split_whitespace().collect::<Vec<_>>()))
            .filter(|(_, words)| !words.is_empty());
        let (mut last, first) = lines.next().unwrap_or((1, Vec::new()));
        let width: Option<u16> = match first[..] {
            ["BlockSize", width] => width.parse().ok().filter(|width| *width > 0),
            _ => None,
        };
        let Some(width) = width else {
            let would_do = "must be `BlockSize`, a tab and the width of a bucket from 1 to 65535";
            return wrong(last, format!("the first line {would_do}"));
        };
        let mut buckets: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
        for (line, words) in lines {
            last = line;
            let numbers = match words[..] {
                [bucket, count] => bucket.parse::<u32>().ok().zip(count.parse().ok()),
                _ => None,
            };
            let Some((bucket, count)) = numbers else {
                let would_do = "the number of a bucket, from 0, a tab and how many fields it has";
                return wrong(line, format!("the line must be {would_do}, below 2^32"));
            };
            let most = u32::from(u16::MAX / width) - 1;
            if count > 0 && bucket > most {
                let long = format!("bucket {bucket} is of fields longer than {} bytes", u16::MAX);
                return wrong(line, format!("{long}; with BlockSize {width}, {most} is the last"));
            }
            if let Some((earlier, _)) = buckets.insert(bucket, (line, count)) {
                return wrong(line, format!("bucket {bucket} stands on line {earlier} already"));
            }
        }
        let mut sum = 0;
        let lengths = buckets.into_iter().filter(|(_, (_, count))| *count > 0);
        let lengths = lengths.map(|(bucket, (_, count))| {
            sum += u64::from(count);
            ((bucket as u16 + 1) * width, sum)
        });
        let lengths: Arc<[(u16, u64)]> = lengths.collect();
        match lengths.is_empty() {
            true => wrong(last, "no bucket has a field; set a count above 0".to_owned()),
            false => Ok(LengthHistogram { lengths }),
        }
    }

    /// The lengths in bytes, in order, each with its weight.
    pub fn weights(&self) -> impl Iterator<Item = (u16, u64)> {
        self.lengths
            .iter()
            .scan(0, |before, (length, sum)| Some((*length, sum - std::mem::replace(before, *sum))))
    }

    /// The greatest length and the sum of all weights.
    fn last(&self) -> (u16, u64) {
        self.lengths[self.lengths.len() - 1]
    }

    /// The greatest length.
    pub(super) fn max(&self) -> u16 {
        self.last().0
    }

    /// The length that 64 random bits draw.
    pub(super) fn of_bits(&self, bits: u64) -> u16 {
        let drawn = ((u128::from(bits) * u128::from(self.last().1)) >> 64) as u64;
        self.lengths[self.lengths.partition_point(|(_, sum)| *sum <= drawn)].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_drawn_by_their_weights() {
        let lengths = LengthHistogram::parse("BlockSize\t10\r\n2\t3\r0\t1\n\n9\t0\n", "h").unwrap();
        assert_eq!((lengths.max(), lengths.weights().count()), (30, 2));
        let quarter = 1 << 62;
        let drawn = [0, quarter - 1, quarter, u64::MAX].map(|bits| lengths.of_bits(bits));
        assert_eq!(drawn, [10, 10, 30, 30]);
    }

    #[test]
    fn errors_name_file_and_line_and_what_would_do() {
        for (text, line, expected) in [
            ("", 1, "the first line must be `BlockSize`"),
            ("0\t5\n", 1, "the first line must be `BlockSize`"),
            ("\nBlockSize\t0\n", 2, "from 1 to 65535"),
            ("BlockSize\t10\n0\t1\n1\n", 3, "the line must be the number of a bucket"),
            ("BlockSize\t10\n0\t-1\n", 2, "the line must be the number of a bucket"),
            ("BlockSize\t10\n0\t1\t2\n", 2, "the line must be the number of a bucket"),
            ("BlockSize\t10\n0\t1\n0\t2\n", 3, "bucket 0 stands on line 2 already"),
            ("BlockSize\t10\n6553\t1\n", 2, "with BlockSize 10, 6552 is the last"),
            ("BlockSize\t10\n0\t0\n", 2, "set a count above 0"),
        ] {
            let error = LengthHistogram::parse(text, "h.txt").unwrap_err().to_string();
            let place = format!("h.txt:{line}: ");
            assert!(error.starts_with(&place) && error.contains(expected), "{text:?}: {error}");
        }
        let widest = LengthHistogram::parse("BlockSize\t65535\n0\t1\n", "h").unwrap();
        assert_eq!(widest.max(), u16::MAX);
    }
}
