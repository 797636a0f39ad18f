//! [`Inode`]: the bytes of a file, as programs see them and as they are on the device.

use latchwork_simulation::Random;
use latchwork_strict::strict_assert;

/// The size in bytes of a sector, which a device writes whole or not at all.
pub(super) const SECTOR: usize = 512;

#[derive(Default, Debug)]
pub(super) struct Inode {
    /// The bytes that a read returns.
    pub(super) content: Vec<u8>,
    /// The bytes that are on the device for certain.
    lasting: Vec<u8>,
    /// The changes since the last sync.
    dirty: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

impl Inode {
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.dirty.push(Change::Write(self.content.len(), bytes.to_vec()));
        self.content.extend_from_slice(bytes);
    }

    pub(super) fn truncate(&mut self, length: usize) {
        if length < self.content.len() {
            self.dirty.push(Change::Cut(length));
            self.content.truncate(length);
        }
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.dirty) {
            change.apply(&mut self.lasting);
        }
    }

    /// A failed sync: some sectors are durable, and no later sync writes the others.
    pub(super) fn sync_badly(&mut self, random: &mut Random) {
        self.lasting = self.image(random);
        self.dirty.clear();
    }

    pub(super) fn crash(&mut self, random: &mut Random) {
        self.lasting = self.image(random);
        self.content.clone_from(&self.lasting);
        self.dirty.clear();
    }

    pub(super) fn cut(&mut self, length: usize) {
        self.content.truncate(length);
        self.lasting.truncate(length);
        self.dirty.clear();
    }

    pub(super) fn damage(&mut self, offset: usize, bits: u8) -> bool {
        for bytes in [&mut self.content, &mut self.lasting] {
            match bytes.get_mut(offset) {
                Some(byte) => *byte ^= bits,
                None => return false,
            }
        }
        true
    }

    /// A possible content of the device now.
    fn image(&self, random: &mut Random) -> Vec<u8> {
        if self.dirty.is_empty() {
            return self.lasting.clone();
        }
        // All contents that each sector has had since the last sync, and all lengths: first those
        // on the device, then those after each change.
        let mut now = self.lasting.clone();
        let mut lengths = vec![now.len()];
        let mut sectors: Vec<Vec<[u8; SECTOR]>> =
            now.chunks(SECTOR).map(|s| vec![padded(s)]).collect();
        for change in &self.dirty {
            let before = now.len();
            change.apply(&mut now);
            let touched = match change {
                Change::Write(offset, bytes) => (before.min(*offset), offset + bytes.len()),
                Change::Cut(length) => (*length, before),
            };
            let stale = random.below(4) == 0;
            while sectors.len() * SECTOR < touched.1 {
                // A sector never written holds zeros, or old bytes of some file.
                let fill = if stale { random.draw() as u8 | 1 } else { 0 };
                sectors.push(vec![[fill; SECTOR]]);
            }
            if touched.0 < touched.1 {
                for (at, versions) in sectors.iter_mut().enumerate().skip(touched.0 / SECTOR) {
                    if at * SECTOR < touched.1 {
                        let end = now.len().min((at + 1) * SECTOR);
                        versions.push(padded(now.get(at * SECTOR..end).unwrap_or_default()));
                    }
                }
            }
            lengths.push(now.len());
        }
        strict_assert!(sectors.len() * SECTOR >= now.len(), "a written sector is missing");
        let newest = now.len();
        let most = lengths.iter().copied().max().unwrap_or(0);
        let length = match random.below(4) {
            0 => lengths[random.below(lengths.len() as u64) as usize],
            1 => (random.below(most as u64 + 1) as usize / SECTOR * SECTOR)
                .max(lengths.iter().copied().min().unwrap_or(0)),
            _ => newest,
        };
        strict_assert!(length <= most, "the image is longer than any content");
        // A sector has its last content with at least the probability `written / 8`.
        let written = random.below(9);
        let mut image = Vec::with_capacity(sectors.len() * SECTOR);
        for versions in &sectors {
            let last = versions.len() - 1;
            let version = match random.below(8) < written {
                true => last,
                false => random.below(last as u64 + 1) as usize,
            };
            image.extend_from_slice(&versions[version]);
        }
        image.resize(length, 0);
        image
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(offset, written) => {
                let end = offset + written.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*offset..end].copy_from_slice(written);
            }
            Change::Cut(length) => bytes.truncate(*length),
        }
    }
}

fn padded(bytes: &[u8]) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    sector[..bytes.len()].copy_from_slice(bytes);
    sector
}
