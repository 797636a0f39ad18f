//! Values of an index in their place: [`ValueView`] to read, [`ValueEdit`] to change.

/// A value of an index, as a closure of a caller sees it.
///
/// An index may call the closure before it knows that the bytes are consistent, and then again. So
/// a closure must accept any bytes and any length, and must have no effect but its result.
pub trait ValueView {
    /// The length in bytes.
    fn len(&self) -> usize;

    /// Copies bytes from `offset` on into `to`. Bytes beyond the end of the value read as zero.
    fn read(&self, offset: usize, to: &mut [u8]);

    /// Whether the value has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The little-endian `u64` at byte `offset`, a multiple of 8. It is zero if it is not wholly
    /// inside the value.
    fn u64(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        if offset + bytes.len() <= self.len() {
            self.read(offset, &mut bytes);
        }
        u64::from_le_bytes(bytes)
    }

    /// All bytes.
    fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.read(0, &mut bytes);
        bytes
    }
}

/// A value that may be changed in its place. Its length cannot change.
pub trait ValueEdit: ValueView {
    /// Writes `from` at byte `offset`.
    ///
    /// # Panics
    /// When `from` does not fit into the value.
    fn write(&mut self, offset: usize, from: &[u8]);

    /// Writes a little-endian `u64` at byte `offset`.
    ///
    /// # Panics
    /// When the `u64` does not fit into the value.
    fn set_u64(&mut self, offset: usize, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }
}

impl ValueView for [u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn read(&self, offset: usize, to: &mut [u8]) {
        let there = self.get(offset..).unwrap_or_default();
        let (inside, outside) = to.split_at_mut(there.len().min(to.len()));
        inside.copy_from_slice(&there[..inside.len()]);
        outside.fill(0);
    }
}

impl ValueEdit for [u8] {
    fn write(&mut self, offset: usize, from: &[u8]) {
        self[offset..offset + from.len()].copy_from_slice(from);
    }
}

impl<V: ValueView + ?Sized> ValueView for &V {
    fn len(&self) -> usize {
        V::len(self)
    }

    fn read(&self, offset: usize, to: &mut [u8]) {
        V::read(self, offset, to);
    }
}

impl<V: ValueView + ?Sized> ValueView for &mut V {
    fn len(&self) -> usize {
        V::len(self)
    }

    fn read(&self, offset: usize, to: &mut [u8]) {
        V::read(self, offset, to);
    }
}

impl<V: ValueEdit + ?Sized> ValueEdit for &mut V {
    fn write(&mut self, offset: usize, from: &[u8]) {
        V::write(self, offset, from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_beyond_the_end_of_a_value_read_as_zero() {
        let value: &[u8] = &[1, 2, 3];
        let mut bytes = [9; 3];
        for (offset, seen) in [(0, [1, 2, 3]), (2, [3, 0, 0]), (3, [0; 3]), (7, [0; 3])] {
            ValueView::read(&value, offset, &mut bytes);
            assert_eq!(bytes, seen);
        }
        assert_eq!(value.u64(0), 0);
        assert_eq!(ValueView::to_vec(&value), value);
    }

    #[test]
    fn a_value_is_changed_in_its_place() {
        let mut bytes = vec![7; 12];
        let mut value: &mut [u8] = &mut bytes;
        value.set_u64(0, 5);
        ValueEdit::write(&mut value, 10, &[1]);
        assert_eq!((value.u64(0), bytes), (5, vec![5, 0, 0, 0, 0, 0, 0, 0, 7, 7, 1, 7]));
    }
}
