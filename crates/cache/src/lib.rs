//! Cache frames, their seqlock state words, the index from address to frame, and replacement.
