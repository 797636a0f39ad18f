//! Compares the zipfian of Gray's formula with `rand_distr`, which samples by rejection and is
//! exact.

use latchwork_workload::distribution::{YCSB_THETA, Zipfian, zeta};
use latchwork_workload::random::WorkloadRandom;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::Distribution;

const DRAWS: usize = 1_000_000;

/// The group of a rank. Groups grow: 0, 1, 2, 3, 4-6, 7-11, and so on.
fn group(rank: u64) -> usize {
    if rank < 4 { rank as usize } else { ((rank as f64 + 1.0).ln() * 2.0) as usize + 2 }
}

fn histogram(ranks: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut counts = vec![0.0; 64];
    for rank in ranks {
        counts[group(rank)] += 1.0 / DRAWS as f64;
    }
    counts
}

fn ours(items: u64, theta: f64, seed: u64) -> Vec<f64> {
    let zipfian = Zipfian::new(items, theta).unwrap();
    let mut random = WorkloadRandom::new(seed);
    histogram((0..DRAWS).map(|_| zipfian.draw(&mut random)))
}

fn exact(items: u64, theta: f64, seed: u64) -> Vec<f64> {
    let zipf = rand_distr::Zipf::new(items as f64, theta).unwrap();
    let mut random = StdRng::seed_from_u64(seed);
    histogram((0..DRAWS).map(|_| zipf.sample(&mut random) as u64 - 1))
}

/// The total variation distance, half the sum of differences: the largest error in the probability
/// of any set of groups.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

#[test]
fn shares_agree_with_an_exact_zipfian() {
    for (items, theta) in
        [(1000, YCSB_THETA), (100_000, YCSB_THETA), (10_000_000, YCSB_THETA), (100_000, 0.6)]
    {
        let (ours, exact) = (ours(items, theta, 1), exact(items, theta, 2));
        let distance = distance(&ours, &exact);
        println!("{items} {theta}: {distance:.4}");
        for (g, (a, b)) in ours.iter().zip(&exact).enumerate() {
            println!("  {g}: {a:.5} {b:.5}");
        }
        assert!(distance < 0.02, "{items} {theta}: {distance}");
    }
}

#[test]
fn the_measure_notices_another_skew() {
    let distance = distance(&ours(100_000, 0.9, 1), &exact(100_000, YCSB_THETA, 2));
    assert!(distance > 0.05, "{distance}");
}

#[test]
fn the_two_hottest_ranks_are_exact() {
    let items = 100_000;
    let ours = ours(items, YCSB_THETA, 3);
    let zeta = zeta(items, YCSB_THETA);
    for (rank, share) in [(0, 1.0 / zeta), (1, 0.5f64.powf(YCSB_THETA) / zeta)] {
        // Five standard deviations.
        let tolerance = 5.0 * (share / DRAWS as f64).sqrt();
        assert!((ours[rank] - share).abs() < tolerance, "{rank}: {} {share}", ours[rank]);
    }
}
