//! Halves of pages, and inner pages.

use proptest::collection::{btree_map, btree_set};

use super::*;

/// Typical separators between numbers: short, and without a zero byte at the end.
fn separator() -> impl Strategy<Value = Vec<u8>> {
    (vec(0..3u8, 0..4), 1..=255u8).prop_map(|(start, end)| [start, vec![end]].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_full_page_of_any_shape_splits_into_two_that_hold_its_entries(
        entries in prop_oneof![
            btree_map(suffix(), value(), 2..40),
            entries_of_a_kind().prop_map(BTreeMap::from_iter),
        ],
        key in suffix(),
        last in any::<bool>(),
        is_next in any::<bool>(),
    ) {
        let high = if last { vec![] } else { vec![255; 20] };
        let image = page(b"", &high);
        for (key, value) in &entries {
            let page = open(&image);
            if let Err(slot) = page.search(key) && (last || *key < high) {
                // An entry that does not fit is skipped.
                let _ = page.insert(slot, key, value);
            }
        }
        let all = contents(&image);
        prop_assume!(all.len() >= 2);
        let (left, right) = (Image::new(PAYLOAD), Image::new(PAYLOAD));
        let is_next = is_next && (last || key < high);
        let split = plan_split(&open(&image), &key, |_| is_next).expect("two entries can be split");
        let done = write_halves(&open(&image), &split, addr(3), left.words(), right.words());
        prop_assert!(done.is_ok(), "{:?}", done);
        let (low_half, high_half) = (contents(&left), contents(&right));
        prop_assert!(!low_half.is_empty());
        prop_assert!(!high_half.is_empty() || is_next || last);
        prop_assert!(low_half.keys().all(|key| *key < split.separator));
        prop_assert!(high_half.keys().all(|key| *key >= split.separator));
        prop_assert_eq!(low_half.into_iter().chain(high_half).collect::<BTreeMap<_, _>>(), all);
        for half in [&left, &right] {
            let checked = check(&open(half));
            prop_assert!(checked.is_ok(), "{:?}", checked);
        }
        prop_assert_eq!(open(&left).header.right, addr(3));
        prop_assert_eq!(open(&left).high(), open(&right).low());

        // A second split gives the same words. The comparison of images relies on this.
        let (again, right_again) = (Image::new(PAYLOAD), Image::new(PAYLOAD));
        write_halves(&open(&image), &split, addr(3), again.words(), right_again.words()).expect("as before");
        prop_assert_eq!((again, right_again), (left, right));
    }

    #[test]
    fn inner_pages_route_every_key_to_its_child_before_and_after_a_split(
        separators in prop_oneof![btree_set(suffix(), 3..12), btree_set(separator(), 3..28)],
        probes in vec(suffix(), 1..30),
    ) {
        let image = Image::new(PAYLOAD);
        let mut builder = Builder::new(image.words(), tag(), 1, b"", b"").expect("no fences");
        let mut model = BTreeMap::new();
        for (k, key) in std::iter::once(vec![]).chain(separators).enumerate() {
            if builder.push_child(&key, addr(100 + k as u64)) {
                model.insert(key, addr(100 + k as u64));
            }
        }
        builder.finish(GlobalAddr::NULL);
        prop_assert!(check(&open(&image)).is_ok());
        let (left, right) = (Image::new(PAYLOAD), Image::new(PAYLOAD));
        let split = plan_split(&open(&image), b"k", |_| false).expect("three children");
        write_halves(&open(&image), &split, addr(3), left.words(), right.words()).expect("halves fit");
        for half in [&left, &right] {
            let checked = check(&open(half));
            prop_assert!(checked.is_ok(), "{:?}", checked);
        }
        let probes = probes.iter().chain(model.keys().filter(|key| !key.is_empty()));
        for key in probes {
            let child = model.range(..=key.clone()).next_back().map(|(_, child)| *child);
            let below = model.range(..key.clone()).next_back().map(|(_, child)| *child);
            let half = if *key < split.separator { &left } else { &right };
            let half_below = if *key <= split.separator { &left } else { &right };
            for (page, seek, wanted) in [
                (open(&image), Seek::At(key), child),
                (open(half), Seek::At(key), child),
                (open(&image), Seek::Below(key), below),
                (open(half_below), Seek::Below(key), below),
            ] {
                prop_assert_eq!(page.place(seek), Ok(Place::Here));
                prop_assert_eq!(page.child_for(seek).ok(), wanted);
            }
            for page in [&image, &left, &right].map(open) {
                let glance = Glance::at(page.words, tag()).expect("a page");
                let high = page.high();
                let is_below = high.is_empty() || *key < high;
                prop_assert_eq!(glance.is_below_high(key, head_of(key)), is_below);
                if is_below && *key >= page.low() {
                    let (slot, found) = glance.child_for(key).expect("a child");
                    prop_assert_eq!((Some(found), page.child(slot).ok()), (child, child));
                }
            }
        }
    }
}
