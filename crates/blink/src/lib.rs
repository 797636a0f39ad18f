//! A concurrent B-link tree over coherent memory.
