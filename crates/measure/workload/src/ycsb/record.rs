//! The layout of a record: a byte string with the fields one after the other.
//!
//! ```text
//!   all fields equally long    | field 0 | field 1 | ... |
//!
//!   lengths that vary          | end 0 | end 1 | ... | field 0 | field 1 | ... |
//!                                u16, little endian, counted from the start of field 0
//! ```
//!
//! With equal lengths, a field is at the same byte range in every record. So an update replaces the
//! field in place, without a read of the other fields.

use std::ops::Range;

use super::content::{self, ContentKey, ContentVersion, FieldIndex};
use super::histogram::LengthHistogram;
use crate::WorkloadError;
use crate::distribution::Zipfian;
use crate::hash::mix;

/// The longest record of any layout, in bytes.
pub(crate) const RECORD_LEN_MAX: usize = 65_535;

/// How long the fields of a record are.
#[derive(Clone, Debug)]
pub enum FieldLength {
    /// Every field has this many bytes.
    Constant(u16),
    /// From `min` to `max` bytes, every length with the same probability.
    Uniform {
        /// The shortest.
        min: u16,
        /// The longest.
        max: u16,
    },
    /// At least `min` bytes. A zipfian favours short fields.
    Zipfian {
        /// The shortest.
        min: u16,
        /// The distribution of the bytes above `min`.
        longer: Zipfian,
    },
    /// Lengths with weights, from a file.
    Histogram(LengthHistogram),
}

impl FieldLength {
    /// The maximum length of a field, in bytes.
    pub fn max(&self) -> usize {
        match self {
            FieldLength::Constant(len) => usize::from(*len),
            FieldLength::Uniform { max, .. } => usize::from(*max),
            FieldLength::Zipfian { min, longer } => usize::from(*min) + longer.items() as usize - 1,
            FieldLength::Histogram(lengths) => usize::from(lengths.max()),
        }
    }

    /// The length of the field with this seed of contents (see [`content::seed`]).
    fn of_seed(&self, seed: u64) -> usize {
        let bits = mix(!seed);
        match self {
            FieldLength::Constant(len) => usize::from(*len),
            FieldLength::Uniform { min, max } => {
                let span = u128::from(max - min) + 1;
                usize::from(*min) + ((u128::from(bits) * span) >> 64) as usize
            }
            FieldLength::Zipfian { min, longer } => {
                usize::from(*min) + longer.rank_of_bits(bits) as usize
            }
            FieldLength::Histogram(lengths) => usize::from(lengths.of_bits(bits)),
        }
    }
}

/// Why the bytes of a record are not the bytes of complete writes of this record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadYcsbRecord {
    /// The length of the record, or of one field, differs from the length that the layout requires.
    #[error("the record has {found} bytes where {expected} belong")]
    Length {
        /// The required length in bytes.
        expected: usize,
        /// The actual length in bytes.
        found: usize,
    },
    /// The table of field ends is wrong: an end is before the start of its field, or outside the
    /// record.
    #[error("field {field} does not lie inside the record")]
    Table {
        /// The first field with this error.
        field: FieldIndex,
    },
    /// A field holds bytes of another record, of another field, or of more than one write.
    #[error("field {field} holds bytes that no single write of this record left there")]
    Content {
        /// The first field with this error.
        field: FieldIndex,
    },
}

/// The layout of a record's fields. The type also writes and checks their contents.
///
/// ```
/// use latchwork_workload::ycsb::{
///     ContentKey, ContentVersion, FieldIndex, FieldLength, RecordLayout,
/// };
///
/// let layout = RecordLayout::new(10, FieldLength::Constant(100))?;
/// let key = ContentKey::new(b"user42");
/// let mut record = Vec::new();
/// layout.encode(key, ContentVersion::LOADED, &mut record);
/// assert_eq!(record.len(), 1000);
///
/// // An update of field 3 in place.
/// let field = FieldIndex(3);
/// let place = layout.place(field).unwrap();
/// layout.fill_field(key, field, ContentVersion::new(7), &mut record[place]);
/// let mut versions = Vec::new();
/// layout.verify(key, &record, |field, version| versions.push((field.0, version.number())))?;
/// assert_eq!(versions[3], (3, 7));
///
/// // Another record's bytes are not this record's.
/// assert!(layout.verify(ContentKey::new(b"user43"), &record, |_, _| ()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecordLayout {
    fields: u16,
    length: FieldLength,
}

impl RecordLayout {
    /// Records of `fields` fields.
    ///
    /// # Errors
    ///
    /// Fails without fields, with a minimum above the maximum, or when a record could exceed
    /// 65535 bytes.
    pub fn new(fields: u16, length: FieldLength) -> Result<RecordLayout, WorkloadError> {
        if fields == 0 {
            return Err(WorkloadError::Conflict("a record needs at least one field".to_owned()));
        }
        if let FieldLength::Uniform { min, max } = length
            && min > max
        {
            return Err(WorkloadError::Conflict(format!(
                "the shortest field has {min} bytes, more than the longest with {max}"
            )));
        }
        let layout = RecordLayout { fields, length };
        let longest = layout.len_max();
        if longest > RECORD_LEN_MAX {
            return Err(WorkloadError::Conflict(format!(
                "a record could have {longest} bytes, more than {RECORD_LEN_MAX}; \
                 lower fieldcount or the lengths of fields"
            )));
        }
        Ok(layout)
    }

    /// The number of fields.
    pub fn fields(&self) -> u16 {
        self.fields
    }

    /// The fields in order.
    pub(crate) fn field_indices(&self) -> impl Iterator<Item = FieldIndex> + use<> {
        (0..self.fields).map(FieldIndex)
    }

    /// The maximum length of a record, in bytes.
    pub fn len_max(&self) -> usize {
        self.table_len() + usize::from(self.fields) * self.length.max()
    }

    /// The length of every field in bytes, if all fields are equally long.
    pub fn constant_field_len(&self) -> Option<usize> {
        match self.length {
            FieldLength::Constant(len) => Some(usize::from(len)),
            _ => None,
        }
    }

    /// The histogram of the lengths of fields, if a file gave one.
    pub fn histogram(&self) -> Option<&LengthHistogram> {
        match &self.length {
            FieldLength::Histogram(lengths) => Some(lengths),
            _ => None,
        }
    }

    /// Whether fields have the same length and carry whole versions. Only then are sums of versions
    /// meaningful.
    pub fn keeps_whole_versions(&self) -> bool {
        self.constant_field_len()
            .is_some_and(|len| content::version_len(len) == content::VERSION_LEN)
    }

    fn table_len(&self) -> usize {
        match self.length {
            FieldLength::Constant(_) => 0,
            _ => 2 * usize::from(self.fields),
        }
    }

    /// The byte range of a field, if all fields are equally long.
    #[inline]
    pub fn place(&self, field: FieldIndex) -> Option<Range<usize>> {
        let start = usize::from(field.0);
        self.constant_field_len().map(|len| start * len..(start + 1) * len)
    }

    /// The byte range of a field in this record.
    ///
    /// # Errors
    ///
    /// Fails when the record does not have that field.
    #[inline]
    pub fn find(&self, record: &[u8], field: FieldIndex) -> Result<Range<usize>, BadYcsbRecord> {
        let found = match self.place(field) {
            Some(place) => place,
            None => {
                let data = self.table_len();
                let index = usize::from(field.0);
                let end = |i: usize| -> Option<usize> {
                    let bytes = record.get(2 * i..2 * i + 2)?;
                    Some(data + usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
                };
                let start = if index == 0 { Some(data) } else { end(index - 1) };
                let (Some(start), Some(end)) = (start, end(index)) else {
                    return Err(BadYcsbRecord::Table { field });
                };
                start..end
            }
        };
        if field.0 < self.fields && found.start <= found.end && found.end <= record.len() {
            Ok(found)
        } else {
            Err(BadYcsbRecord::Table { field })
        }
    }

    /// Writes a whole record into `out`, replacing its contents. Allocates only when `out` must
    /// grow.
    pub fn encode(&self, key: ContentKey, version: ContentVersion, out: &mut Vec<u8>) {
        out.clear();
        out.resize(self.table_len(), 0);
        for field in self.field_indices() {
            let start = out.len();
            let len = self.length.of_seed(content::seed(key, field, version));
            out.resize(start + len, 0);
            content::fill(&mut out[start..], key, field, version);
            self.set_end(out, field);
        }
    }

    /// Writes the present length of the record into the table, as the end of `field`.
    fn set_end(&self, record: &mut [u8], field: FieldIndex) {
        if self.table_len() > 0 {
            let end = (record.len() - self.table_len()) as u16;
            let at = 2 * usize::from(field.0);
            record[at..at + 2].copy_from_slice(&end.to_le_bytes());
        }
    }

    /// Writes the contents of one field. `out` is the whole field.
    #[inline]
    pub fn fill_field(
        &self,
        key: ContentKey,
        field: FieldIndex,
        version: ContentVersion,
        out: &mut [u8],
    ) {
        content::fill(out, key, field, version);
    }

    /// Writes the record `old` into `out`, with one field replaced. The length of this field may
    /// change.
    ///
    /// # Errors
    ///
    /// Fails when `old` is not a record of this layout.
    pub fn replace_field(
        &self,
        key: ContentKey,
        field: FieldIndex,
        version: ContentVersion,
        old: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BadYcsbRecord> {
        out.clear();
        out.resize(self.table_len(), 0);
        for other in self.field_indices() {
            if other == field {
                let start = out.len();
                let len = self.length.of_seed(content::seed(key, field, version));
                out.resize(start + len, 0);
                content::fill(&mut out[start..], key, field, version);
            } else {
                out.extend_from_slice(&old[self.find(old, other)?]);
            }
            self.set_end(out, other);
        }
        Ok(())
    }

    /// The version at the head of a field. The contents are not checked.
    #[inline]
    pub fn version_of(&self, field_bytes: &[u8]) -> ContentVersion {
        content::version_of(field_bytes)
    }

    /// Checks one field and returns its version.
    ///
    /// # Errors
    ///
    /// Fails when the bytes are not the bytes of one write of this field of this record.
    #[inline]
    pub fn verify_field(
        &self,
        key: ContentKey,
        field: FieldIndex,
        bytes: &[u8],
    ) -> Result<ContentVersion, BadYcsbRecord> {
        let version = content::check(bytes, key, field).ok_or(BadYcsbRecord::Content { field })?;
        let whole = content::version_len(bytes.len()) == content::VERSION_LEN;
        let expected = match self.length {
            FieldLength::Constant(len) => usize::from(len),
            // The length of a field follows from its version. A short field has only a part of the
            // version, so its length cannot be checked.
            _ if whole => self.length.of_seed(content::seed(key, field, version)),
            _ => bytes.len(),
        };
        if bytes.len() != expected {
            return Err(BadYcsbRecord::Length { expected, found: bytes.len() });
        }
        Ok(version)
    }

    /// Checks a whole record, and calls `versions` with each field and its version.
    ///
    /// # Errors
    ///
    /// Fails at the first field that no single write of this record left.
    #[inline]
    pub fn verify(
        &self,
        key: ContentKey,
        record: &[u8],
        mut versions: impl FnMut(FieldIndex, ContentVersion),
    ) -> Result<(), BadYcsbRecord> {
        let mut end = self.table_len();
        for field in self.field_indices() {
            let place = self.find(record, field)?;
            end = place.end;
            versions(field, self.verify_field(key, field, &record[place])?);
        }
        if end != record.len() {
            return Err(BadYcsbRecord::Length { expected: end, found: record.len() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::YCSB_THETA;

    fn layouts() -> Vec<RecordLayout> {
        let zipfian = Zipfian::new(200, YCSB_THETA).unwrap();
        let lengths = LengthHistogram::parse("BlockSize\t4\n0\t1\n9\t5\n37\t2\n", "h").unwrap();
        [
            FieldLength::Constant(100),
            FieldLength::Constant(1),
            FieldLength::Constant(7),
            FieldLength::Uniform { min: 1, max: 150 },
            FieldLength::Zipfian { min: 1, longer: zipfian },
            FieldLength::Histogram(lengths),
        ]
        .into_iter()
        .map(|length| RecordLayout::new(10, length).unwrap())
        .collect()
    }

    fn versions(layout: &RecordLayout, key: ContentKey, record: &[u8]) -> Vec<u64> {
        let mut found = Vec::new();
        layout.verify(key, record, |_, version| found.push(version.number())).unwrap();
        found
    }

    #[test]
    fn whatever_is_encoded_verifies() {
        for layout in layouts() {
            let mut record = Vec::new();
            for number in 0..200u64 {
                let key = ContentKey::new(&number.to_le_bytes());
                layout.encode(key, ContentVersion::new(number << 16), &mut record);
                assert!(record.len() <= layout.len_max());
                layout.verify(key, &record, |_, _| ()).unwrap();
            }
        }
    }

    #[test]
    fn a_replaced_field_carries_the_new_version_and_the_others_keep_theirs() {
        for layout in layouts() {
            let key = ContentKey::new(b"user1");
            let (mut record, mut next) = (Vec::new(), Vec::new());
            layout.encode(key, ContentVersion::LOADED, &mut record);
            for (step, field) in (0..40).zip([0, 9, 4, 4].into_iter().cycle()) {
                let version = ContentVersion::new(step + 1);
                layout.replace_field(key, FieldIndex(field), version, &record, &mut next).unwrap();
                std::mem::swap(&mut record, &mut next);
                let found = versions(&layout, key, &record);
                let place = layout.find(&record, FieldIndex(field)).unwrap();
                if place.len() >= 16 {
                    assert_eq!(found[usize::from(field)], step + 1);
                }
                assert_eq!(found[5], 0);
            }
        }
    }

    #[test]
    fn damaged_records_are_refused_and_never_a_panic() {
        for layout in layouts() {
            let key = ContentKey::new(b"user1");
            let mut record = Vec::new();
            layout.encode(key, ContentVersion::new(3 << 16), &mut record);
            for cut in 0..record.len() {
                assert!(layout.verify(key, &record[..cut], |_, _| ()).is_err(), "cut at {cut}");
            }
            let longer = [&record[..], b"x"].concat();
            assert!(layout.verify(key, &longer, |_, _| ()).is_err());
            for at in 0..record.len() {
                let mut flipped = record.clone();
                flipped[at] ^= 0x40;
                let refused = layout.verify(key, &flipped, |_, _| ()).is_err();
                // A flip can turn a version of one or two bytes into another valid version with
                // valid contents.
                assert!(refused || layout.length.max() < 16, "flipped at {at}");
            }
        }
    }

    #[test]
    fn varying_lengths_vary_between_their_bounds() {
        for layout in &layouts()[3..] {
            let mut lens: Vec<usize> = Vec::new();
            let mut record = Vec::new();
            for number in 0..300u64 {
                let key = ContentKey::new(&number.to_le_bytes());
                layout.encode(key, ContentVersion::LOADED, &mut record);
                lens.extend(layout.field_indices().map(|f| layout.find(&record, f).unwrap().len()));
            }
            let (min, max) = (lens.iter().min().unwrap(), lens.iter().max().unwrap());
            assert!(
                *min >= 1 && *max <= layout.length.max() && *max > 100 && *min < 5,
                "{min} {max}"
            );
        }
    }

    #[test]
    fn impossible_layouts_are_refused() {
        assert!(RecordLayout::new(0, FieldLength::Constant(1)).is_err());
        assert!(RecordLayout::new(1000, FieldLength::Constant(100)).is_err());
        assert!(RecordLayout::new(1, FieldLength::Uniform { min: 2, max: 1 }).is_err());
        assert!(RecordLayout::new(655, FieldLength::Constant(100)).is_ok());
    }
}
