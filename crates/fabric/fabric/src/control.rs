//! Word operations for the control plane: superblock of the pool, catalogues, epochs.

use latchwork_verbs::{AtomicOutcome, GlobalAddr, Target, VerbError, WORD, WorkRequest};

use crate::port::{Port, SLOT_BYTES};

/// The number of times that an operation is repeated when it ends with [`VerbError::Ambiguous`].
/// After the last repetition, the operation fails with this error.
const AGAIN_MAX: u32 = 16;

fn memory(addr: GlobalAddr) -> Target {
    Target::Memory(addr.node())
}

/// Word operations on memory nodes. Each operation takes one round trip for each 4 KiB, if no
/// repetition is needed. Addresses are multiples of 8.
///
/// All operations fail with the errors of [`Endpoint::post`](latchwork_verbs::Endpoint::post) and
/// of a failed completion. When a future is dropped before its end, the operation may still take
/// effect. Its buffer stays reserved until the completion.
///
/// When the connection fails under a READ or a WRITE, the operation is repeated, up to 16 times. A
/// repeated WRITE may overwrite a later WRITE of another node. So a word that is written with these
/// operations must have one writer. An atomic is not repeated, except by [`Port::advance`], because
/// only the caller can decide whether a repetition is correct ([`VerbError::Ambiguous`]).
impl Port {
    /// Adds to a counter that may skip numbers; returns the old value. Like
    /// [`fetch_add`](Port::fetch_add), but repeated when the batch ends with
    /// [`VerbError::Ambiguous`].
    ///
    /// # Errors
    /// See above.
    pub async fn advance(&self, counter: GlobalAddr, add: u64) -> Result<u64, VerbError> {
        let request = WorkRequest::FetchAdd { remote: counter.offset(), add };
        Ok(self.execute_repeatedly(memory(counter), request).await?.old[0])
    }

    async fn execute_repeatedly(
        &self,
        target: Target,
        request: WorkRequest,
    ) -> Result<AtomicOutcome, VerbError> {
        let mut again = 0;
        loop {
            match self.execute(target, &[request]).await {
                Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
                end => return end,
            }
        }
    }

    /// Adds to a word, wrapping; returns the old value.
    ///
    /// # Errors
    /// See above.
    pub async fn fetch_add(&self, addr: GlobalAddr, add: u64) -> Result<u64, VerbError> {
        let request = WorkRequest::FetchAdd { remote: addr.offset(), add };
        Ok(self.execute(memory(addr), &[request]).await?.old[0])
    }

    /// Sets a word to `desired` if the word is `expected`; returns the old value.
    ///
    /// # Errors
    /// See above.
    pub async fn compare_swap(
        &self,
        addr: GlobalAddr,
        expected: u64,
        desired: u64,
    ) -> Result<u64, VerbError> {
        let request = WorkRequest::CompareSwap { remote: addr.offset(), expected, desired };
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
        let request = WorkRequest::WriteWord { remote: addr.offset(), value };
        self.execute_repeatedly(memory(addr), request).await.map(drop)
    }

    /// Reads `count` words. With concurrent writes the result may be torn between any two words.
    ///
    /// # Errors
    /// See above. The result grows by one piece of 4 KiB at a time. So an impossible `count` fails
    /// at the first piece beyond the memory, before memory for later pieces is allocated.
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

    /// Writes words, in pieces of 4 KiB from front to back. Each piece starts when the piece before
    /// it has completed.
    ///
    /// # Errors
    /// See above. The pieces before a failed piece have been written, and the failed piece may have
    /// been written in part.
    pub async fn write_words(&self, addr: GlobalAddr, words: &[u64]) -> Result<(), VerbError> {
        for (i, piece) in words.chunks(SLOT_BYTES / WORD).enumerate() {
            let to = ahead(addr, i * SLOT_BYTES / WORD)?;
            let len = piece.len() * WORD;
            let mut again = 0;
            loop {
                let buffer = self.scratch.take().await;
                for (word, value) in buffer.words(0..len).as_atomics().iter().zip(piece) {
                    word.store(*value, std::sync::atomic::Ordering::Relaxed);
                }
                let request =
                    WorkRequest::Write { remote: to.offset(), local: buffer.local(0..len) };
                match self.execute_in(memory(to), &[request], Some(buffer)).await {
                    Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
                    end => break end.map(drop)?,
                }
            }
        }
        Ok(())
    }

    /// Fills `words` from `addr`. The words fit into one scratch buffer.
    async fn read_into(&self, addr: GlobalAddr, words: &mut [u64]) -> Result<(), VerbError> {
        let len = words.len() * WORD;
        let mut again = 0;
        let buffer = loop {
            let buffer = self.scratch.take().await;
            let request = WorkRequest::Read { remote: addr.offset(), local: buffer.local(0..len) };
            match self.execute_in(memory(addr), &[request], Some(buffer)).await {
                Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
                end => break end?.1,
            }
        };
        let buffer = buffer.expect("a batch gives back the buffer that it was given");
        for (i, word) in words.iter_mut().enumerate() {
            *word = buffer.words(0..len).word(i);
        }
        Ok(())
    }
}

/// The address `words` words after `addr`.
fn ahead(addr: GlobalAddr, words: usize) -> Result<GlobalAddr, VerbError> {
    let offset = addr.offset() + (words * WORD) as u64;
    if offset >> 48 != 0 {
        let len = WORD as u64;
        return Err(VerbError::OutOfBounds { target: memory(addr), offset, len, size: 1 << 48 });
    }
    Ok(GlobalAddr::new(addr.node(), offset))
}
