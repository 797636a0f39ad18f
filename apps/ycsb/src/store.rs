//! The table: YCSB's operations on an ordered index.

use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;

use latchwork_index::{ErrorKind, IndexError, OrderedIndex, ValueEdit, ValueView};
use latchwork_report::histogram::OperationFailure;
use latchwork_workload::ycsb::{
    ContentKey, ContentVersion, CoreWorkload, FieldIndex, Fields, KeyBuffer, RecordNumber,
    VERSION_LEN, YcsbOperation,
};

/// One worker's access to the table.
pub(crate) struct Store<I: OrderedIndex> {
    index: I,
    workload: Arc<CoreWorkload>,
}

/// The versions of one field before and after an operation.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) field: FieldIndex,
    /// The version that the operation found, if it read the field.
    pub(crate) found: Option<ContentVersion>,
    /// The version that it wrote.
    pub(crate) written: Option<ContentVersion>,
}

/// Buffers that a task reuses.
pub(crate) struct Buffers {
    key: KeyBuffer,
    /// The bytes of a record or a field, as a client receives or sends them.
    bytes: Vec<u8>,
    field: Vec<u8>,
    /// The versions that the last operation found and wrote, if the workload checks its reads.
    pub(crate) seen: Vec<Seen>,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers { key: KeyBuffer::new(), bytes: Vec::new(), field: Vec::new(), seen: Vec::new() }
    }
}

/// The end of an operation. A failure is counted, and does not end the run.
pub(crate) type Ended = Result<(), OperationFailure>;

impl<I: OrderedIndex> Store<I> {
    pub(crate) fn new(index: I, workload: &Arc<CoreWorkload>) -> Store<I> {
        Store { index, workload: Arc::clone(workload) }
    }

    /// Executes one operation. `version` is the version of its writes. A read-modify-write ignores
    /// `version`, and writes the version after the one that it found.
    pub(crate) async fn execute(
        &self,
        operation: &YcsbOperation,
        version: ContentVersion,
        buffers: &mut Buffers,
    ) -> Result<Ended, I::Error> {
        buffers.seen.clear();
        let ended = match *operation {
            YcsbOperation::Read { record, fields } => self.read(record, fields, buffers).await,
            YcsbOperation::Update { record, fields } => {
                self.update(record, fields, version, buffers).await
            }
            YcsbOperation::Insert { record } => self.insert(record, buffers).await.map(Ok),
            // A scan delivers whole records, whichever fields were requested.
            YcsbOperation::Scan { first, records, .. } => self.scan(first, records, buffers).await,
            YcsbOperation::ReadModifyWrite { record, read, write } => {
                self.read_modify_write(record, read, write, buffers).await
            }
            YcsbOperation::Upsert { record, is_new } => {
                // A new record has the contents that an insert would give it.
                let version = if is_new { ContentVersion::LOADED } else { version };
                self.upsert(record, is_new, version, buffers).await
            }
        };
        ended.or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(Err(OperationFailure::NotFound)),
            ErrorKind::Exists => Ok(Err(OperationFailure::Error)),
            ErrorKind::OutsideValue => Ok(Err(OperationFailure::UnexpectedState)),
            _ => Err(error),
        })
    }

    /// Inserts a record with the contents that follow from its key.
    pub(crate) async fn insert(
        &self,
        record: RecordNumber,
        buffers: &mut Buffers,
    ) -> Result<(), I::Error> {
        let key = self.workload.keys.write(record, &mut buffers.key);
        let content = ContentKey::new(key);
        self.workload.layout.encode(content, ContentVersion::LOADED, &mut buffers.bytes);
        self.index.insert(key, &buffers.bytes).await
    }

    /// The number of these fields.
    pub(crate) fn count(&self, fields: Fields) -> u64 {
        match fields {
            Fields::All => u64::from(self.workload.layout.fields()),
            Fields::One(_) => 1,
        }
    }

    /// The seed of a record's contents.
    pub(crate) fn content_key(&self, record: RecordNumber, buffers: &mut Buffers) -> ContentKey {
        ContentKey::new(self.workload.keys.write(record, &mut buffers.key))
    }

    async fn read(
        &self,
        record: RecordNumber,
        fields: Fields,
        buffers: &mut Buffers,
    ) -> Result<Ended, I::Error> {
        let Buffers { key, bytes, seen, .. } = buffers;
        let key = self.workload.keys.write(record, key);
        let part = self.part(fields);
        let found = self.index.get_with(key, |value| copy_part(&part, value, bytes)).await?;
        if found.is_none() {
            return Ok(Err(OperationFailure::NotFound));
        }
        if self.workload.data_integrity {
            return Ok(self.verify(ContentKey::new(key), fields, bytes, seen));
        }
        Ok(Ok(()))
    }

    async fn update(
        &self,
        record: RecordNumber,
        fields: Fields,
        version: ContentVersion,
        buffers: &mut Buffers,
    ) -> Result<Ended, I::Error> {
        let Buffers { key, bytes, field: new, seen } = buffers;
        let key = self.workload.keys.write(record, key);
        let content = ContentKey::new(key);
        let layout = &self.workload.layout;
        let ended = match fields {
            Fields::All => {
                layout.encode(content, version, bytes);
                self.index.update(key, bytes).await.map(Ok)?
            }
            Fields::One(field) => match layout.place(field) {
                Some(place) => {
                    new.resize(place.len(), 0);
                    layout.fill_field(content, field, version, new);
                    self.index.update_range(key, place.start, new).await.map(Ok)?
                }
                None => {
                    let replace = |old: I::Value<'_>, new: &mut Vec<u8>| {
                        copy_part(&None, old, bytes);
                        layout.replace_field(content, field, version, bytes, new)
                    };
                    self.index
                        .replace_with(key, replace)
                        .await?
                        .map_err(|_| OperationFailure::UnexpectedState)
                }
            },
        };
        if self.workload.data_integrity && ended.is_ok() {
            let written = Some(version);
            seen.extend(self.each(fields).map(|field| Seen { field, found: None, written }));
        }
        Ok(ended)
    }

    async fn upsert(
        &self,
        record: RecordNumber,
        is_new: bool,
        version: ContentVersion,
        buffers: &mut Buffers,
    ) -> Result<Ended, I::Error> {
        let Buffers { key, bytes, seen, .. } = buffers;
        let key = self.workload.keys.write(record, key);
        self.workload.layout.encode(ContentKey::new(key), version, bytes);
        if self.index.upsert(key, bytes).await? != is_new {
            let other = if is_new { OperationFailure::Error } else { OperationFailure::NotFound };
            return Ok(Err(other));
        }
        if self.workload.data_integrity {
            let written = Some(version);
            let fields = self.each(Fields::All);
            seen.extend(fields.map(|field| Seen { field, found: None, written }));
        }
        Ok(Ok(()))
    }

    async fn scan(
        &self,
        first: RecordNumber,
        records: u32,
        buffers: &mut Buffers,
    ) -> Result<Ended, I::Error> {
        let Buffers { key, seen, .. } = buffers;
        let key = self.workload.keys.write(first, key);
        let mut ended = Ok(());
        let visit = |key: &[u8], record: &[u8]| {
            if self.workload.data_integrity && ended.is_ok() {
                ended = self.verify(ContentKey::new(key), Fields::All, record, seen);
            }
            ControlFlow::Continue(())
        };
        self.index.scan_up(Bound::Included(key), records as usize, visit).await?;
        // The versions do not say to which record they belong, so they are dropped.
        seen.clear();
        Ok(ended)
    }

    async fn read_modify_write(
        &self,
        record: RecordNumber,
        read: Fields,
        write: Fields,
        buffers: &mut Buffers,
    ) -> Result<Ended, I::Error> {
        let Buffers { key, bytes, field: new, seen } = buffers;
        let key = self.workload.keys.write(record, key);
        let content = ContentKey::new(key);
        let layout = &self.workload.layout;
        let part = self.part(read);
        let ended = if layout.constant_field_len().is_some() {
            let change = |value: &mut I::ValueMut<'_>| {
                let range = part.clone().unwrap_or(0..value.len());
                bytes.resize(range.len(), 0);
                value.read(range.start, bytes);
                for field in self.each(write) {
                    let place = layout.place(field).filter(|place| place.end <= value.len());
                    let place = place.ok_or(OperationFailure::UnexpectedState)?;
                    new.resize(place.len(), 0);
                    let head = place.len().min(2 * VERSION_LEN);
                    value.read(place.start, &mut new[..head]);
                    let found = layout.version_of(new);
                    layout.fill_field(content, field, found.next(), new);
                    value.write(place.start, new);
                    let (found, written) = (Some(found), Some(found.next()));
                    seen.push(Seen { field, found, written });
                }
                Ok(())
            };
            self.index.modify(key, change).await?
        } else {
            let replace = |old: I::Value<'_>, out: &mut Vec<u8>| {
                seen.clear();
                copy_part(&None, old, bytes);
                out.clone_from(bytes);
                for field in self.each(write) {
                    new.clone_from(out);
                    let place =
                        layout.find(new, field).map_err(|_| OperationFailure::UnexpectedState)?;
                    let found = layout.version_of(&new[place]);
                    let next = found.next();
                    layout
                        .replace_field(content, field, next, new, out)
                        .map_err(|_| OperationFailure::UnexpectedState)?;
                    seen.push(Seen { field, found: Some(found), written: Some(next) });
                }
                Ok(())
            };
            self.index.replace_with(key, replace).await?
        };
        if !self.workload.data_integrity || ended.is_err() {
            return Ok(ended);
        }
        let writes = seen.len();
        let verified = self.verify(content, read, bytes, seen);
        // A field that was both read and written has two entries. One step did both, so only the
        // written entry stays.
        let written: Vec<FieldIndex> = seen[..writes].iter().map(|seen| seen.field).collect();
        let mut index = 0;
        seen.retain(|seen| {
            index += 1;
            index <= writes || !written.contains(&seen.field)
        });
        Ok(verified)
    }

    /// Checks the read contents and stores their versions.
    fn verify(
        &self,
        content: ContentKey,
        fields: Fields,
        bytes: &[u8],
        seen: &mut Vec<Seen>,
    ) -> Ended {
        let layout = &self.workload.layout;
        let mut note = |field, version| {
            seen.push(Seen { field, found: Some(version), written: None });
        };
        let verified = match fields {
            Fields::One(field) if layout.place(field).is_some() => {
                layout.verify_field(content, field, bytes).map(|version| note(field, version))
            }
            Fields::One(field) => layout
                .find(bytes, field)
                .and_then(|place| layout.verify_field(content, field, &bytes[place]))
                .map(|version| note(field, version)),
            Fields::All => layout.verify(content, bytes, note),
        };
        verified.map_err(|_| OperationFailure::UnexpectedState)
    }

    fn each(&self, fields: Fields) -> impl Iterator<Item = FieldIndex> + use<I> {
        let (first, end) = match fields {
            Fields::All => (0, self.workload.layout.fields()),
            Fields::One(field) => (field.0, field.0 + 1),
        };
        (first..end).map(FieldIndex)
    }

    /// The byte range of these fields in a record. `None` means the whole record, or a field whose
    /// place depends on the record.
    fn part(&self, fields: Fields) -> Option<Range<usize>> {
        match fields {
            Fields::All => None,
            Fields::One(field) => self.workload.layout.place(field),
        }
    }
}

/// Copies a part of a value, or all of it, as a client would receive it.
fn copy_part(part: &Option<Range<usize>>, value: impl ValueView, bytes: &mut Vec<u8>) {
    let part = part.clone().unwrap_or(0..value.len());
    // The buffer is not cleared first, because the read below overwrites all bytes.
    bytes.resize(part.len(), 0);
    value.read(part.start, bytes);
}
