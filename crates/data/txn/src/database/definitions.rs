//! Tables by name: the rows of table 0 are the definitions of all other tables.

use std::ops::ControlFlow;
use std::rc::Rc;

use latchwork_blink::TreeValue;
use latchwork_coherence::LineLocks;
use latchwork_strict::strict_assert;
use latchwork_wal::TableId;

use super::Database;
use super::definition::{definition, read_definition};
use super::words::TABLES;
use crate::schema::ColumnValue;
use crate::transaction::Range;
use crate::{RowId, Schema, Table, TxnError};

impl<M: LineLocks> Database<M> {
    /// Makes a table.
    ///
    /// # Errors
    /// [`TxnError::Exists`] when a table of this name exists; a schema with keys too long for an
    /// index, or itself too long for a line; memory that fails or is full.
    pub async fn create_table(&self, schema: Schema) -> Result<Table<M>, TxnError> {
        schema.check_keys(self.definitions().tree(0).limits().key_max)?;
        let id = self.memory().fetch_add(self.0.counters, TABLES, 1).await?;
        let id = TableId(u32::try_from(id).map_err(|_| TxnError::TooManyTables)?);
        let schema = Rc::new(schema);
        let table = Table::create(self.memory().clone(), id, schema.clone()).await?;
        let name = schema.name().to_owned();
        strict_assert!(
            table.secondaries() == schema.indexes().len(),
            "an index of the table has no tree"
        );
        let (key, row) = definition(&table)?;
        self.run(async |tx| tx.insert(self.definitions(), &key, &row).await).await?;
        self.persist_definition(&key).await?;
        self.0.tables.borrow_mut().insert(name, table.clone());
        strict_assert!(id.0 > 0, "the number of the table of definitions is given out");
        Ok(table)
    }

    /// Persists the definition of a table, and its entry: a new table stays, whatever becomes of
    /// this node.
    async fn persist_definition(&self, key: &[u8]) -> Result<(), TxnError> {
        if !self.memory().persists() {
            return Ok(());
        }
        let definitions = self.definitions();
        let id = |value: TreeValue<'_>| RowId::from_bits(value.u64(0));
        let (id, leaf) = definitions.tree(0).get_stamped(key, id).await?;
        if let Some(id) = id {
            self.memory().persist(definitions.heap().line_of(id)).await?;
        }
        Ok(self.memory().persist(leaf.addr).await?)
    }

    /// The table with this name.
    ///
    /// # Errors
    /// [`TxnError::NoTable`]; memory failures.
    pub async fn table(&self, name: &str) -> Result<Table<M>, TxnError> {
        if let Some(table) = self.0.tables.borrow().get(name) {
            return Ok(table.clone());
        }
        let mut key = Vec::new();
        let definitions = self.definitions();
        definitions.schema().encode_key(&[name.into()], &mut key)?;
        let mut row = Vec::new();
        let found = self.run(async |tx| tx.get(definitions, &key, &mut row).await).await?;
        if !found {
            return Err(TxnError::NoTable { name: name.to_owned() });
        }
        let (id, roots, schema) = read_definition(definitions.schema(), &row)?;
        let table = Table::open(self.memory().clone(), id, Rc::new(schema), &roots).await?;
        self.0.tables.borrow_mut().insert(name.to_owned(), table.clone());
        Ok(table)
    }

    /// A table that this worker has already opened.
    pub(crate) fn known_table(&self, id: TableId) -> Option<Table<M>> {
        self.0.tables.borrow().values().find(|table| table.id() == id).cloned()
    }

    /// The names of all tables.
    ///
    /// # Errors
    /// Memory failures.
    pub(crate) async fn table_names(&self) -> Result<Vec<String>, TxnError> {
        let mut names = Vec::new();
        self.run(async |tx| {
            names.clear();
            tx.scan(self.definitions(), Range::all(), |key, _| {
                names.extend(self.name_in(key));
                ControlFlow::Continue(())
            })
            .await
        })
        .await?;
        Ok(names)
    }

    /// The name in a key of table 0.
    fn name_in(&self, key: &[u8]) -> Option<String> {
        let schema = self.definitions().schema();
        match schema.key(key).ok()?.get(schema.column("name").ok()?).ok()? {
            ColumnValue::Bytes(name) => Some(String::from_utf8_lossy(&name).into_owned()),
            _ => None,
        }
    }

    /// Reserves all table numbers up to `highest`, so that no new table gets one of them.
    pub(crate) async fn reserve_tables(&self, highest: u32) -> Result<(), TxnError> {
        let (memory, counters) = (self.memory(), self.0.counters);
        let next = memory.fetch_add(counters, TABLES, 0).await?;
        if next <= highest.into() {
            memory.fetch_add(counters, TABLES, u64::from(highest) + 1 - next).await?;
        }
        Ok(())
    }
}
