//! Word operations for the control plane: the pool's superblock, catalogues, epochs.

use latchwork_verbs::{GlobalAddr, Outcome, Request, Target, VerbError, WORD};

use crate::port::Port;
use crate::scratch::SLOT_BYTES;

/// How often an operation is done again whose end was ambiguous. Then the connection counts as
/// gone.
const AGAIN_MAX: u32 = 16;

fn memory(addr: GlobalAddr) -> Target {
    Target::Memory(addr.node())
}

/// Word operations on memory nodes, each a round trip. Addresses are multiples of 8.
///
/// All fail with what [`Endpoint::post`](latchwork_verbs::Endpoint::post) finds wrong. A future
/// that is dropped before its end leaves the operation to take effect or not; its buffer is safe
/// either way.
///
/// When the connection fails under a READ or a WRITE, that is done again; so are words written only
/// by those whose alone they are. Whether to do an atomic again, its caller must know:
/// [`VerbError::Ambiguous`].
impl Port {
    /// Adds to a counter of which nobody minds if it skips numbers: as
    /// [`fetch_add`](Port::fetch_add), and done again when the end is ambiguous.
    ///
    /// # Errors
    /// See above.
    pub async fn advance(&self, counter: GlobalAddr, add: u64) -> Result<u64, VerbError> {
        let request = Request::FetchAdd { remote: counter.offset(), add };
        Ok(self.execute_repeatedly(memory(counter), request).await?.old[0])
    }

    async fn execute_repeatedly(
        &self,
        target: Target,
        request: Request,
    ) -> Result<Outcome, VerbError> {
        let mut again = 0;
        loop {
            match self.execute(target, &[request]).await {
                Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
                end => return end,
            }
        }
    }

    /// Adds to a word, wrapping; what it was before.
    ///
    /// # Errors
    /// See above.
    pub async fn fetch_add(&self, addr: GlobalAddr, add: u64) -> Result<u64, VerbError> {
        let request = Request::FetchAdd { remote: addr.offset(), add };
        Ok(self.execute(memory(addr), &[request]).await?.old[0])
    }

    /// Sets a word to `desired` if it is `expected`; what it was before.
    ///
    /// # Errors
    /// See above.
    pub async fn compare_swap(
        &self,
        addr: GlobalAddr,
        expected: u64,
        desired: u64,
    ) -> Result<u64, VerbError> {
        let request = Request::CompareSwap { remote: addr.offset(), expected, desired };
        Ok(self.execute(memory(addr), &[request]).await?.old[0])
    }

    /// Reads a word.
    ///
    /// # Errors
    /// See above.
    pub async fn read_word(&self, addr: GlobalAddr) -> Result<u64, VerbError> {
        let mut word = [0];
        self.read_into(addr, &mut word).await?;
        Ok(word[0])
    }

    /// Writes a word.
    ///
    /// # Errors
    /// See above.
    pub async fn write_word(&self, addr: GlobalAddr, value: u64) -> Result<(), VerbError> {
        let request = Request::WriteWord { remote: addr.offset(), value };
        self.execute_repeatedly(memory(addr), request).await.map(drop)
    }

    /// Reads `count` words, torn between any two of them when others write.
    ///
    /// # Errors
    /// See above; found before anything is allocated for an impossible `count`.
    pub async fn read_words(&self, addr: GlobalAddr, count: usize) -> Result<Vec<u64>, VerbError> {
        let mut words = Vec::new();
        while words.len() < count {
            let start = words.len();
            let piece = (count - start).min(SLOT_BYTES / WORD);
            words.resize(start + piece, 0);
            self.read_into(ahead(addr, start)?, &mut words[start..]).await?;
        }
        Ok(words)
    }

    /// Writes words, in pieces of 4 KiB from front to back: the next piece starts when the last has
    /// completed.
    ///
    /// # Errors
    /// See above; pieces before the one that failed have been written.
    pub async fn write_words(&self, addr: GlobalAddr, words: &[u64]) -> Result<(), VerbError> {
        for (i, piece) in words.chunks(SLOT_BYTES / WORD).enumerate() {
            let to = ahead(addr, i * SLOT_BYTES / WORD)?;
            let len = piece.len() * WORD;
            let mut again = 0;
            loop {
                let slot = self.scratch.slot().await;
                for (word, value) in slot.words(len).as_atomics().iter().zip(piece) {
                    word.store(*value, std::sync::atomic::Ordering::Relaxed);
                }
                let request = Request::Write { remote: to.offset(), local: slot.buffer(len) };
                match self.execute_in(memory(to), &[request], Some(slot)).await {
                    Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
                    end => break end.map(drop)?,
                }
            }
        }
        Ok(())
    }

    /// Reads at most a slot's words.
    async fn read_into(&self, addr: GlobalAddr, words: &mut [u64]) -> Result<(), VerbError> {
        let len = words.len() * WORD;
        let mut again = 0;
        let slot = loop {
            let slot = self.scratch.slot().await;
            let request = Request::Read { remote: addr.offset(), local: slot.buffer(len) };
            match self.execute_in(memory(addr), &[request], Some(slot)).await {
                Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
                end => break end?.1,
            }
        };
        let slot = slot.expect("a batch gives back the slot that it was given");
        for (i, word) in words.iter_mut().enumerate() {
            *word = slot.words(len).word(i);
        }
        Ok(())
    }
}

/// The address `words` words behind `addr`.
fn ahead(addr: GlobalAddr, words: usize) -> Result<GlobalAddr, VerbError> {
    let offset = addr.offset() + (words * WORD) as u64;
    if offset >> 48 != 0 {
        let len = WORD as u64;
        return Err(VerbError::OutOfBounds { target: memory(addr), offset, len, size: 1 << 48 });
    }
    Ok(GlobalAddr::new(addr.node(), offset))
}
