//! Memory nodes: chunks with dense latch tables, line allocation, epochs, and the catalogue of named objects.
