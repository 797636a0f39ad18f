//! [`Corpus`]: the inputs of a target in files. Also writes inputs that failed.

use std::io;
use std::path::{Path, PathBuf};

/// The kept inputs of one target.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    /// The name and the bytes of each input, in the order of the names.
    pub inputs: Vec<(String, Vec<u8>)>,
}

impl Corpus {
    /// The folder of all corpora in this source tree.
    pub fn home() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
    }

    /// The folder for failures in this source tree.
    pub fn failures() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("failures")
    }

    /// Reads all files of `folder`; a folder that does not exist is an empty corpus.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn load(folder: &Path) -> io::Result<Corpus> {
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Corpus::default()),
            entries => entries?,
        };
        let mut inputs = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.is_file() {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                inputs.push((name, std::fs::read(&path)?));
            }
        }
        inputs.sort();
        Ok(Corpus { inputs })
    }
}

/// Writes an input that failed to `folder`, under a name that depends on its bytes alone.
///
/// # Errors
/// The error of the operating system.
pub fn save_failure(folder: &Path, target: &str, input: &[u8]) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("{target}-{:016x}", hash(input)));
    std::fs::write(&path, input)?;
    Ok(path)
}

/// The hash FNV-1a, which is the same in every build.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}
