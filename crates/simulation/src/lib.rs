//! The kernel of a deterministic world: event queue, virtual clock, seeded randomness.
