//! The builder of schemas, and its checks.

use latchwork_strict::strict_assert;

use super::Schema;
use super::column::{Column, ColumnId};
use super::column_type::ColumnType;
use super::error::SchemaError;
use super::index::SecondaryIndex;
use super::limits::{COLUMNS_MAX, INDEXES_MAX, NAME_MAX, ROW_MAX};
use super::ordered::{KEY_COLUMNS_MAX, KeyLayout, Order, Part};
use super::place::Place;

/// Builds a schema; made by [`Schema::builder`]. Only [`build`](SchemaBuilder::build) checks the
/// schema. `build` reports the first error.
#[derive(Clone, Debug)]
pub struct SchemaBuilder {
    table: String,
    columns: Vec<Column>,
    key: Vec<String>,
    indexes: Vec<IndexDefinition<String>>,
    rows_per_line: Option<u16>,
}

impl Schema {
    /// Begins a schema of a table with this name.
    pub fn builder(table: impl Into<String>) -> SchemaBuilder {
        SchemaBuilder::new(table.into())
    }
}

impl SchemaBuilder {
    pub(super) fn new(table: String) -> SchemaBuilder {
        let (columns, key, indexes) = Default::default();
        SchemaBuilder { table, columns, key, indexes, rows_per_line: None }
    }

    /// Adds a column. In a row, columns stand in the order in which they are added, but texts come
    /// after the columns of fixed length. Columns that change together should be added one after
    /// the other, so that one write covers them.
    pub fn column(mut self, name: impl Into<String>, kind: ColumnType) -> SchemaBuilder {
        self.columns.push(Column { name: name.into(), kind });
        self
    }

    /// Sets the columns of the primary key, in the order of the key.
    pub fn primary_key<'n>(mut self, columns: impl IntoIterator<Item = &'n str>) -> SchemaBuilder {
        self.key = columns.into_iter().map(str::to_owned).collect();
        self
    }

    /// Adds a secondary index in which several rows may have equal values in the columns of the
    /// index.
    pub fn index<'n>(
        mut self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = (&'n str, Order)>,
    ) -> SchemaBuilder {
        self.indexes.push(IndexDefinition::named(name, false, columns));
        self
    }

    /// Adds a secondary index in which no two rows may have equal values in all columns of the
    /// index.
    pub fn unique_index<'n>(
        mut self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = (&'n str, Order)>,
    ) -> SchemaBuilder {
        self.indexes.push(IndexDefinition::named(name, true, columns));
        self
    }

    /// Sets the maximum number of rows in a line. Rows of one line are locked together. So rows
    /// that all transactions change should share their lines with few other rows. The value 1 gives
    /// each row a line of its own.
    pub fn rows_per_line(mut self, rows: u16) -> SchemaBuilder {
        self.rows_per_line = Some(rows);
        self
    }

    /// Checks and returns the schema.
    ///
    /// # Errors
    /// The first error of the schema: see [`SchemaError`].
    pub fn build(self) -> Result<Schema, SchemaError> {
        let SchemaBuilder { table, columns, key, indexes, rows_per_line } = self;
        let mut definition = Definition::of_columns(table, columns)?;
        let (table, columns) = (&definition.table, &definition.columns);
        let number = |name: &str, by: &dyn Fn() -> String| {
            let mut numbered = (0..).map(ColumnId).zip(columns);
            let found = numbered.find(|(_, column)| column.name == name);
            found.map(|(id, _)| id).ok_or_else(|| SchemaError::UnknownColumn {
                table: table.clone(),
                column: name.to_owned(),
                by: by(),
            })
        };
        let key = key.iter().map(|name| number(name, &|| primary_key(table)));
        let key = key.collect::<Result<_, SchemaError>>()?;
        let numbered = |IndexDefinition { name, unique, columns }: IndexDefinition<String>| {
            let part = |(column, order): &(String, Order)| {
                Ok((number(column, &|| format!("index {name}"))?, *order))
            };
            let columns = columns.iter().map(part).collect::<Result<_, SchemaError>>()?;
            Ok(IndexDefinition { name, unique, columns })
        };
        let indexes = indexes.into_iter().map(numbered).collect::<Result<_, SchemaError>>()?;
        (definition.key, definition.indexes) = (key, indexes);
        definition.rows_per_line = rows_per_line;
        definition.check()
    }
}

fn primary_key(table: &str) -> String {
    format!("the primary key of table {table}")
}

/// The input of a schema, with columns by number. The columns are checked; keys and indexes are not
/// checked yet.
pub(super) struct Definition {
    table: String,
    columns: Vec<Column>,
    pub(super) key: Vec<ColumnId>,
    pub(super) indexes: Vec<IndexDefinition<ColumnId>>,
    pub(super) rows_per_line: Option<u16>,
}

/// An index of columns by name or by number.
#[derive(Clone, Debug)]
pub(super) struct IndexDefinition<C> {
    pub(super) name: String,
    pub(super) unique: bool,
    pub(super) columns: Vec<(C, Order)>,
}

impl IndexDefinition<String> {
    fn named<'n>(
        name: impl Into<String>,
        unique: bool,
        columns: impl IntoIterator<Item = (&'n str, Order)>,
    ) -> IndexDefinition<String> {
        let columns = columns.into_iter().map(|(column, order)| (column.to_owned(), order));
        IndexDefinition { name: name.into(), unique, columns: columns.collect() }
    }
}

impl Definition {
    /// A table of these columns, without keys yet.
    pub(super) fn of_columns(
        table: String,
        columns: Vec<Column>,
    ) -> Result<Definition, SchemaError> {
        check_columns(&table, &columns)?;
        Ok(Definition { table, columns, key: vec![], indexes: vec![], rows_per_line: None })
    }

    /// Checks everything and returns the schema.
    pub(super) fn check(self) -> Result<Schema, SchemaError> {
        let table = self.table.clone();
        let whose = primary_key(&table);
        self.check_key(&whose, self.key.iter().copied())?;
        if self.indexes.len() > INDEXES_MAX {
            let (whose, count) = (format!("table {table}"), self.indexes.len());
            let what = "secondary indexes";
            return Err(SchemaError::TooMany { whose, what, count, max: INDEXES_MAX });
        }
        for (at, index) in self.indexes.iter().enumerate() {
            check_name("an index", &index.name)?;
            if self.indexes[..at].iter().any(|before| before.name == index.name) {
                let name = index.name.clone();
                return Err(SchemaError::Duplicate { table, what: "indexes", name });
            }
            let whose = format!("index {} of table {table}", index.name);
            self.check_key(&whose, index.columns.iter().map(|&(column, _)| column))?;
        }
        if self.rows_per_line == Some(0) {
            return Err(SchemaError::NoRowsPerLine { table });
        }
        self.lay_out(whose)
    }

    fn check_key(
        &self,
        whose: &str,
        key: impl Iterator<Item = ColumnId>,
    ) -> Result<(), SchemaError> {
        let whose = || whose.to_owned();
        let key: Vec<ColumnId> = key.collect();
        if key.is_empty() {
            return Err(SchemaError::NoColumns { whose: whose() });
        }
        if key.len() > KEY_COLUMNS_MAX {
            let (what, count, max) = ("columns", key.len(), KEY_COLUMNS_MAX);
            return Err(SchemaError::TooMany { whose: whose(), what, count, max });
        }
        for (at, id) in key.iter().enumerate() {
            let Some(Column { name, kind }) = self.columns.get(id.index()) else {
                let (table, column) = (self.table.clone(), format!("number {}", id.index()));
                return Err(SchemaError::UnknownColumn { table, column, by: whose() });
            };
            let column = || name.clone();
            if key[..at].contains(id) {
                return Err(SchemaError::KeyRepeats { whose: whose(), column: column() });
            }
            if *kind == ColumnType::Blob {
                return Err(SchemaError::BlobInKey { whose: whose(), column: column() });
            }
        }
        Ok(())
    }

    /// Computes the location of each column. `whose` names the primary key in errors.
    fn lay_out(self, whose: String) -> Result<Schema, SchemaError> {
        let Definition { table, columns, key, indexes, rows_per_line } = self;
        let (mut places, mut in_row, mut texts, mut fixed_len) = (vec![], vec![], vec![], 0);
        for (id, column) in (0..).map(ColumnId).zip(&columns) {
            if let Some(at) = key.iter().position(|&part| part == id) {
                places.push(Place::Key(at));
                continue;
            }
            in_row.push(id);
            places.push(match (column.kind, column.kind.fixed_len()) {
                (_, Some(len)) => {
                    fixed_len += len;
                    Place::Fixed(fixed_len - len)
                }
                (ColumnType::Blob, None) => Place::Blob,
                (_, None) => {
                    texts.push(id);
                    Place::Text(texts.len() - 1)
                }
            });
        }
        let head = fixed_len..fixed_len + texts.len();
        strict_assert!(places.len() == columns.len(), "a column has no place");
        strict_assert!(
            in_row.len() + key.len() == columns.len(),
            "a column is in the key and in the row, or in neither"
        );
        if head.end > ROW_MAX {
            return Err(SchemaError::RowTooLong { table, len: head.end, max: ROW_MAX });
        }
        let part = |&column: &ColumnId| {
            let kind = columns[column.index()].kind;
            Part { column, kind, order: Order::Ascending }
        };
        let key = KeyLayout { whose, parts: key.iter().map(part).collect() };
        let index = |IndexDefinition { name, unique, columns: parts }| {
            SecondaryIndex::new(
                &table,
                name,
                unique,
                parts,
                (&columns, &places, &key),
                head.clone(),
            )
        };
        let indexes = indexes.into_iter().map(index).collect::<Result<_, SchemaError>>()?;
        let schema = Schema {
            name: table,
            columns,
            locations: places,
            in_row,
            texts,
            fixed_len,
            key,
            indexes,
            rows_per_line,
        };
        schema.check_keys(latchwork_blink::KEY_MAX)?;
        strict_assert!(schema.row_len_min() <= ROW_MAX, "the least row is longer than a line");
        Ok(schema)
    }
}

fn check_columns(table: &str, columns: &[Column]) -> Result<(), SchemaError> {
    check_name("a table", table)?;
    let whose = || format!("table {}", table);
    if columns.is_empty() {
        return Err(SchemaError::NoColumns { whose: whose() });
    }
    if columns.len() > COLUMNS_MAX {
        let (count, max) = (columns.len(), COLUMNS_MAX);
        return Err(SchemaError::TooMany { whose: whose(), what: "columns", count, max });
    }
    for (at, column) in columns.iter().enumerate() {
        check_name("a column", &column.name)?;
        let name = column.name.clone();
        if columns[..at].iter().any(|before| before.name == name) {
            let table = table.to_owned();
            return Err(SchemaError::Duplicate { table, what: "columns", name });
        }
        match column.kind {
            ColumnType::Bytes(0) | ColumnType::Text(0) => {
                return Err(SchemaError::LengthZero { column: name });
            }
            ColumnType::Blob if at + 1 < columns.len() => {
                return Err(SchemaError::BlobNotLast { column: name });
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_name(what: &'static str, name: &str) -> Result<(), SchemaError> {
    if name.is_empty() {
        return Err(SchemaError::NameEmpty { what });
    }
    if name.len() > NAME_MAX {
        return Err(SchemaError::NameTooLong { what, name: name.to_owned() });
    }
    if name.chars().any(char::is_control) {
        return Err(SchemaError::NameControl { what, name: name.to_owned() });
    }
    Ok(())
}
