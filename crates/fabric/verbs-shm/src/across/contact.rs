//! [`Contact`]: what a process must know to map the file of another process's node.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use latchwork_verbs::Extent;

use crate::ShmError;

/// The path and the lengths in bytes of a node's file, and the incarnation of its process. The
/// incarnation is a random number that the process drew at its start. The text form is
/// `shm1:INCARNATION:BYTES:PATH`, with `BYTES+CHIP_BYTES` for a node with on-chip memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Contact {
    pub(crate) incarnation: u64,
    pub(crate) extent: Extent,
    pub(crate) path: PathBuf,
}

/// The start of each contact's text, with the version of the text form.
const KIND: &str = "shm1";

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contact { incarnation, extent: Extent { bytes, chip_bytes }, path } = self;
        write!(f, "{KIND}:{incarnation:016x}:{bytes}")?;
        if *chip_bytes > 0 {
            write!(f, "+{chip_bytes}")?;
        }
        write!(f, ":{}", path.display())
    }
}

impl FromStr for Contact {
    type Err = ShmError;

    fn from_str(text: &str) -> Result<Self, ShmError> {
        let parse = || {
            let mut parts = text.splitn(4, ':');
            let kind = parts.next()?;
            let incarnation = u64::from_str_radix(parts.next()?, 16).ok()?;
            let lengths = parts.next()?;
            let (bytes, chip) = lengths.split_once('+').unwrap_or((lengths, "0"));
            let extent = Extent { bytes: bytes.parse().ok()?, chip_bytes: chip.parse().ok()? };
            let path = PathBuf::from(parts.next()?);
            let fits = kind == KIND && path.is_absolute();
            fits.then_some(Contact { incarnation, extent, path })
        };
        parse().ok_or_else(|| ShmError::Contact { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_read_as_it_was_written_and_nothing_else_is() {
        for chip_bytes in [0, 64] {
            let extent = Extent { bytes: 4096, chip_bytes };
            let path = PathBuf::from("/dev/shm/a:b/c d");
            let contact = Contact { incarnation: 0xfe, extent, path };
            assert_eq!(contact.to_string().parse::<Contact>().unwrap(), contact);
        }
        for text in [
            "",
            "shm1",
            "shm1:1:2",
            "shm2:1:2:/a",
            "shm1:x:2:/a",
            "shm1:1:-2:/a",
            "shm1:1:2+:/a",
            "shm1:1:2+3+4:/a",
            "shm1:1:2:a",
        ] {
            assert!(text.parse::<Contact>().is_err(), "{text}");
        }
    }
}
