//! [`Contact`]: what a process must know to map the file of another process's node.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::ShmError;

/// The path and the length in bytes of a node's file, and the incarnation of its process. The
/// incarnation is a random number that the process drew at its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Contact {
    pub(crate) incarnation: u64,
    pub(crate) bytes: u64,
    pub(crate) path: PathBuf,
}

/// The start of each contact's text, with the version of the text form.
const KIND: &str = "shm1";

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contact { incarnation, bytes, path } = self;
        write!(f, "{KIND}:{incarnation:016x}:{bytes}:{}", path.display())
    }
}

impl FromStr for Contact {
    type Err = ShmError;

    fn from_str(text: &str) -> Result<Self, ShmError> {
        let parse = || {
            let mut parts = text.splitn(4, ':');
            let kind = parts.next()?;
            let incarnation = u64::from_str_radix(parts.next()?, 16).ok()?;
            let bytes = parts.next()?.parse().ok()?;
            let path = PathBuf::from(parts.next()?);
            let fits = kind == KIND && path.is_absolute();
            fits.then_some(Contact { incarnation, bytes, path })
        };
        parse().ok_or_else(|| ShmError::Contact { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_read_as_it_was_written_and_nothing_else_is() {
        let contact =
            Contact { incarnation: 0xfe, bytes: 4096, path: PathBuf::from("/dev/shm/a:b/c d") };
        assert_eq!(contact.to_string().parse::<Contact>().unwrap(), contact);
        for text in
            ["", "shm1", "shm1:1:2", "shm2:1:2:/a", "shm1:x:2:/a", "shm1:1:-2:/a", "shm1:1:2:a"]
        {
            assert!(text.parse::<Contact>().is_err(), "{text}");
        }
    }
}
