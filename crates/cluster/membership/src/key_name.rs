//! [`checked`]: names of clusters, contacts, facts and exchanges, which become parts of keys.

use crate::error::MembershipError;

/// Returns the text if it can be a part of a key or a path: it contains no separator of either.
pub(crate) fn checked<'a>(what: &'static str, name: &'a str) -> Result<&'a str, MembershipError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && name.len() <= 64 && name.chars().all(plain) {
        Ok(name)
    } else {
        Err(MembershipError::Name { what, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_place() {
        for name in ["", ".", "..", "a/b", "a b", "-x", "_", "ä", "a\n", &"x".repeat(65)] {
            assert!(checked("cluster", name).is_err(), "{name:?}");
        }
        for name in ["a", "bench-1", "A.b_c", "9"] {
            assert_eq!(checked("cluster", name), Ok(name));
        }
    }
}
