//! The shape that a page takes, the changes of that shape, and the detection of damage by `check`.

use std::ops::{ControlFlow, Range};

use super::*;
use crate::page::split::Split;

fn with(entries: &[(&[u8], &[u8])]) -> Image {
    let image = page(b"", b"");
    for (key, value) in entries {
        let page = open(&image);
        let slot = page.search(key).expect_err("new");
        page.insert(slot, key, value).expect("room");
    }
    image
}

fn shape(image: &Image) -> Shape {
    assert_eq!(check(&open(image)).map(|_| ()), Ok(()));
    open(image).header.shape
}

fn numbers(count: u64) -> Image {
    let image = page(b"", b"");
    for k in 0..count {
        // Keys in mixed order.
        let key = (k * 7 % count).to_be_bytes();
        let page = open(&image);
        let slot = page.search(&key).expect_err("new");
        page.insert(slot, &key, &(k * 3).to_le_bytes()).expect("room");
    }
    image
}

#[test]
fn numbers_take_sixteen_bytes_each() {
    let room = ((PAYLOAD - HEADER) / 16) as u64;
    let image = numbers(room);
    assert_eq!(shape(&image), Shape::constant(8));
    let page = open(&image);
    assert_eq!(page.header.free(), PAYLOAD - HEADER - 16 * room as usize);
    let key = u64::MAX.to_be_bytes();
    assert_eq!(page.insert(room as usize, &key, &[0; 8]), Err(Edit::Full));
}

#[test]
fn keys_of_other_lengths_are_derived_unless_one_ends_in_zero() {
    let image = with(&[(b"abc", b"1"), (b"abd", b"2")]);
    assert_eq!(shape(&image), Shape::constant(3));
    let dirty = open(&image).insert(1, b"abcd", b"3").expect("room");
    assert_eq!(shape(&image), Shape::DERIVED);
    // The page was not rebuilt for that.
    assert!(dirty.ranges().all(|range| range.end < PAYLOAD));
    open(&image).insert(3, b"b\0", b"4").expect("room");
    assert_eq!(shape(&image), Shape::SLOTTED);
    let wanted: [(&[u8], &[u8]); 4] =
        [(b"abc", b"1"), (b"abcd", b"3"), (b"abd", b"2"), (b"b\0", b"4")];
    let wanted = wanted.map(|(key, value)| (key.to_vec(), value.to_vec()));
    assert_eq!(contents(&image), BTreeMap::from(wanted));
    assert_eq!(shape(&with(&[(b"a\0", b""), (b"b", b"")])), Shape::SLOTTED);
    assert_eq!(shape(&with(&[(b"a\0", b""), (b"b\0", b"")])), Shape::constant(2));
}

#[test]
fn long_keys_long_values_and_values_of_two_lengths_are_slotted() {
    let long = [1; FIXED_VALUE_MAX + 1];
    for entries in [
        [(&b"a"[..], &b"1"[..]), (b"b", b"12")],
        [(b"a", b"1"), (b"123456789", b"1")],
        [(b"a", &long[..5]), (b"b", &long)],
    ] {
        assert_eq!(shape(&with(&entries)), Shape::SLOTTED);
    }
    let image = Image::new(2016);
    let mut to = Builder::new(image.words(), tag(), 0, b"", b"").expect("no fences");
    assert!(to.push(b"a", &long) && to.push(b"b", &long));
    to.finish(GlobalAddr::NULL);
    assert_eq!(shape(&image), Shape::SLOTTED);
    assert_eq!(shape(&with(&[(b"a", &long[1..]), (b"b", &long[1..])])), Shape::constant(1));
}

#[test]
fn a_value_of_another_length_makes_a_page_slotted_and_the_last_such_one_fixed_again() {
    let image = numbers(4);
    open(&image).set_value(2, b"longer than it was").expect("room");
    assert_eq!(shape(&image), Shape::SLOTTED);
    for slot in [0, 1, 3] {
        open(&image).set_value(slot, b"longer than it was").expect("room");
    }
    assert_eq!(shape(&image), Shape::SLOTTED);
    // Insert until the slotted page has no room. The page then becomes fixed, because a fixed page
    // has room.
    for k in 4..u64::MAX {
        let page = open(&image);
        page.insert(k as usize, &k.to_be_bytes(), b"longer than it was").expect("room");
        if !page.header.shape.is_slotted() || !shape(&image).is_slotted() {
            break;
        }
    }
    assert_eq!(shape(&image), Shape::constant(8));
    assert_eq!(contents(&image).len(), open(&image).header.count());
}

#[test]
fn a_slotted_page_is_full_of_arrays_and_heap_at_once() {
    let image = page(b"", b"");
    let mut rebuilt = 0;
    for k in 0.. {
        let key = format!("{k:014}").into_bytes();
        let cap = open(&image).header.cap;
        match open(&image).insert(k, &key, b"0123") {
            Ok(_) => rebuilt += usize::from(open(&image).header.cap != cap),
            Err(edit) => {
                assert_eq!(edit, Edit::Full);
                break;
            }
        }
    }
    let header = open(&image).header;
    assert!(shape(&image).is_slotted());
    assert_eq!(rebuilt, 1, "room for equal entries is foreseen by the first");
    assert!(header.free() < SLOT + 16 && header.count == header.cap, "{header:?}");
}

#[test]
fn prefixes_that_grow_cut_the_heads_of_both_shapes() {
    for tail in [&b""[..], b"-and-a-tail"] {
        let image = page(b"", b"");
        for k in 0..8u8 {
            let key = [&[b'k', b'e', b'y', k / 4, k][..], tail].concat();
            open(&image).insert(k.into(), &key, &[k; 8]).expect("room");
        }
        let is_slotted = !tail.is_empty();
        assert_eq!(shape(&image).is_slotted(), is_slotted);
        let all = contents(&image);
        let (left, right) = (Image::new(PAYLOAD), Image::new(PAYLOAD));
        let low = page(b"key\0", b"key\x02");
        let mut to = Builder::new(low.words(), tag(), 0, b"key\0", b"key\x02").expect("fits");
        assert_eq!(to.take(&open(&image), 0..8), Ok(true));
        to.finish(addr(2));
        assert_eq!(shape(&low).is_slotted(), is_slotted);
        assert_eq!(contents(&low), all);
        let split = Split { at: 4, separator: b"key\x01".to_vec() };
        write_halves(&open(&low), &split, addr(3), left.words(), right.words())
            .expect("halves fit");
        assert_eq!((open(&left).header.prefix, open(&right).header.prefix), (3, 3));
        let both = [contents(&left), contents(&right)];
        assert_eq!(both.into_iter().flatten().collect::<BTreeMap<_, _>>(), all);
        if !is_slotted {
            assert_eq!(shape(&low), Shape::constant(2));
        }
    }
}

fn shown(snapshot: &mut Snapshot, down: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut shown = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        shown.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    let (count, flow) = snapshot.show(down, &mut visit).expect("in order");
    assert!(flow.is_continue() && count == shown.len());
    shown
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn snapshots_show_what_they_took_in_both_directions(
        entries in entries_of_a_kind(),
        range in any::<(prop::sample::Index, prop::sample::Index)>(),
        prefix in 0..18usize,
    ) {
        let low: Vec<u8> = (1..=prefix as u8).collect();
        let high = if low.is_empty() { vec![] } else { [&low[..prefix - 1], &[prefix as u8 + 1]].concat() };
        let image = page(&low, &high);
        for (suffix, value) in entries {
            let key = key_between(&low, &suffix);
            if let Err(slot) = open(&image).search(&key) {
                // An entry that does not fit is skipped.
                let _ = open(&image).insert(slot, &key, &value);
            }
        }
        let all: Vec<_> = contents(&image).into_iter().collect();
        let (a, b) = (range.0.index(all.len() + 1), range.1.index(all.len() + 1));
        let slots: Range<usize> = a.min(b)..a.max(b);
        let mut snapshot = Snapshot::default();
        for slots in [0..all.len(), slots.clone(), slots.start..(slots.start + 2).min(slots.end)] {
            snapshot.take(&open(&image), slots.clone()).expect("in order");
            prop_assert_eq!(&shown(&mut snapshot, false), &all[slots.clone()]);
            let mut down = shown(&mut snapshot, true);
            down.reverse();
            prop_assert_eq!(&down, &all[slots]);
        }
    }

    #[test]
    fn a_tally_is_what_the_page_takes_or_more(entries in entries_of_a_kind()) {
        let entries: BTreeMap<_, _> = entries.into_iter().collect();
        let image = Image::new(32768);
        let mut to = Builder::new(image.words(), tag(), 0, b"", b"").expect("no fences");
        let mut tally = Tally::new(0);
        let mut size = HEADER;
        for (key, value) in &entries {
            size = tally.size_with(key, value.len());
            tally.push(key, value.len());
            prop_assert!(to.push(key, value));
        }
        to.finish(GlobalAddr::NULL);
        let used = check(&open(&image)).expect("in order").used;
        prop_assert_eq!(size, used);
    }
}

/// Damages a page in one way that `check` must detect.
type Spoil = fn(&Page<'_>);

#[test]
fn a_check_notices_what_is_not_in_order() {
    let fixed = numbers(9);
    let slotted = with(&[(b"a", b"12345678"), (b"long enough", b"2"), (b"z\0", b"")]);
    let fenced = page(b"key a", b"key b");
    open(&fenced).insert(0, b"key abc", b"1").expect("room");
    let spoils: [(&Image, Spoil, &str); 12] = [
        (&fixed, |page| page.words.set_u64(Header::head_at(2), page.head(1)), "is not above"),
        (
            &fixed,
            |page| change(page, |header| header.shape = Shape::constant(7)),
            "of a suffix of 7",
        ),
        (&fixed, |page| change(page, |header| header.cap -= 1), "slots where"),
        (&fixed, |page| change(page, |header| header.high_head = 1), "high fence"),
        (&fixed, |page| change(page, |header| header.shape = Shape::DERIVED), "empty key"),
        (&fixed, |page| exchange(page, Header::head_at(1), Header::head_at(2)), "is not found"),
        (&fixed, |page| exchange(page, 32, Header::head_at(2)), "contradicts itself"),
        (&slotted, |page| change(page, |header| header.garbage += 8), "counted as garbage"),
        (&slotted, |page| change(page, |header| header.heap -= 8), "counted as garbage"),
        (&slotted, |page| overlap(page, 0, 1), "used twice"),
        (
            &slotted,
            |page| page.words.set_u64(Header::head_at(2), head_of(b"z\0a")),
            "of a suffix of 2",
        ),
        (&fenced, |page| page.words.set_u8(page.words.len() - 1, 1), "padded"),
    ];
    for (image, spoil, what) in spoils {
        let spoilt = Image::new(PAYLOAD);
        spoilt.words().copy_from(image.words());
        assert_eq!(check(&open(&spoilt)).map(|_| ()), Ok(()));
        spoil(&open(&spoilt));
        let found = Page::open(spoilt.words(), tag())
            .map_err(|broken| broken.0.to_owned())
            .and_then(|page| check(&page));
        assert!(found.as_ref().is_err_and(|found| found.contains(what)), "{found:?}, not {what}");
    }
}

fn change(page: &Page<'_>, change: fn(&mut Header)) {
    let mut header = page.header;
    change(&mut header);
    header.store(page.words);
}

fn exchange(page: &Page<'_>, a: usize, b: usize) {
    let (old_a, old_b) = (page.words.u64(a), page.words.u64(b));
    page.words.set_u64(a, old_b);
    page.words.set_u64(b, old_a);
}

/// Makes the entry of slot `to` start where the entry of slot `from` starts.
fn overlap(page: &Page<'_>, from: usize, to: usize) {
    let cell = |slot| page.words.u64(page.header.cell_at(slot));
    page.words.set_u64(page.header.cell_at(to), cell(to) & !0xffff | cell(from) & 0xffff);
}
