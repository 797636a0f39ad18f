//! The definition of a table: a row of table 0.

use std::rc::Rc;

use latchwork_coherence::LineLocks;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::TableId;

use crate::schema::{ColumnType, NAME_MAX};
use crate::{Schema, Table, TxnError};

/// The schema of table 0.
pub(super) fn schema() -> Result<Rc<Schema>, TxnError> {
    let schema = Schema::builder("tables")
        .column("name", ColumnType::Text(NAME_MAX as u8))
        .column("definition", ColumnType::Blob)
        .primary_key(["name"]);
    Ok(Rc::new(schema.build()?))
}

/// The row of table 0 for a table: its key and its value.
pub(crate) fn definition<M: LineLocks>(table: &Table<M>) -> Result<(Vec<u8>, Vec<u8>), TxnError> {
    let mut blob = table.id().0.to_le_bytes().to_vec();
    let roots: Vec<_> = table.roots().collect();
    blob.push(roots.len() as u8);
    strict_assert!(
        roots.len() <= usize::from(u8::MAX),
        "the definition of a table has no room for its roots"
    );
    roots.iter().for_each(|root| blob.extend_from_slice(&root.bits().to_le_bytes()));
    blob.extend_from_slice(&table.schema().encode());
    let of_definitions = self::schema()?;
    let (mut key, mut row) = (Vec::new(), Vec::new());
    of_definitions.encode_key(&[table.schema().name().into()], &mut key)?;
    of_definitions.encode_row(&[blob.as_slice().into()], &mut row)?;
    strict_assert!(
        read_definition(&of_definitions, &row)
            .is_ok_and(|(id, read, _)| id == table.id() && read == roots),
        "a definition is read as it was written"
    );
    Ok((key, row))
}

/// Decodes a row of table 0.
pub(crate) fn read_definition(
    definitions: &Schema,
    row: &[u8],
) -> Result<(TableId, Vec<GlobalAddr>, Schema), TxnError> {
    let blob = definitions.row(row)?.bytes(definitions.column("definition")?)?;
    let cut = || TxnError::Definition;
    let (id, rest) = blob.split_first_chunk::<4>().ok_or_else(cut)?;
    let (&count, rest) = rest.split_first().ok_or_else(cut)?;
    let (roots, schema) = rest.split_at_checked(8 * usize::from(count)).ok_or_else(cut)?;
    let (roots, _) = roots.as_chunks::<8>();
    let roots = roots.iter().map(|root| GlobalAddr::from_bits(u64::from_le_bytes(*root)));
    let schema = Schema::decode(schema)?;
    let roots: Vec<_> = roots.collect();
    if roots.len() != schema.indexes().len() + 1 {
        return Err(cut());
    }
    Ok((TableId(u32::from_le_bytes(*id)), roots, schema))
}
