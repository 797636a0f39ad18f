//! Key distributions, YCSB workloads, histograms, result documents, history checkers.
