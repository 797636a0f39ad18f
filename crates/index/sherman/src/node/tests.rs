//! Nodes before and after splits, and mixtures of both.

use latchwork_verbs::GlobalAddr;

use super::{Check, Content, Fences, Found, Layout, View, entry};

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn leaf(layout: &Layout, keys: impl IntoIterator<Item = u64>) -> Content {
    let mut content = Content::empty(layout, 0, 77);
    content.entries = keys.into_iter().map(|n| entry(&key(n), &key(n * 10))).collect();
    content
}

#[test]
fn a_node_says_what_was_written_before_and_after_a_split() {
    for check in [Check::Words, Check::Published, Check::Checksum] {
        let layout = Layout::new(check, 992, 8, 8).unwrap();
        let mut content = leaf(&layout, (1..=30).map(|n| n * 2));
        let mut words = vec![0; layout.words];
        content.write(&layout, &mut words);
        let view = View { layout: &layout, words: &words };
        let header = view.header().unwrap();
        assert_eq!((header.level, header.count, header.tag), (0, 30, 77));
        let mut value = Vec::new();
        for n in 1..=61 {
            match view.find(&header, &key(n)).unwrap() {
                Found::Here(slot) if n % 2 == 0 => view.value(slot.index, &mut value),
                Found::Absent(Some(_)) if n % 2 == 1 => continue,
                other => panic!("{check:?} {n}: {other:?}"),
            }
            assert_eq!(value, key(n * 10));
        }
        let read = view.content(&header).unwrap();
        assert_eq!(read.entries, content.entries);
        let right = GlobalAddr::from_bits(0x4000);
        let upper = content.split(&layout, right);
        content.header.version = header.version;
        content.write(&layout, &mut words);
        let view = View { layout: &layout, words: &words };
        let header = view.header().unwrap();
        assert_eq!(header.right, right);
        assert_eq!(view.place(&header, &key(32)), Fences::Beyond);
        assert_eq!(view.place(&header, &key(31)), Fences::Inside);
        upper.write(&layout, &mut words);
        let view = View { layout: &layout, words: &words };
        let header = view.header().unwrap();
        assert!(header.right.is_null() && header.is_last);
        assert_eq!(view.place(&header, &key(31)), Fences::Below);
        assert_eq!(view.place(&header, &key(u64::MAX)), Fences::Inside);
    }
}

/// Every mixture of a leaf before and after its split, word for word: with tags and with a
/// checksum no key vanishes and no fence is wrong.
#[test]
fn a_mixture_of_a_leaf_and_its_split_is_torn_or_true() {
    for check in [Check::Words, Check::Checksum] {
        let layout = Layout::new(check, 480, 8, 8).unwrap();
        let room = layout.room(0) as u64;
        let mut content = leaf(&layout, 1..=room);
        let mut old = vec![0; layout.words];
        content.write(&layout, &mut old);
        content.header.version = View { layout: &layout, words: &old }.header().unwrap().version;
        content.split(&layout, GlobalAddr::from_bits(0x4000));
        let mut new = vec![0; layout.words];
        content.write(&layout, &mut new);
        let expected = (content.high.clone(), content.entries.clone());
        let differing: Vec<usize> = (0..old.len()).filter(|&i| old[i] != new[i]).collect();
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let mut words = old.clone();
            for (bit, &i) in differing.iter().enumerate() {
                if seed.rotate_left(bit as u32 * 7) & 3 == 0 {
                    words[i] = new[i];
                }
            }
            if words == old || words == new {
                continue;
            }
            let view = View { layout: &layout, words: &words };
            let Ok(header) = view.header() else { continue };
            for n in 1..=room {
                let inside = view.place(&header, &key(n)) == Fences::Inside;
                let absent = matches!(view.find(&header, &key(n)), Ok(Found::Absent(_)));
                assert!(!(inside && absent), "{check:?}: key {n} vanished");
            }
            // Words behind the last entry of a sorted node mean nothing.
            let read = view.content(&header).map(|read| (read.high, read.entries));
            assert!(
                read.is_err() || check == Check::Checksum && read.as_ref() == Ok(&expected),
                "{check:?}"
            );
        }
    }
}

#[test]
fn lengths_without_room_are_refused() {
    assert!(Layout::new(Check::Words, 992, 8, 257).is_err());
    assert!(Layout::new(Check::Words, 480, 200, 8).is_err());
    assert!(Layout::new(Check::Words, 480, 0, 8).is_err());
    let layout = Layout::new(Check::Words, 992, 8, 8).unwrap();
    assert_eq!((layout.room(0), layout.room(1)), (39, 39));
    let sorted = Layout::new(Check::Checksum, 992, 8, 8).unwrap();
    assert_eq!(sorted.room(0), 59);
}
