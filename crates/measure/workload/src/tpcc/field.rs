//! The encoding of fields, and the macro that defines the rows.
//!
//! ```text
//! | updated | fixed | lengths of texts (1 byte each) | texts | rest |
//! ```
//!
//! Integers are little-endian. The fields that transactions change (`updated`) come first, so that
//! an update writes one short run of bytes at the start of the row. `rest` is a text without a
//! length: it ends with the row. Some rows have no `rest`.

use std::num::{NonZeroU8, NonZeroU64};

use super::column::TpccColumnType;

/// A field of fixed length.
pub(super) trait Field<'a>: Sized {
    /// Length in bytes.
    const LEN: usize;

    /// The type of the field's column.
    const TYPE: TpccColumnType;

    /// Writes the field into `LEN` bytes.
    fn put(&self, out: &mut [u8]);

    /// Reads the field back; `None` for bytes that encode no value.
    fn get(bytes: &'a [u8]) -> Option<Self>;
}

macro_rules! integers {
    ($($int:ty, $Type:ident);*) => {$(
        impl<'a> Field<'a> for $int {
            const LEN: usize = size_of::<$int>();
            const TYPE: TpccColumnType = TpccColumnType::$Type;

            #[inline]
            fn put(&self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn get(bytes: &'a [u8]) -> Option<$int> {
                Some(<$int>::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}

integers!(u8, U8; u16, U16; u32, U32; u64, U64; i16, I16; i32, I32; i64, I64);

macro_rules! nullable {
    ($($int:ty, $nonzero:ty);*) => {$(
        /// Zero encodes null.
        impl<'a> Field<'a> for Option<$nonzero> {
            const LEN: usize = size_of::<$int>();
            const TYPE: TpccColumnType = <$int as Field<'_>>::TYPE;

            #[inline]
            fn put(&self, out: &mut [u8]) {
                self.map_or(0, <$nonzero>::get).put(out);
            }

            #[inline]
            fn get(bytes: &'a [u8]) -> Option<Option<$nonzero>> {
                <$int>::get(bytes).map(<$nonzero>::new)
            }
        }
    )*};
}

nullable!(u8, NonZeroU8; u64, NonZeroU64);

impl<'a> Field<'a> for bool {
    const LEN: usize = 1;
    const TYPE: TpccColumnType = TpccColumnType::U8;

    #[inline]
    fn put(&self, out: &mut [u8]) {
        u8::from(*self).put(out);
    }

    #[inline]
    fn get(bytes: &'a [u8]) -> Option<bool> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

/// Text of fixed length, borrowed from the bytes.
impl<'a, const N: usize> Field<'a> for &'a [u8; N] {
    const LEN: usize = N;
    const TYPE: TpccColumnType = TpccColumnType::Bytes(N as u16);

    #[inline]
    fn put(&self, out: &mut [u8]) {
        out.copy_from_slice(*self);
    }

    #[inline]
    fn get(bytes: &'a [u8]) -> Option<&'a [u8; N]> {
        bytes.try_into().ok()
    }
}

/// Reads the field at `at`, and moves `at` to the end of the field.
#[inline]
pub(super) fn take<'a, F: Field<'a>>(bytes: &'a [u8], at: &mut usize) -> Option<F> {
    F::get(slice(bytes, at, F::LEN)?)
}

/// Returns the `len` bytes from `at`, and moves `at` to their end.
#[inline]
pub(super) fn slice<'a>(bytes: &'a [u8], at: &mut usize, len: usize) -> Option<&'a [u8]> {
    let end = at.checked_add(len)?;
    let found = bytes.get(*at..end)?;
    *at = end;
    Some(found)
}

/// Returns all bytes from `at`, and moves `at` to the end.
#[inline]
pub(super) fn rest<'a>(bytes: &'a [u8], at: &mut usize) -> &'a [u8] {
    let found = bytes.get(*at..).unwrap_or_default();
    *at = bytes.len();
    found
}

/// Writes a field at `at`, and moves `at` to the end of the field.
#[inline]
pub(super) fn put<'a, F: Field<'a>>(field: &F, out: &mut [u8], at: &mut usize) {
    let end = *at + F::LEN;
    field.put(&mut out[*at..end]);
    *at = end;
}

/// The length byte of a text, and the text. A text of more than 255 bytes is cut.
#[inline]
pub(super) fn measured(text: &[u8]) -> (u8, &[u8]) {
    debug_assert!(text.len() <= usize::from(u8::MAX), "no text of the standard is that long");
    let len = u8::try_from(text.len()).unwrap_or(u8::MAX);
    (len, &text[..usize::from(len)])
}

/// The column type of a field of a key, which the function selects.
pub(super) const fn type_of_key<K, F: Field<'static>>(_: fn(&K) -> &F) -> TpccColumnType {
    F::TYPE
}

/// Bytes that encode no row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{len} bytes are no row of {table}: the database is damaged or of another layout")]
pub struct BadRow {
    /// The table, in the standard's spelling.
    pub table: &'static str,
    /// The number of bytes.
    pub len: usize,
}

/// Defines row structs from declarations of tables. A declaration has five parts: the key, the
/// fields that transactions change, the other fixed fields, texts with maximum lengths, and a last
/// text.
///
/// A column is `NAME => field`. Columns of equal length that programs use only together share one
/// field: `NAME NAME .. => field`.
macro_rules! rows {
    ($(
        $(#[$meta:meta])*
        $Row:ident $(<$life:lifetime>)? = $table:literal {
            key $Key:ident { $($KEY:ident => $key:ident,)* }
            updated { $($(#[$updated_meta:meta])* $UPDATED:ident => $updated:ident: $Updated:ty,)* }
            fixed { $($(#[$fixed_meta:meta])* $($FIXED:ident)+ => $fixed:ident: $Fixed:ty,)* }
            text { $($TEXT:ident($text_max:literal) => $text:ident,)* }
            rest { $($REST:ident($rest_max:expr) => $rest:ident)? }
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $Row $(<$life>)? {
            $(
                #[doc = concat!(stringify!($UPDATED), ".")]
                $(#[$updated_meta])*
                pub $updated: $Updated,
            )*
            $(
                #[doc = concat!($(stringify!($FIXED), ". "),+)]
                $(#[$fixed_meta])*
                pub $fixed: $Fixed,
            )*
            $(
                #[doc = concat!(stringify!($TEXT), ", at most ", $text_max, " bytes.")]
                pub $text: &'a [u8],
            )*
            $(
                #[doc = concat!(stringify!($REST), ", at most ", stringify!($rest_max), " bytes.")]
                pub $rest: &'a [u8],
            )?
        }

        #[allow(unused_mut, unused_assignments, unused_variables)]
        impl $(<$life>)? $Row $(<$life>)? {
            /// The table's name, and its columns.
            pub(super) const TABLE: Declaration = Declaration {
                name: $table,
                key: &[$(
                    Columns::new(&[stringify!($KEY)], type_of_key(|key: &$Key| &key.$key)),
                )*],
                row: &[
                    $(Columns::new(&[stringify!($UPDATED)], <$Updated as Field<'_>>::TYPE),)*
                    $(Columns::new(&[$(stringify!($FIXED)),+], <$Fixed as Field<'_>>::TYPE),)*
                    $(Columns::new(&[stringify!($TEXT)], TpccColumnType::Text($text_max)),)*
                    $(Columns::new(&[stringify!($REST)], TpccColumnType::Rest($rest_max)),)?
                ],
            };

            /// Number of bytes at the start of the row that transactions change.
            pub const UPDATED_LEN: usize = 0 $(+ <$Updated as Field<'_>>::LEN)*;

            /// Number of bytes before the texts.
            const HEAD_LEN: usize = Self::UPDATED_LEN
                $(+ <$Fixed as Field<'_>>::LEN)*
                $(+ { let _ = stringify!($text); 1 })*;

            /// Replaces the contents of `out` by the row. Texts with a length byte are cut at 255
            /// bytes.
            #[inline]
            pub fn encode(&self, out: &mut Vec<u8>) {
                let mut head = [0; $Row::HEAD_LEN];
                let mut at = 0;
                $(put(&self.$updated, &mut head, &mut at);)*
                $(put(&self.$fixed, &mut head, &mut at);)*
                $(put(&measured(self.$text).0, &mut head, &mut at);)*
                out.clear();
                out.extend_from_slice(&head);
                $(out.extend_from_slice(measured(self.$text).1);)*
                $(out.extend_from_slice(self.$rest);)?
            }

            /// Overwrites the first [`UPDATED_LEN`](Self::UPDATED_LEN) bytes of an encoded row: the
            /// fields that transactions change. A shorter `row` stays unchanged.
            #[inline]
            pub fn write_updated(&self, row: &mut [u8]) {
                let Some(out) = row.get_mut(..Self::UPDATED_LEN) else { return };
                let mut at = 0;
                $(put(&self.$updated, out, &mut at);)*
            }

            /// Decodes a row.
            ///
            /// # Errors
            ///
            /// Fails when `bytes` encode no row of this table.
            #[inline]
            pub fn decode(bytes: & $($life)? [u8]) -> Result<Self, BadRow> {
                Self::read(bytes).ok_or(BadRow { table: $table, len: bytes.len() })
            }

            #[inline]
            fn read(bytes: & $($life)? [u8]) -> Option<Self> {
                let mut at = 0;
                $(let $updated = take::<$Updated>(bytes, &mut at)?;)*
                $(let $fixed = take::<$Fixed>(bytes, &mut at)?;)*
                $(let $text = usize::from(take::<u8>(bytes, &mut at)?);)*
                $(let $text = slice(bytes, &mut at, $text)?;)*
                $(let $rest = rest(bytes, &mut at);)?
                (at == bytes.len())
                    .then_some($Row { $($updated,)* $($fixed,)* $($text,)* $($rest,)? })
            }
        }
    )*};
}

pub(super) use rows;
