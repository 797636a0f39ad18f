//! The per-core polling executor, its real and virtual drivers, and the sync primitives that latches import.
