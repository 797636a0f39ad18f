//! The state file: text with one line for each lease and each key. The first line has the format,
//! and the checksum of the other lines. The line `leases` has the highest number of a lease so far.
//!
//! ```text
//! latchwork-cluster 1 17 81234567890123 331 1c291ca3     format, revision, end of the next lease (0: none),
//! boot 6b0c5d4e-...                                       bytes and CRC-32 of the rest
//! leases 2
//! lease 2 10000000000 81234567890123                      id, length, end (nanoseconds since the boot)
//! key /latchwork/bench/fact/pool 12 0 4\x20memory         name, revision, lease (0: none), value
//! ```

use std::fmt::Write as _;
use std::time::Duration;

use crate::store::LeaseId;
use crate::store::state::{Kept, State, Term};
use crate::time::nanos;

const MAGIC: &str = "latchwork-cluster";
const VERSION: u32 = 1;
/// The greatest length of a first line, in bytes.
pub(super) const HEADER_MAX: usize = 128;

/// The first line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) revision: u64,
    pub(super) next_end: Option<Duration>,
    length: usize,
    crc: u32,
}

/// The state of a cluster in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Image {
    /// The kernel's boot id. The ends of leases count from that boot.
    pub(super) boot: String,
    pub(super) state: State,
}

impl Image {
    pub(super) fn encode(&self) -> Vec<u8> {
        let State { revision, last_lease, entries, leases } = &self.state;
        let mut body = format!("boot {}\nleases {last_lease}\n", self.boot);
        // Writing to a string cannot fail.
        for (id, Term { ttl, end }) in leases {
            let _ = writeln!(body, "lease {} {} {}", id.0, nanos(*ttl), nanos(*end));
        }
        for (key, Kept { value, modified, lease }) in entries {
            let lease = lease.map_or(0, |lease| lease.0);
            let _ = writeln!(body, "key {key} {modified} {lease} {}", escaped(value));
        }
        let next_end = self.state.next_end().map_or(0, nanos);
        let crc = crc32fast::hash(body.as_bytes());
        let (length, version) = (body.len(), VERSION);
        format!("{MAGIC} {version} {revision} {next_end} {length} {crc:08x}\n{body}").into_bytes()
    }

    /// Parses the bytes of a whole file, or returns the reason why that fails.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let header = Header::decode(bytes)?;
        let begin = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let body = &bytes[begin..];
        if body.len() != header.length || crc32fast::hash(body) != header.crc {
            return Err(
                "its checksum is wrong: it was changed by hand or not wholly written".into()
            );
        }
        let wrong = |line: &str| format!("the line {line:?} means nothing");
        let text = std::str::from_utf8(body).map_err(|_| "it is no text".to_owned())?;
        let mut image = Image { boot: String::new(), state: State::default() };
        image.state.revision = header.revision;
        for line in text.lines() {
            image.line(line).ok_or_else(|| wrong(line))?;
        }
        Ok(image)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        match words.next()? {
            "boot" => self.boot = words.next()?.to_owned(),
            "leases" => self.state.last_lease = words.next()?.parse().ok()?,
            "lease" => {
                let mut number = || words.next()?.parse::<u64>().ok();
                let id = LeaseId(number()?);
                let ttl = Duration::from_nanos(number()?);
                let end = Duration::from_nanos(number()?);
                self.state.leases.insert(id, Term { ttl, end });
            }
            "key" => {
                let key = words.next()?.to_owned();
                let modified = words.next()?.parse().ok()?;
                let lease = match words.next()?.parse().ok()? {
                    0 => None,
                    lease => Some(LeaseId(lease)),
                };
                let value = unescaped(words.next()?)?;
                self.state.entries.insert(key, Kept { value, modified, lease });
            }
            _ => return None,
        }
        words.next().is_none().then_some(())
    }
}

impl Header {
    /// Parses the first line of `bytes`. `bytes` may be only a part of the file.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let foreign = || "it begins with none of its lines".to_owned();
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| foreign())?;
        let mut words = line.split(' ');
        if words.next() != Some(MAGIC) {
            return Err(foreign());
        }
        let version = words.next().ok_or_else(foreign)?;
        if version != VERSION.to_string() {
            return Err(format!("it has format {version} and this program knows {VERSION}"));
        }
        let mut fields = || {
            let revision = words.next()?.parse().ok()?;
            let next_end = match words.next()?.parse().ok()? {
                0 => None,
                end => Some(Duration::from_nanos(end)),
            };
            let length = words.next()?.parse().ok()?;
            let crc = u32::from_str_radix(words.next()?, 16).ok()?;
            words.next().is_none().then_some(Header { revision, next_end, length, crc })
        };
        fields().ok_or_else(foreign)
    }
}

/// The printable ASCII characters except the backslash; every other byte as `\xNN`.
fn escaped(value: &[u8]) -> String {
    let digit = |bits: u8| char::from(b"0123456789abcdef"[usize::from(bits & 15)]);
    let mut text = String::with_capacity(value.len());
    for byte in value {
        if byte.is_ascii_graphic() && *byte != b'\\' {
            text.push(char::from(*byte));
        } else {
            text.extend(['\\', 'x', digit(byte >> 4), digit(*byte)]);
        }
    }
    text
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut value = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (None, high, low) = (digit(), digit()?, digit()?) else { return None };
        value.push((high << 4 | low) as u8);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        let mut state = State::default();
        let lease = state.grant(Duration::from_secs(3), Duration::from_millis(1234));
        let all = (0..=255).collect::<Vec<u8>>();
        for (key, value, lease) in
            [("/a", all, Some(lease)), ("/b", Vec::new(), None), ("/c", b" \n\\".to_vec(), None)]
        {
            let put = crate::store::KeyChange::Put { key: key.into(), value, lease };
            state.commit(&[], &[put]).unwrap().unwrap();
        }
        Image { boot: "this-one".into(), state }
    }

    #[test]
    fn what_was_written_is_read() {
        let image = image();
        assert_eq!(Image::decode(&image.encode()), Ok(image.clone()));
        let header = Header::decode(&image.encode()[..HEADER_MAX]).unwrap();
        assert_eq!((header.revision, header.next_end), (3, image.state.next_end()));
    }

    #[test]
    fn no_prefix_and_no_changed_byte_passes() {
        let image = image();
        let bytes = image.encode();
        for len in 0..bytes.len() {
            assert!(Image::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        let body = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for at in body..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert!(Image::decode(&bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn another_format_is_refused_by_its_number() {
        let why = Image::decode(b"latchwork-cluster 2 whatever\n").unwrap_err();
        assert!(why.contains("format 2"), "{why}");
    }
}
