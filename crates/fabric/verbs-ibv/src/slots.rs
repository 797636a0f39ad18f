//! [`Slots`]: registered memory of an endpoint for the old values of atomics and for small
//! payloads.

use std::sync::Arc;

use latchwork_strict::strict_assert;
use latchwork_verbs::{AtomicOutcome, BATCH_ATOMICS_MAX, BATCH_MAX, Message, Region, SetupError};

use crate::sys::ffi::Sge;
use crate::sys::{Device, Registered};

/// The number of words of one request's payload: a message and its sender.
const PAYLOAD_WORDS: usize = 1 + Message::WORDS;

/// The number of words of a slot: the old values of the atomics, the payloads of the requests, and
/// padding to whole CPU cache lines.
const SLOT_WORDS: usize = 64;

const _: () = assert!(BATCH_ATOMICS_MAX + BATCH_MAX * PAYLOAD_WORDS <= SLOT_WORDS);
const _: () = assert!((SLOT_WORDS * 8).is_multiple_of(64), "slots share no CPU cache line");

/// The slots of an endpoint: one for each batch that its connections can have in flight.
pub(crate) struct Slots {
    memory: Registered,
    free: Vec<u32>,
}

impl Slots {
    pub(crate) fn new(device: &Arc<Device>, count: u32) -> Result<Slots, SetupError> {
        let count = count.clamp(1, 1 << 16);
        let region = Region::zeroed(count as usize * SLOT_WORDS * 8)?;
        Ok(Slots { memory: Registered::new(device, region)?, free: (0..count).rev().collect() })
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        let slot = self.free.pop();
        strict_assert!(slot.is_none_or(|slot| slot < self.count()), "{slot:?} has no memory");
        slot
    }

    pub(crate) fn any_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        strict_assert!(slot < self.count(), "slot {slot} of {}", self.count());
        self.free.push(slot);
        strict_assert!(self.free.len() <= self.count() as usize, "a slot is given back twice");
    }

    fn count(&self) -> u32 {
        (self.memory.len / (8 * SLOT_WORDS as u64)) as u32
    }

    fn sge(&self, slot: u32, word: usize, words: usize) -> Sge {
        strict_assert!(word + words <= SLOT_WORDS, "{words} words at {word} reach the next slot");
        let first = slot as usize * SLOT_WORDS + word;
        Sge {
            addr: self.memory.address + 8 * first as u64,
            length: 8 * words as u32,
            lkey: self.memory.lkey,
        }
    }

    /// The memory for the old value of the batch's atomic number `atomic`.
    pub(crate) fn old(&self, slot: u32, atomic: usize) -> Sge {
        self.sge(slot, atomic, 1)
    }

    /// The old values of the batch's first `atomics` atomics.
    pub(crate) fn outcome(&self, slot: u32, atomics: usize) -> AtomicOutcome {
        strict_assert!(atomics <= BATCH_ATOMICS_MAX, "{atomics} old values of one batch");
        let words = self.memory.region.words().skip(slot as usize * SLOT_WORDS);
        let old = std::array::from_fn(|i| if i < atomics { words.word(i) } else { 0 });
        AtomicOutcome { old }
    }

    /// Stores the payload of the batch's request number `request`. Returns the memory of the
    /// payload.
    pub(crate) fn payload(&self, slot: u32, request: usize, payload: &[u64]) -> Sge {
        strict_assert!(request < BATCH_MAX, "request {request} of a batch has no place");
        strict_assert!(payload.len() <= PAYLOAD_WORDS, "a payload reaches the next one");
        let word = BATCH_ATOMICS_MAX + request * PAYLOAD_WORDS;
        let words = self.memory.region.words();
        for (i, &value) in payload.iter().enumerate() {
            words.set_word(slot as usize * SLOT_WORDS + word + i, value);
        }
        self.sge(slot, word, payload.len())
    }
}
