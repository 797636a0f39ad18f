//! The grammar of `java.util.Properties`: logical lines, separators, escapes.

use std::str::Chars;

/// The lines of a text, which end with CR, LF or both, as Java's do.
pub(crate) fn natural_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('\r'))
}

/// The logical lines of a text. A logical line is one line of the text, or several lines that a
/// backslash at the end joins. Each has the number, from 1, of its first line. Comments and blank
/// lines are left out. Leading white space is removed. Escapes stay.
pub(super) fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, natural) in natural_lines(text).enumerate() {
        let natural = natural.trim_start_matches(is_blank);
        if open.is_none() && (natural.is_empty() || natural.starts_with(['#', '!'])) {
            continue;
        }
        let (number, mut logical) = open.take().unwrap_or((index + 1, String::new()));
        let backslashes = natural.bytes().rev().take_while(|byte| *byte == b'\\').count();
        if backslashes % 2 == 1 {
            logical.push_str(&natural[..natural.len() - 1]);
            open = Some((number, logical));
        } else {
            logical.push_str(natural);
            lines.push((number, logical));
        }
    }
    lines.extend(open);
    lines
}

/// Splits a logical line into key and value and resolves the escapes of both.
pub(super) fn split(logical: &str) -> Result<(String, String), &'static str> {
    let mut escaped = false;
    let end = logical
        .char_indices()
        .find(|(_, c)| {
            let separates = !escaped && (is_blank(*c) || matches!(c, '=' | ':'));
            escaped = !escaped && *c == '\\';
            separates
        })
        .map_or(logical.len(), |(at, _)| at);
    let (key, rest) = logical.split_at(end);
    if key.is_empty() {
        return Err("there is no key before the separator; a line is key=value");
    }
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(is_blank);
    Ok((unescape(key)?, unescape(value)?))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Resolves the escapes. As in Java, `\u` escapes a unit of UTF-16, so that two of them make a
/// character beyond the first 65536.
fn unescape(text: &str) -> Result<String, &'static str> {
    const LONE: &str = "`\\u` of half a character: after `\\uD800` to `\\uDBFF` comes one of \
                        `\\uDC00` to `\\uDFFF`, and nowhere else";
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => {
                let mut units = vec![unit(&mut chars)?];
                if matches!(units[0], 0xd800..0xdc00) {
                    let second = chars.as_str().strip_prefix("\\u").ok_or(LONE)?;
                    chars = second.chars();
                    units.push(unit(&mut chars)?);
                }
                plain.push_str(&String::from_utf16(&units).map_err(|_| LONE)?);
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Ok(plain)
}

/// The number that the next four hexadecimal digits write.
fn unit(chars: &mut Chars<'_>) -> Result<u16, &'static str> {
    const BROKEN: &str = "`\\u` must be followed by the four hexadecimal digits of a character";
    let digits = chars.as_str().get(..4).ok_or(BROKEN)?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(BROKEN);
    }
    *chars = chars.as_str()[4..].chars();
    u16::from_str_radix(digits, 16).map_err(|_| BROKEN)
}
