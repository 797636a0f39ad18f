//! The shared-memory fabric: one-sided verbs executed by the caller on memory that all nodes map.
