//! Words that are not a page: for any bytes, no operation panics or hangs.

use super::*;

/// Random words without a header, a valid header with the tag, or a page with a few damaged words.
fn garbage() -> impl Strategy<Value = Image> {
    let random = vec(any::<u64>(), PAYLOAD / 8).prop_map(|words| (words, 0usize));
    let tagged = vec(any::<u64>(), PAYLOAD / 8).prop_map(|words| (words, 1));
    let spoilt = (ops(), vec((0..PAYLOAD / 8, any::<u64>(), 0..64u32), 1..4));
    prop_oneof![
        random.prop_map(|(words, _)| image_of(&words)),
        (tagged, any::<[u8; 3]>(), 0..300u16, 0..300u16, 0..=480u16).prop_map(
            |((words, _), [level, shape, width], count, cap, heap)| {
                let image = image_of(&words);
                let (low, high) =
                    if shape & 1 == 0 { (vec![], vec![]) } else { (vec![7; 9], vec![7, 8]) };
                let valid = page(&low, &high);
                let mut header = Header::load(valid.words());
                // A mostly valid header over random heads and cells.
                header.level = level % 3;
                header.shape = Shape(shape / 16 % 12);
                header.width = if header.shape.is_slotted() { 8 } else { u16::from(width) % 40 };
                header.cap = (cap % 60).min(header.cap_max() as u16);
                header.count = count % (header.cap + 2);
                if header.shape.is_slotted() {
                    header.heap =
                        (heap & !7).max(header.cells_end() as u16).min(header.high.offset);
                    header.garbage = count % 64;
                }
                header.store(image.words());
                image
            }
        ),
        spoilt.prop_map(|(ops, spoilt)| {
            let image = filled(ops);
            for (at, word, bit) in spoilt {
                let old = image.words().word(at);
                let new = if bit < 32 { word } else { old ^ 1 << bit ^ 1 << (word % 64) };
                image.words().set_word(at, new);
            }
            image
        }),
    ]
}

fn image_of(words: &[u64]) -> Image {
    let image = Image::new(PAYLOAD);
    words.iter().enumerate().for_each(|(at, &word)| image.words().set_word(at, word));
    image
}

fn filled(ops: Vec<Op>) -> Image {
    let image = page(b"", b"");
    for op in ops {
        let page = open(&image);
        // An entry that does not fit is skipped.
        match op {
            Op::Put(key, value) => match page.search(&key) {
                Ok(slot) => drop(page.set_value(slot, &value)),
                Err(slot) => drop(page.insert(slot, &key, &value)),
            },
            Op::Remove(key) => {
                if let Ok(slot) = page.search(&key) {
                    page.remove(slot).expect("there");
                }
            }
        }
    }
    image
}

fn copy(image: &Image) -> Image {
    let copy = Image::new(PAYLOAD);
    copy.words().copy_from(image.words());
    copy
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn reading_it_neither_panics_nor_hangs(image in garbage(), key in suffix()) {
        // The page is opened without a check of the header, like a page that a writer changes just
        // after a reader has checked it.
        let page = Page { words: image.words(), header: Header::load(image.words()) };
        for seek in [Seek::At(&key), Seek::Below(&key), Seek::Last] {
            let _ = page.place(seek);
            let _ = page.child_for(seek);
        }
        for slot in 0..page.header.count().min(50) {
            let mut bytes = page.key(slot);
            page.value(slot).append_to(&mut bytes);
            let _ = page.value(slot).u64(8);
            let _ = page.child(slot);
        }
        for tag in [tag(), page.header.tag] {
            let Some(glance) = Glance::at(image.words(), tag) else { continue };
            let _ = (glance.level(), glance.is_below_high(&key, head_of(&key)));
            let _ = glance.child_for(&key);
            let (Ok(slot) | Err(slot)) = glance.search(&key);
            prop_assert!(slot <= PAYLOAD / 8);
            glance.value(slot).to_vec();
        }
    }

    #[test]
    fn what_passes_for_a_page_can_be_scanned_changed_split_and_checked(
        image in garbage(),
        key in suffix(),
        value in value(),
        first in 0..60usize,
        len in 0..60usize,
        down in any::<bool>(),
    ) {
        let Ok(page) = Page::open(image.words(), Header::load(image.words()).tag) else { return Ok(()) };
        let _ = check(&page);
        let mut snapshot = Snapshot::default();
        let count = page.header.count();
        let slots = first.min(count)..(first + len).min(count);
        if snapshot.take(&page, slots.clone()).is_ok() {
            let mut visit = |_: &[u8], _: &[u8]| std::ops::ControlFlow::Continue(());
            if let Ok((shown, _)) = snapshot.show(down, &mut visit) {
                prop_assert_eq!(shown, slots.len());
            }
        }
        if count >= 2 && let Ok(split) = plan_split(&page, &key, |_| true) {
            let (left, right) = (Image::new(PAYLOAD), Image::new(PAYLOAD));
            let _ = write_halves(&page, &split, addr(3), left.words(), right.words());
        }
        let on_a_copy = |change: &dyn Fn(&Page<'_>)| {
            let copy = copy(&image);
            change(&Page { words: copy.words(), header: page.header });
        };
        let (Ok(slot) | Err(slot)) = page.search(&key);
        // The key may be there, or belong to another page: then the edit damages the page.
        on_a_copy(&|page| drop(page.insert_here(slot, &key, &value)));
        on_a_copy(&|page| drop(page.remove(slot)));
        on_a_copy(&|page| drop(page.set_value(slot, &value)));
        on_a_copy(&|page| drop(page.set_value(0, &value)));
        // No entry is behind the last slot.
        on_a_copy(&|page| {
            let value = vec![0; page.header.width.into()];
            assert!(page.set_value(count, &value).is_err() && page.remove(count).is_err());
            assert!(page.value_range(count).is_err());
        });
    }
}
