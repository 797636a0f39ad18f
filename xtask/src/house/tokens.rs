//! Facts that are read from a file's tokens, without a syntax tree.

use std::collections::HashSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::facts::Facts;

const ASSERTIONS: [&str; 9] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "strict_assert",
    "strict_assert_eq",
    "strict_assert_ne",
];

/// Identifiers, assertions and strings of a whole file.
pub(crate) fn read(stream: TokenStream, facts: &mut Facts) {
    let mut assertion = None;
    let mut tokens = stream.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                assertion = ASSERTIONS.contains(&name.as_str()).then(|| ident.span().start().line);
                facts.identifiers.insert(name);
                continue;
            }
            TokenTree::Punct(punct) if punct.as_char() == '!' => {
                facts.assertions.extend(assertion);
            }
            // A doc comment is an attribute in the token stream. The scanner reads it as a comment.
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                if matches!(tokens.peek(), Some(TokenTree::Punct(p)) if p.as_char() == '!') {
                    tokens.next();
                }
                if matches!(tokens.peek(), Some(TokenTree::Group(group)) if is_doc(group)) {
                    tokens.next();
                }
            }
            TokenTree::Group(group) => read(group.stream(), facts),
            TokenTree::Literal(literal) => {
                let source = literal.to_string();
                if source.starts_with(['"', 'r'])
                    && let Ok(text) = syn::parse_str::<syn::LitStr>(&source)
                {
                    facts.strings.push((literal.span().start().line, text.value()));
                }
            }
            TokenTree::Punct(_) => {}
        }
        assertion = None;
    }
}

fn is_doc(group: &proc_macro2::Group) -> bool {
    group.delimiter() == Delimiter::Bracket
        && matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(i)) if i == "doc")
}

/// All identifiers among tokens.
pub(crate) fn identifiers(stream: TokenStream, into: &mut HashSet<String>) {
    for token in stream {
        match token {
            TokenTree::Ident(ident) => {
                into.insert(ident.to_string());
            }
            TokenTree::Group(group) => identifiers(group.stream(), into),
            _ => {}
        }
    }
}

/// Sequences `a::b::c` among tokens, groups included.
pub(crate) fn paths(stream: TokenStream, into: &mut Vec<(Vec<String>, usize)>) {
    let mut path: Vec<String> = Vec::new();
    let mut line = 0;
    let mut colons = 0;
    for token in stream {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 || path.is_empty() {
                    into.push((std::mem::take(&mut path), line));
                    line = ident.span().start().line;
                }
                path.push(ident.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            other => {
                into.push((std::mem::take(&mut path), line));
                colons = 0;
                if let TokenTree::Group(group) = other {
                    paths(group.stream(), into);
                }
            }
        }
    }
    into.push((path, line));
    into.retain(|(path, _)| path.len() > 1);
}
