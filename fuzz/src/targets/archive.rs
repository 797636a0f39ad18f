//! Several files in one input, for targets that read a directory.
//!
//! ```text
//!   | name length u8 | name | length u32 | bytes |  of each file
//! ```

/// The highest number of files of an input.
const FILES_MAX: usize = 64;

/// Files by name.
pub type Files = Vec<(String, Vec<u8>)>;

/// The input that contains these files.
///
/// # Panics
/// When a name is longer than 255 bytes.
pub fn pack(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut input = Vec::new();
    for (name, bytes) in files {
        input.push(u8::try_from(name.len()).expect("names are short"));
        input.extend(name.as_bytes());
        input.extend((bytes.len() as u32).to_le_bytes());
        input.extend(bytes);
    }
    input
}

/// The files in arbitrary bytes. A truncated file has the bytes that are left.
pub fn unpack(input: &[u8]) -> Files {
    let mut files = Files::new();
    let mut rest = input;
    while let Some((length, after)) = rest.split_first() {
        let (name, after) = after.split_at(after.len().min(usize::from(*length)));
        let Some((length, after)) = after.split_first_chunk() else { break };
        let length = after.len().min(u32::from_le_bytes(*length) as usize);
        let (bytes, after) = after.split_at(length);
        files.push((String::from_utf8_lossy(name).chars().take(60).collect(), bytes.to_vec()));
        if files.len() == FILES_MAX {
            break;
        }
        rest = after;
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_out_as_they_went_in() {
        let files = vec![("a".to_owned(), vec![1, 2]), (String::new(), Vec::new())];
        assert_eq!(unpack(&pack(&files)), files);
        for end in 0..pack(&files).len() {
            let _ = unpack(&pack(&files)[..end]);
        }
    }
}
