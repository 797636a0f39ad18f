//! Pages against a model, and corrupt pages.

mod garbage;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use latchwork_verbs::Words;
use latchwork_wal::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const PAYLOAD: usize = 480;
const TABLE: u32 = 7;

#[derive(Debug)]
struct Image(Vec<AtomicU64>);

impl Image {
    fn new() -> Image {
        // The content of a line before it is formatted is unspecified.
        Image((0..PAYLOAD / 8).map(|_| AtomicU64::new(0xdead_beef_dead_beef)).collect())
    }

    fn page() -> Image {
        let image = Image::new();
        format(image.words(), TABLE);
        image
    }

    fn words(&self) -> Words<'_> {
        Words::new(&self.0)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.words().append_to(0, PAYLOAD, &mut bytes);
        bytes
    }
}

fn open(image: &Image) -> Page<'_> {
    Page::open(image.words(), TABLE).expect("a page")
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Vec<u8>, Vec<u8>),
    Update(usize, Vec<u8>),
    Part(usize, usize, Vec<u8>),
    Bury(usize),
    Forward(usize, u64),
    Erase(usize),
    Widen(usize, usize),
    Announce(Vec<u8>, Vec<u8>),
    Append(Vec<(Vec<u8>, Vec<u8>)>, usize),
    Publish(usize),
    ReadStamp(u64),
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..most)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (bytes(14), bytes(90)).prop_map(|(key, value)| Op::Insert(key, value)),
        4 => (0..30usize, bytes(120)).prop_map(|(slot, value)| Op::Update(slot, value)),
        2 => (0..30usize, 0..20usize, bytes(20)).prop_map(|(slot, at, to)| Op::Part(slot, at, to)),
        1 => (0..30usize).prop_map(Op::Bury),
        1 => (0..30usize, any::<u64>()).prop_map(|(slot, to)| Op::Forward(slot, to)),
        2 => (0..30usize).prop_map(Op::Erase),
        1 => (0..30usize, 0..200usize).prop_map(|(slot, value)| Op::Widen(slot, value)),
        1 => (bytes(14), bytes(90)).prop_map(|(key, value)| Op::Announce(key, value)),
        2 => (vec((bytes(14), bytes(60)), 0..6), 0..30usize).prop_map(|(run, most)| Op::Append(run, most)),
        1 => (0..30usize).prop_map(Op::Publish),
        1 => (0..9u64).prop_map(Op::ReadStamp),
    ]
}

/// The expected tuple of a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    state: State,
    cts: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

fn rows(page: &Page<'_>) -> BTreeMap<usize, Row> {
    let mut rows = BTreeMap::new();
    for slot in 0..page.header.slots.into() {
        if let Some(tuple) = page.tuple(slot).expect("in order") {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            tuple.append_key(&mut key);
            tuple.append_value(&mut value);
            assert!(tuple.key_is(&key) && tuple.value_len() == value.len());
            rows.insert(slot, Row { state: tuple.state, cts: tuple.cts.0, key, value });
        }
    }
    rows
}

fn new(row: &Row) -> New<'_> {
    New { state: row.state, cts: Timestamp(row.cts), key: &row.key, value: &row.value }
}

/// The minimum number of bytes of a page with exactly these `rows`.
fn least(rows: &BTreeMap<usize, Row>, slots: usize) -> usize {
    let sizes = rows.values().map(|row| tuple_size(row.key.len(), row.value.len()));
    HEADER + SLOT * slots + sizes.sum::<usize>()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_page_is_a_map_from_slots_and_says_what_it_wrote(ops in vec(op(), 1..60)) {
        let image = Image::page();
        // The shadow page gets only the bytes that each change reports, as other nodes do.
        let shadow = Image::new();
        let copy = |range: std::ops::Range<usize>| {
            shadow.words().write_bytes(range.start, &image.bytes()[range]);
        };
        copy(0..PAYLOAD);
        let mut model = BTreeMap::new();
        for (turn, op) in ops.into_iter().enumerate() {
            let (mut page, before, cts) = (open(&image), image.bytes(), turn as u64 + 1);
            let slots = usize::from(page.header.slots);
            let changed = match op {
                Op::Insert(key, value) => {
                    let row = Row { state: State::Live, cts, key, value };
                    let room = page.header.room(PAYLOAD);
                    let size = tuple_size(row.key.len(), row.value.len());
                    let done = page.insert(new(&row));
                    prop_assert_eq!(done.is_ok(), size <= room);
                    done.map(|(slot, dirty)| {
                        assert_eq!(model.insert(slot, row), None);
                        dirty
                    })
                }
                Op::Update(slot, value) => {
                    let Some(row) = model.get_mut(&slot) else { continue };
                    let next = Row { state: State::Live, cts, value, ..row.clone() };
                    page.set(slot, new(&next)).inspect(|_| *row = next)
                }
                Op::Bury(slot) => {
                    let Some(row) = model.get_mut(&slot) else { continue };
                    *row = Row { state: State::Tombstone, cts, key: row.key.clone(), value: vec![] };
                    let done = page.set(slot, new(row));
                    prop_assert!(done.is_ok());
                    done
                }
                Op::Forward(slot, to) => {
                    let Some(row) = model.get_mut(&slot) else { continue };
                    let value = to.to_le_bytes().to_vec();
                    *row = Row { state: State::Stub, cts, key: row.key.clone(), value };
                    let done = page.set(slot, new(row));
                    prop_assert!(done.is_ok(), "a stub always fits");
                    done
                }
                Op::Part(slot, at, bytes) => {
                    let Some(row) = model.get_mut(&slot) else { continue };
                    let done = page.set_part(slot, Timestamp(cts), at, &bytes);
                    prop_assert_eq!(done.is_ok(), at + bytes.len() <= row.value.len());
                    done.inspect(|_| {
                        row.cts = cts;
                        row.value[at..at + bytes.len()].copy_from_slice(&bytes);
                    })
                }
                Op::Erase(slot) => {
                    let done = page.erase(slot);
                    prop_assert_eq!(done.is_ok(), model.remove(&slot).is_some());
                    done
                }
                Op::Widen(slot, value) => {
                    let done = page.widen(slot, value);
                    if let (Ok(_), Some(row)) = (&done, model.get(&slot)) {
                        let widened = open(&image).tuple(slot).expect("in order").expect("there");
                        prop_assert!(widened.allotted() >= tuple_size(row.key.len(), value));
                    }
                    done
                }
                Op::Announce(key, value) => {
                    let row = Row { state: State::Pending, cts: 0, key, value };
                    page.insert(new(&row)).map(|(slot, dirty)| {
                        assert_eq!(model.insert(slot, row), None);
                        dirty
                    })
                }
                Op::Append(run, most) => {
                    let rows = run.into_iter().enumerate().map(|(at, (key, value))| match at {
                        2 => Row { state: State::Tombstone, cts, key, value: vec![] },
                        _ => Row { state: State::Pending, cts: 0, key, value },
                    });
                    let (rows, header) = (rows.collect::<Vec<_>>(), page.header);
                    let (new, dirty) = page.append(rows.iter().map(new), most);
                    prop_assert!(new.len() <= rows.len());
                    // The next row is one too many, or needs free slots or a compaction.
                    if let Some(row) = rows.get(new.len()) {
                        let size = tuple_size(row.key.len(), row.value.len()) + SLOT;
                        let full = new.end >= most || page.header.gap() < size;
                        prop_assert!(header.free_slots > 0 || full);
                    }
                    prop_assert!(new.is_empty() || new.end <= most && header.free_slots == 0);
                    prop_assert!(new.is_empty() || new.start == slots);
                    for (slot, row) in new.zip(rows) {
                        assert_eq!(model.insert(slot, row), None);
                    }
                    Ok(dirty)
                }
                Op::Publish(slot) => {
                    let pending = model.get_mut(&slot).filter(|row| row.state == State::Pending);
                    let done = page.publish(std::iter::once(slot), Timestamp(cts));
                    prop_assert_eq!(done.is_ok(), pending.is_some());
                    pending.into_iter().for_each(|row| {
                        row.state = State::Live;
                        row.cts = cts;
                    });
                    done
                }
                Op::ReadStamp(to) => {
                    let was = page.read_stamp();
                    let dirty = page.raise_read_timestamp(Timestamp(to));
                    prop_assert_eq!(open(&image).read_stamp(), was.max(Timestamp(to)));
                    Ok(dirty)
                }
            };
            match changed {
                Ok(dirty) => copy(dirty.range()),
                Err(_) => prop_assert_eq!(&before, &image.bytes(), "a failed change changed bytes"),
            }
            prop_assert_eq!(image.bytes(), shadow.bytes(), "a change wrote more than it says");
            let page = open(&image);
            prop_assert_eq!(&rows(&page), &model);
            let found = check(&page).map_err(TestCaseError::fail)?;
            let pending = model.values().filter(|row| row.state == State::Pending).count();
            prop_assert_eq!(found.pending, pending);
            prop_assert!(least(&model, slots.max(page.header.slots.into())) <= PAYLOAD);
        }
    }
}

#[test]
fn the_longest_row_fits_an_empty_page_and_one_byte_more_does_not() {
    let fits = |len: usize| {
        let (image, value) = (Image::page(), vec![1; len - 1]);
        let row = Row { state: State::Live, cts: 1, key: vec![9], value };
        open(&image).insert(new(&row)).map(drop)
    };
    assert_eq!(fits(row_max(PAYLOAD)), Ok(()));
    assert_eq!(fits(row_max(PAYLOAD) + 1), Err(Edit::Full));
}

#[test]
fn an_update_in_place_writes_the_tuple_alone_and_one_of_a_part_less() {
    let image = Image::page();
    let row = Row { state: State::Live, cts: 1, key: vec![1; 4], value: vec![2; 100] };
    let (slot, _) = open(&image).insert(new(&row)).expect("room");
    let at = usize::from(open(&image).header.heap);
    let next = Row { value: vec![3; 100], ..row };
    let all = open(&image).set(slot, new(&next)).expect("in place");
    // The change covers the tuple up to the end of its last word.
    assert_eq!(all.range(), at..at + (TUPLE + 104).next_multiple_of(8));
    let part = open(&image).set_part(slot, Timestamp(2), 3, &[5; 8]).expect("inside");
    assert_eq!(part.range(), at..at + TUPLE + 4 + 3 + 8);
}

#[test]
fn space_of_rows_that_are_gone_is_used_again() {
    let image = Image::page();
    let row = Row { state: State::Live, cts: 1, key: vec![1; 4], value: vec![2; 60] };
    let mut slots = Vec::new();
    while let Ok((slot, _)) = open(&image).insert(new(&row)) {
        slots.push(slot);
    }
    assert_eq!(slots.len(), (PAYLOAD - HEADER) / (tuple_size(4, 60) + SLOT));
    // Every other row is removed. The longest hole is one row long, and two rows together need
    // compaction.
    for &slot in slots.iter().step_by(2) {
        open(&image).erase(slot).expect("there");
    }
    let long = Row { value: vec![3; 130], ..row };
    let (slot, dirty) = open(&image).insert(new(&long)).expect("room after compaction");
    assert_eq!((slot, dirty.range()), (0, 0..PAYLOAD));
    check(&open(&image)).expect("in order");
}

#[test]
fn the_check_finds_each_kind_of_damage() {
    let image = Image::page();
    let row = Row { state: State::Live, cts: 1, key: vec![1; 4], value: vec![2; 30] };
    for _ in 0..3 {
        open(&image).insert(new(&row)).expect("room");
    }
    check(&open(&image)).expect("in order");
    let sound = image.bytes();
    let damaged = |at: usize, bit: u8| {
        image.words().write_bytes(0, &sound);
        image.words().set_u8(at, image.words().u8(at) ^ bit);
        Page::open(image.words(), TABLE)
            .map_err(|broken| broken.0.into())
            .and_then(|page| check(&page))
    };
    // Magic, heap, garbage, table, free slots, tombstones, offset and length of a slot, state of a
    // tuple.
    let state = usize::from(open(&image).header.heap) + 12;
    for at in [0, 4, 6, 8, 12, 14, HEADER, HEADER + 2, state] {
        assert!(damaged(at, 8).is_err(), "byte {at}");
    }
    image.words().write_bytes(0, &sound);
    check(&open(&image)).expect("in order again");
}

/// Mean lengths of keys and values of the nine tables of TPC-C, as in the book's chapter on TPC-C.
const TPCC: [(&str, usize, usize); 9] = [
    ("WAREHOUSE", 4, 70),
    ("DISTRICT", 5, 80),
    ("CUSTOMER", 9, 546),
    ("HISTORY", 13, 39),
    ("NEW-ORDER", 9, 0),
    ("ORDER", 9, 15),
    ("ORDER-LINE", 10, 45),
    ("ITEM", 4, 66),
    ("STOCK", 8, 292),
];

/// The figures of the book, measured on pages: tuples of the mean length in a line of 2 KiB and of
/// 8 KiB.
#[test]
fn rows_of_tpcc_in_a_line() {
    let in_a_line = |payload: usize, key: usize, value: usize| {
        let words: Vec<_> = (0..payload / 8).map(|_| AtomicU64::new(0)).collect();
        let words = Words::new(&words);
        format(words, TABLE);
        let row = Row { state: State::Live, cts: 1, key: vec![1; key], value: vec![2; value] };
        let insert = || Page::open(words, TABLE).expect("a page").insert(new(&row));
        std::iter::repeat_with(insert).take_while(Result::is_ok).count()
    };
    let found = TPCC.map(|(table, key, value)| {
        let [small, large] = [2048, 8192].map(|line| in_a_line(line - 32, key, value));
        let bytes = tuple_size(key, value) + SLOT;
        println!("| {table} | {} | {bytes} | {small} | {large} |", key + value);
        (bytes, small, large)
    });
    let expected = [
        (92, 21, 88),
        (108, 18, 75),
        (572, 3, 14),
        (76, 26, 107),
        (36, 55, 226),
        (44, 45, 184),
        (76, 26, 107),
        (92, 21, 88),
        (324, 6, 25),
    ];
    assert_eq!(found, expected);
}
