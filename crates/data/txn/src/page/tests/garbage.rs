//! Corrupt pages: no bytes make a read or a change panic or hang.

use super::*;

/// Random words; random words under a valid header; a page of rows with some bits inverted.
fn garbage() -> impl Strategy<Value = Image> {
    let words = || vec(any::<u64>(), PAYLOAD / 8);
    let small = vec(0..(PAYLOAD as u64 / 8), PAYLOAD / 8);
    prop_oneof![
        words().prop_map(|words| image_of(&words)),
        (prop_oneof![words(), small], 0..31u16, 0..60u16, any::<u16>(), any::<u16>()).prop_map(
            |(words, slots, heap, garbage, free)| {
                let image = image_of(&words);
                let heap = (heap * 8).max(16 + slots.next_multiple_of(2) * 4);
                let garbage = garbage % (PAYLOAD as u16 - heap + 1);
                let free_slots = free % (slots + 1);
                let (table, tombstones) = (TABLE, free_slots);
                let header = header::Header { slots, heap, garbage, table, free_slots, tombstones };
                header.store(image.words());
                image
            }
        ),
        (1..30u8, vec((0..PAYLOAD, 0..8u32), 1..6)).prop_map(|(rows, turned)| {
            let image = Image::page();
            for n in 0..rows {
                let row =
                    Row { state: State::Live, cts: 1, key: vec![n; 4], value: vec![n; n.into()] };
                if open(&image).insert(new(&row)).is_err() {
                    break;
                }
            }
            for (at, bit) in turned {
                image.words().set_u8(at, image.words().u8(at) ^ 1 << bit);
            }
            image
        }),
    ]
}

fn image_of(words: &[u64]) -> Image {
    let image = Image::new();
    words.iter().enumerate().for_each(|(at, &word)| image.words().set_word(at, word));
    image
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_bytes_can_be_read_checked_and_changed(
        image in garbage(),
        slot in 0..40usize,
        key in bytes(14),
        value in bytes(200),
    ) {
        let Ok(page) = Page::open(image.words(), TABLE) else { return Ok(()) };
        let _ = check(&page);
        for slot in 0..64 {
            if let Ok(Some(tuple)) = page.tuple(slot) {
                let mut bytes = Vec::new();
                tuple.append_key(&mut bytes);
                tuple.append_value(&mut bytes);
                prop_assert!(bytes.len() <= PAYLOAD);
                let _ = (tuple.key_is(&key), tuple.target());
            }
        }
        let before = image.bytes();
        let on_a_copy = |change: &dyn Fn(Page<'_>)| {
            let copy = Image::new();
            copy.words().write_bytes(0, &before);
            change(Page { words: copy.words(), header: page.header });
        };
        for state in [State::Live, State::Tombstone, State::Pending] {
            // No caller gives a tombstone a value.
            let value = if state == State::Tombstone { &[] } else { &value[..] };
            let new = New { state, cts: Timestamp(1), key: &key, value };
            on_a_copy(&|mut page| drop(page.insert(new)));
            on_a_copy(&|mut page| {
                page.append([new; 3].into_iter(), 40);
            });
            on_a_copy(&|page| drop(page.set(slot, new)));
        }
        on_a_copy(&|page| drop(page.set_part(slot, Timestamp(1), 3, &key)));
        on_a_copy(&|page| drop(page.erase(slot)));
        on_a_copy(&|page| drop(page.widen(slot, value.len())));
        on_a_copy(&|page| drop(page.publish(std::iter::once(slot), Timestamp(1))));
        on_a_copy(&|page| {
            page.raise_read_timestamp(Timestamp(1));
        });
    }
}
