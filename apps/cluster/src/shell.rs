//! Words of a shell: quoting of commands, and splitting of text.

/// The command, quoted for a shell.
pub(crate) fn quote(words: &[String]) -> String {
    words.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" ")
}

fn quote_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=,@%+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Words between white space; quotes, single or double, keep white space in a word.
///
/// # Errors
/// A quote without an end.
pub(crate) fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for letter in text.chars() {
        match quote {
            Some(end) if letter == end => quote = None,
            Some(_) => word.get_or_insert_default().push(letter),
            None if letter == '\'' || letter == '"' => {
                word.get_or_insert_default();
                quote = Some(letter);
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(letter),
        }
    }
    match quote {
        Some(quote) => Err(format!("{text}: a quote {quote} has no end")),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_split_into_the_same_words() {
        let words = ["ycsb", "-p", "a=1 2", "", "it\"s", "--x='y'", "$HOME;rm"];
        let words = words.map(str::to_owned);
        let text = quote(&words[..4]);
        assert_eq!(text, "ycsb -p 'a=1 2' ''");
        assert_eq!(split(&text).as_deref(), Ok(&words[..4]));
        assert_eq!(split("a \"b 'c'\"  d\n").expect("words"), ["a", "b 'c'", "d"]);
        assert!(split("a 'b").expect_err("no end").ends_with("a quote ' has no end"));
        assert_eq!(quote(&words[4..]), r#"'it"s' '--x='\''y'\''' '$HOME;rm'"#);
    }
}
