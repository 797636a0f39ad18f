//! The simulated fabric: verbs with delays and every reordering that a reliable connection permits.
