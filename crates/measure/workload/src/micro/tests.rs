use super::*;

fn config() -> MicroConfig {
    MicroConfig {
        lines: 1000,
        scale: 1,
        items_per_line: 4,
        nodes: 4,
        reads: 0.5,
        writer_nodes: 0,
        sharing: 1.0,
        temporal: 0.0,
        spatial: 0.0,
        popularity: Popularity::Uniform,
        writes: WriteKind::Locked,
    }
}

fn accesses(config: &MicroConfig, node: u64, count: usize) -> Vec<MicroAccess> {
    let workload = MicroWorkload::new(config.clone()).expect("a workload");
    let mut stream = AccessStream::new(&workload, ClientIndex { node, client: 10 + node }, 7);
    (0..count).map(|_| stream.draw()).collect()
}

fn share(accesses: &[MicroAccess], is_so: impl Fn(&MicroAccess) -> bool) -> f64 {
    accesses.iter().filter(|access| is_so(access)).count() as f64 / accesses.len() as f64
}

#[test]
fn reads_are_their_share_and_lines_and_items_are_even() {
    let all = accesses(&MicroConfig { reads: 0.95, ..config() }, 0, 100_000);
    assert!((share(&all, |a| a.kind == MicroKind::Read) - 0.95).abs() < 0.004);
    for quarter in 0..4 {
        assert!((share(&all, |a| a.line / 250 == quarter) - 0.25).abs() < 0.006);
        assert!((share(&all, |a| a.item == quarter) - 0.25).abs() < 0.006);
    }
    for (reads, kind) in [(1.0, MicroKind::Read), (0.0, MicroKind::Write)] {
        let all = accesses(&MicroConfig { reads, ..config() }, 0, 1000);
        assert!(all.iter().all(|access| access.kind == kind));
    }
}

#[test]
fn each_node_keeps_to_what_is_shared_and_to_its_own() {
    let half = MicroConfig { sharing: 0.5, ..config() };
    let workload = MicroWorkload::new(half.clone()).unwrap();
    let (shared, own) = workload.regions();
    assert_eq!((shared, own, workload.lines()), (500, 500, 2500));
    for node in 0..4 {
        let all = accesses(&half, node, 20_000);
        assert!((share(&all, |a| a.line < 500) - 0.5).abs() < 0.015);
        let mine = 500 * (node + 1)..500 * (node + 2);
        assert!(all.iter().all(|a| a.line < 500 || mine.contains(&a.line)));
    }
    // With a sharing ratio of 0, each line has one user, whatever the locality and the skew.
    let alone = MicroConfig {
        sharing: 0.0,
        temporal: 0.3,
        spatial: 0.5,
        popularity: Popularity::Zipfian { theta: 0.99 },
        ..config()
    };
    for node in 0..4 {
        let all = accesses(&alone, node, 20_000);
        assert!(all.iter().all(|a| a.line / 1000 == node), "{node}");
    }
}

#[test]
fn locality_is_the_share_of_accesses_that_stay_or_go_on() {
    let follows = |all: &[MicroAccess], is_so: fn(&MicroAccess, &MicroAccess) -> bool| {
        all.windows(2).filter(|w| is_so(&w[0], &w[1])).count() as f64 / (all.len() - 1) as f64
    };
    let same: fn(&MicroAccess, &MicroAccess) -> bool = |a, b| a.line == b.line;
    let next: fn(&MicroAccess, &MicroAccess) -> bool =
        |a, b| (b.line * 4 + b.item) == (a.line * 4 + a.item + 1) % 4000;
    let stays = accesses(&MicroConfig { temporal: 0.5, ..config() }, 0, 50_000);
    assert!((follows(&stays, same) - 0.5).abs() < 0.01);
    let goes_on = accesses(&MicroConfig { spatial: 0.7, ..config() }, 0, 50_000);
    assert!((follows(&goes_on, next) - 0.7).abs() < 0.01);
    let neither = accesses(&config(), 0, 50_000);
    assert!(follows(&neither, same) < 0.005 && follows(&neither, next) < 0.005);
}

#[test]
fn hot_lines_are_the_same_on_all_nodes_and_lie_apart() {
    let skewed = MicroConfig {
        lines: 1000,
        scale: 100,
        popularity: Popularity::Zipfian { theta: 0.99 },
        ..config()
    };
    let hottest = |node| {
        let mut seen = vec![0; 1000];
        accesses(&skewed, node, 50_000).iter().for_each(|a| seen[a.line as usize] += 1);
        let mut lines: Vec<usize> = (0..1000).collect();
        lines.sort_by_key(|line| std::cmp::Reverse(seen[*line]));
        lines.truncate(4);
        lines
    };
    let hot = hottest(0);
    assert_eq!(hot[..2], hottest(3)[..2]);
    // With eight memory nodes, each has every eighth line. The four hottest lines are on different
    // nodes.
    let mut nodes: Vec<usize> = hot.iter().map(|line| line % 8).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert!(nodes.len() >= 3, "{hot:?}");
}

#[test]
fn every_popularity_has_a_line_of_its_own() {
    for lines in [1, 2, 3, 10, 64, 97, 1000, 24_000] {
        let region = Region::new(lines, &config()).unwrap();
        let mut places: Vec<u64> = (0..lines).map(|p| region.place(p)).collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..lines), "{lines}");
    }
}

#[test]
fn with_a_skew_of_ten_one_line_gets_all_but_everything() {
    let skewed =
        MicroConfig { popularity: Popularity::Zipfian { theta: 10.0 }, scale: 24, ..config() };
    let all = accesses(&skewed, 1, 10_000);
    assert!(share(&all, |a| a.line == all[0].line || a.line == 0) > 0.99);
}

#[test]
fn writers_only_write_and_readers_only_read() {
    let roles = MicroConfig { writer_nodes: 1, reads: 0.5, ..config() };
    assert!(accesses(&roles, 0, 1000).iter().all(|a| a.kind == MicroKind::Write));
    assert!(accesses(&roles, 1, 1000).iter().all(|a| a.kind == MicroKind::Read));
}

#[test]
fn a_client_draws_the_same_again_and_another_draws_others() {
    assert_eq!(accesses(&config(), 0, 100), accesses(&config(), 0, 100));
    assert_ne!(accesses(&config(), 0, 100), accesses(&config(), 1, 100));
}

#[test]
fn what_is_impossible_says_what_would_do() {
    for (wrong, words) in [
        (MicroConfig { lines: 0, ..config() }, "there must be lines"),
        (MicroConfig { reads: 1.5, ..config() }, "from 0 to 1"),
        (MicroConfig { sharing: f64::NAN, ..config() }, "sharing ratio"),
        (MicroConfig { writer_nodes: 5, ..config() }, "4 nodes"),
        (MicroConfig { lines: 3, sharing: 0.1, ..config() }, "use more"),
        (MicroConfig { lines: 3, sharing: 0.9, ..config() }, "use more"),
        (MicroConfig { lines: u64::MAX / 2, sharing: 0.0, ..config() }, "too many"),
        (MicroConfig { popularity: Popularity::Zipfian { theta: -1.0 }, ..config() }, "skew"),
    ] {
        let line = MicroWorkload::new(wrong).expect_err("impossible").to_string();
        assert!(line.contains(words) && !line.contains('\n'), "{line}");
    }
}
