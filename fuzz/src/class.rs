//! The class of an outcome: its text without the parts that vary from input to input.

use std::fmt::Display;

/// The longest class, in bytes, so that a message that quotes its input makes a limited number of
/// classes.
const CLASS_MAX: usize = 160;

/// The class of a message: the message without digits, and without the text between quotes.
pub fn class_of(message: &impl Display) -> String {
    let text = message.to_string();
    let mut class = String::new();
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match quote {
            Some(end) if letter == end => quote = None,
            Some(_) if letter == '\\' => {
                letters.next();
                continue;
            }
            Some(_) => continue,
            None if matches!(letter, '`' | '"') => quote = Some(letter),
            None => {}
        }
        // A run of digits becomes one `0`, so the class does not depend on its length.
        let letter = if letter.is_ascii_digit() || !letter.is_ascii() { '0' } else { letter };
        if letter == '0' && class.ends_with('0') {
            continue;
        }
        if class.len() == CLASS_MAX {
            break;
        }
        class.push(letter);
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_numbers_and_quotes_are_one_class() {
        assert_eq!(class_of(&"f:12: `abc` is 7"), class_of(&"f:3: `x` is 1234"));
        assert_eq!(class_of(&r#"not "a\"b", x"#), class_of(&r#"not "c", x"#));
        assert_ne!(class_of(&"f:12: is cut off"), class_of(&"f:12: is too long"));
    }
}
