//! SELCC: cache coherence whose ownership lives in the latch word.
