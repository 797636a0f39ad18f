//! The traits that indexes and transactions are written against.
