//! Node ids, configuration, and starting an embedded cluster.
