//! SEL: the shared-exclusive latch baseline, which gives a line back after every access.
