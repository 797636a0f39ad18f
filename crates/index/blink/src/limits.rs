//! The longest keys and values of a tree, and the settings of a tree.

use latchwork_strict::strict_assert;

use crate::TreeError;
use crate::leaf_stamp::STAMP;
use crate::page::{HEADER, SLOT};

/// The longest key of any tree, in bytes.
pub const KEY_MAX: usize = 512;
const _: () = assert!(
    KEY_MAX.is_multiple_of(8) && KEY_MAX <= u16::MAX as usize,
    "a key's length fits into a header"
);

/// The longest key and value that a tree accepts, in bytes. Both follow from the line size.
///
/// A value may take a quarter of a line. A key may take up to [`KEY_MAX`] bytes. But a page must
/// always have room for its two fence keys and two of the largest entries. Otherwise a page could
/// be full with fewer than two entries, and could not be split. Inner pages have values of 8 bytes,
/// so they have room for at least three children.
///
/// | line | longest value | longest key | with stamps |
/// | --- | --- | --- | --- |
/// | 512 | 128 | 40 | 32 |
/// | 1024 | 256 | 104 | 96 |
/// | 2048 | 512 | 232 | 224 |
/// | 4096 | 1024 | 488 | 480 |
/// | 8192 and more | a quarter | 512 | 512 |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeLimits {
    /// The longest key.
    pub key_max: usize,
    /// The longest value.
    pub value_max: usize,
}

impl TreeLimits {
    /// The limits of a tree without leaf stamps, for lines with `payload` usable bytes.
    ///
    /// # Errors
    /// [`TreeError::LineTooSmall`] when a page could not hold keys of 8 bytes, and also when
    /// `payload` is above 65535 or not a multiple of 8.
    pub fn for_payload(payload: usize) -> Result<TreeLimits, TreeError> {
        // The length of a line is a power of two, and the pool takes a small header from it. So
        // this is a quarter of the line.
        let value_max = payload.next_power_of_two() / 4;
        // A slotted page takes more room than a fixed page. It needs two fence keys of K bytes and
        // two entries. Each entry has a head, a cell, V bytes of value, and the K - 8 bytes of key
        // behind its head. The sum is 4 K + 2 (SLOT + V - 8) bytes, and all parts are multiples
        // of 8.
        let left = payload.saturating_sub(HEADER + 2 * (SLOT + value_max - 8));
        let key_max = (left / 4 / 8 * 8).min(KEY_MAX);
        if key_max < 8 || payload > usize::from(u16::MAX) || !payload.is_multiple_of(8) {
            return Err(TreeError::LineTooSmall { payload });
        }
        strict_assert!(key_max >= 8 && key_max.is_multiple_of(8), "a key takes whole words");
        strict_assert!(
            value_max <= payload && HEADER + 4 * key_max + 2 * (SLOT + value_max - 8) <= payload,
            "two of the largest entries fit between two of the largest fences"
        );
        Ok(TreeLimits { key_max, value_max })
    }

    /// The limits of a tree [with leaf stamps](TreeConfig::stamped), for lines with `payload`
    /// usable bytes.
    ///
    /// # Errors
    /// As [`for_payload`](TreeLimits::for_payload).
    pub(crate) fn with_stamps(payload: usize) -> Result<TreeLimits, TreeError> {
        let limits = TreeLimits::for_payload(payload.saturating_sub(STAMP));
        limits.map_err(|_| TreeError::LineTooSmall { payload })
    }

    /// Checks that a tree with these limits accepts a key.
    ///
    /// # Errors
    /// [`TreeError::KeyEmpty`], [`TreeError::KeyTooLong`].
    pub fn check_key(&self, key: &[u8]) -> Result<(), TreeError> {
        if key.is_empty() {
            return Err(TreeError::KeyEmpty);
        }
        if key.len() > self.key_max {
            return Err(TreeError::KeyTooLong { len: key.len(), max: self.key_max });
        }
        Ok(())
    }

    pub(crate) fn check_value(&self, value: &[u8]) -> Result<(), TreeError> {
        if value.len() > self.value_max {
            return Err(TreeError::ValueTooLong { len: value.len(), max: self.value_max });
        }
        Ok(())
    }
}

/// The settings of a tree and of its handles.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TreeConfig {
    /// Whether each leaf carries a [leaf stamp](crate::LeafStamp). Leaf stamps take 24 bytes of
    /// each page, inner pages included. The operations with names in `_stamped`,
    /// [`still`](crate::Tree::still), [`raise_read`](crate::Tree::raise_read) and
    /// [`raise_removed`](crate::Tree::raise_removed) need them. All handles on a tree must agree on
    /// this setting. The other settings may differ between handles.
    pub stamped: bool,
    /// The maximum number of entries of a leaf, at least 2. `None`: only the bytes of the page
    /// limit it.
    pub max_entries_leaf: Option<u16>,
    /// The maximum number of children of an inner page, at least 3. `None`: only the bytes of the
    /// page limit it.
    pub max_entries_inner: Option<u16>,
    /// The rules that a checker can break.
    pub rules: TreeRules,
}

/// The rules by which empty pages leave the tree. A checker breaks one, to show that it would find
/// the bug. Everywhere else all rules hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeRules {
    /// The line of a page that has left the tree is used again only after all operations that may
    /// know its address.
    pub frees_by_epochs: bool,
    /// A page leaves the tree only if it is still empty under its write guard.
    pub looks_again: bool,
    /// The left sibling takes over the range of keys and the right link.
    pub links_neighbour: bool,
    /// The page is marked in the step that takes its entry from the parent.
    pub marks_at_once: bool,
    /// A remembered address is tried only in a page whose low fence is not above the key.
    pub checks_remembered: bool,
}

impl TreeRules {
    /// All rules hold.
    pub const ALL: TreeRules = TreeRules {
        frees_by_epochs: true,
        looks_again: true,
        links_neighbour: true,
        marks_at_once: true,
        checks_remembered: true,
    };
}

impl Default for TreeRules {
    fn default() -> Self {
        TreeRules::ALL
    }
}

impl TreeConfig {
    /// The limits of a tree in lines with `payload` usable bytes.
    pub(crate) fn limits(&self, payload: usize) -> Result<TreeLimits, TreeError> {
        if self.stamped {
            TreeLimits::with_stamps(payload)
        } else {
            TreeLimits::for_payload(payload)
        }
    }

    /// The maximum number of entries of a page on `level`.
    pub(crate) fn max_entries(&self, level: u8) -> usize {
        let (max, least) =
            if level == 0 { (self.max_entries_leaf, 2) } else { (self.max_entries_inner, 3) };
        strict_assert!(least >= 2, "a full page can be split");
        max.map_or(usize::MAX, |max| usize::from(max.max(least)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_table() {
        let table = [
            (512, 128, 40, 32),
            (1024, 256, 104, 96),
            (2048, 512, 232, 224),
            (4096, 1024, 488, 480),
            (8192, 2048, 512, 512),
            (65536, 16384, 512, 512),
        ];
        for (line, value_max, key_max, stamped) in table {
            let payload = line - 32;
            assert_eq!(
                TreeLimits::for_payload(payload).ok(),
                Some(TreeLimits { key_max, value_max })
            );
            let limits = TreeLimits { key_max: stamped, value_max };
            assert_eq!(TreeLimits::with_stamps(payload).ok(), Some(limits));
        }
        assert!(TreeLimits::for_payload(96).is_err());
        let error = TreeLimits::with_stamps(96).unwrap_err();
        assert!(matches!(error, TreeError::LineTooSmall { payload: 96 }));
    }
}
