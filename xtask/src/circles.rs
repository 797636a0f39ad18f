//! Circles: files of one crate that import each other, directly or through others.
//!
//! A file imports another one when it names an item or a module of it: in a `use`, in a path, or by
//! `use super::*`. A declaration `mod name;` is no import, nor is a `pub use` of a name that the
//! file itself does not use: the re-export stands for the file that defines the name. Items that
//! only tests compile do not count. The files are read as tokens: what matters here are `use`,
//! `mod`, the names of items, and paths.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::packages::Package;
use crate::texts::{Finding, Texts, rules, tokens};

const KEPT: &str = "xtask/kept/circles.txt";

/// The words before the name of an item.
const ITEMS: [&str; 9] =
    ["const", "enum", "fn", "macro_rules", "static", "struct", "trait", "type", "union"];

/// The longest chain of re-exports that is followed.
const DEPTH_MAX: usize = 12;

/// The imports of a crate: from file to file, with the line of the first one.
type Imports = BTreeMap<String, BTreeMap<String, usize>>;

/// Circles that are not in the kept list, and lines of that list that name no circle.
pub(crate) fn check(packages: &[Package], texts: &Texts) -> Result<Vec<Finding>, String> {
    let mut circles = BTreeMap::new();
    for root in packages.iter().flat_map(|package| &package.roots) {
        let mut target = Target { texts, modules: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        target.add(root, None, folder.to_owned())?;
        circles.extend(self::circles(&target.imports()));
    }
    let mut findings = Vec::new();
    for (number, line) in rules(texts, KEPT) {
        let (files, reason) = line.split_once(" # ").unwrap_or((line, ""));
        if circles.remove(files).is_none() {
            findings.push(Finding::new(KEPT, number, "there is no such circle: remove it".into()));
        } else if reason.is_empty() {
            findings.push(Finding::new(KEPT, number, "say why behind ` # `".into()));
        }
    }
    for (files, ways) in circles {
        let (first, line) = &ways[0];
        let ways: Vec<String> = ways.iter().map(|(path, line)| format!("{path}:{line}")).collect();
        let what = format!(
            "files import each other ({}): move what both sides need to a file of its own. {files}",
            ways.join(", "),
        );
        findings.push(Finding::new(first, *line, what));
    }
    Ok(findings)
}

/// The circles, each as its files, with the place of one import of each file.
fn circles(imports: &Imports) -> BTreeMap<String, Vec<(String, usize)>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in imports.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), vec![file.as_str()]);
        while let Some(to) = open.pop().and_then(|file| imports.get(file)) {
            open.extend(to.keys().map(String::as_str).filter(|&to| seen.insert(to)));
        }
        reached.insert(file, seen);
    }
    let mut circles = BTreeMap::new();
    for (file, to) in reached.iter().filter(|(file, to)| to.contains(*file)) {
        let members: Vec<&str> =
            to.iter().copied().filter(|to| reached[to].contains(file)).collect();
        let way = |from: &&str| {
            let line = imports[*from].iter().find(|(to, _)| members.contains(&to.as_str()));
            ((*from).to_owned(), line.map_or(1, |(_, line)| *line))
        };
        circles.insert(members.join(" "), members.iter().map(way).collect());
    }
    circles
}

/// A token of a source, or the bracket of a group.
struct Token {
    text: String,
    /// Of a name.
    line: usize,
    /// How many groups are around it; as many for a bracket as around its group.
    depth: usize,
}

fn flatten(stream: TokenStream, depth: usize, into: &mut Vec<Token>) {
    for token in stream {
        let (text, line) = match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    _ => ("(", ")"),
                };
                into.push(Token { text: open.to_owned(), line: 0, depth });
                flatten(group.stream(), depth + 1, into);
                (close.to_owned(), 0)
            }
            TokenTree::Ident(ident) => {
                (ident.to_string().trim_start_matches("r#").to_owned(), ident.span().start().line)
            }
            TokenTree::Punct(punct) => (punct.as_char().to_string(), 0),
            TokenTree::Literal(_) => ("\"".to_owned(), 0),
        };
        into.push(Token { text, line, depth });
    }
}

fn text(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |token| &token.text)
}

/// The place of the first token from `at` that is as deep as the token there and one of `wanted`.
fn find(tokens: &[Token], at: usize, wanted: &[&str]) -> usize {
    let is_wanted =
        |token: &Token| token.depth == tokens[at].depth && wanted.contains(&token.text.as_str());
    let found = tokens[at.min(tokens.len())..].iter().position(is_wanted);
    found.map_or(tokens.len(), |found| at + found)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The number of tokens of an item: to its body, or to a semicolon or comma outside brackets.
fn length(tokens: &[Token]) -> usize {
    let mut angles = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            _ if token.depth > tokens[0].depth => {}
            // The end of what is around it.
            _ if token.depth < tokens[0].depth => return at,
            "<" => angles += 1,
            ">" if at > 0 && text(tokens, at - 1) != "-" => angles -= 1,
            ";" | "}" => return at + 1,
            "," if angles == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// A library, program, test, benchmark or example. Its root module comes first.
struct Target<'a> {
    texts: &'a Texts,
    modules: Vec<Module>,
}

/// A module, of a file or inline.
#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    /// Where the files of its modules lie.
    folder: String,
    children: BTreeMap<String, usize>,
    items: HashSet<String>,
    uses: Vec<Use>,
    /// Paths of two names or more outside `use`, with the line of the first one.
    paths: BTreeMap<Vec<String>, usize>,
    /// All names outside `use`.
    words: HashSet<String>,
}

/// One name that a `use` brings in.
struct Use {
    path: Vec<String>,
    /// Its name here; empty for a glob.
    alias: String,
    is_public: bool,
    line: usize,
}

/// What a path names.
#[derive(Clone, Copy)]
enum Place {
    Module(usize),
    /// An item of a module.
    Item(usize),
}

impl Target<'_> {
    fn add(&mut self, file: &str, parent: Option<usize>, folder: String) -> Result<usize, String> {
        let text = self.texts.get(file).ok_or(format!("cannot read {file}"))?;
        let mut all = Vec::new();
        flatten(tokens(file, text)?, 0, &mut all);
        self.module(Module { file: file.to_owned(), parent, folder, ..Module::default() }, &all)
    }

    /// Adds a module, and reads its tokens.
    fn module(&mut self, module: Module, tokens: &[Token]) -> Result<usize, String> {
        let index = self.modules.len();
        self.modules.push(module);
        let mut is_public = false;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let is_top = token.depth == tokens[0].depth;
            at += 1;
            let was_public = std::mem::replace(&mut is_public, token.text == "pub");
            match token.text.as_str() {
                "#" => {
                    let is_inner = text(tokens, at) == "!";
                    at += usize::from(is_inner);
                    let end = find(tokens, at, &["]"]);
                    let words: Vec<&str> =
                        tokens[at..end].iter().map(|t| t.text.as_str()).collect();
                    let words = words.concat();
                    let is_test = words == "[cfg(test)" || words.starts_with("[cfg(all(test,");
                    match is_test {
                        true if is_inner => break,
                        true => at = end + 1 + length(&tokens[end + 1..]),
                        false if words.starts_with("[doc") => at = end + 1,
                        false => {}
                    }
                }
                "pub" if text(tokens, at) == "(" => at = find(tokens, at, &[")"]) + 1,
                "'" => at += 1,
                // `use<'a>` bounds a type.
                "use" if text(tokens, at) != "<" => {
                    let end = find(tokens, at, &[";"]);
                    self.bring(index, &tokens[at..end], &[], was_public);
                    at = end;
                }
                "mod" if is_top => {
                    let name = text(tokens, at).to_owned();
                    at += 1;
                    let Module { file, folder, .. } = &self.modules[index];
                    let (parent, folder) = (Some(index), format!("{folder}/{name}"));
                    let child = if text(tokens, at) == "{" {
                        let end = find(tokens, at, &["}"]);
                        let (file, inside) = (file.clone(), &tokens[at + 1..end]);
                        at = end;
                        self.module(Module { file, parent, folder, ..Module::default() }, inside)?
                    } else {
                        let files = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
                        match files.iter().find(|file| self.texts.contains_key(*file)) {
                            Some(file) => self.add(file, parent, folder)?,
                            // Only tests have an attribute `path`. Its file is left out.
                            None => self.module(Module { parent, ..Module::default() }, &[])?,
                        }
                    };
                    self.modules[index].children.insert(name, child);
                }
                word if is_name(word) => {
                    let module = &mut self.modules[index];
                    if is_top && ITEMS.contains(&word) {
                        let name = text(tokens, at + usize::from(text(tokens, at) == "!"));
                        module.items.insert(name.to_owned());
                    }
                    let mut path = vec![word.to_owned()];
                    while text(tokens, at) == ":"
                        && text(tokens, at + 1) == ":"
                        && is_name(text(tokens, at + 2))
                    {
                        path.push(text(tokens, at + 2).to_owned());
                        at += 3;
                    }
                    module.words.extend(path.iter().cloned());
                    if path.len() > 1 {
                        module.paths.entry(path).or_insert(token.line);
                    }
                }
                _ => {}
            }
        }
        Ok(index)
    }

    /// Notes what a `use` brings in, from the tokens behind the path `before`.
    fn bring(&mut self, module: usize, tokens: &[Token], before: &[String], is_public: bool) {
        let Some(Token { depth, .. }) = tokens.first() else { return };
        for part in tokens.split(|token| token.text == "," && token.depth == *depth) {
            let mut path = before.to_vec();
            let line = part.iter().map(|token| token.line).max().unwrap_or(0);
            for (at, token) in part.iter().enumerate() {
                match token.text.as_str() {
                    "{" => {
                        let inside = &part[at + 1..find(part, at, &["}"])];
                        self.bring(module, inside, &path, is_public);
                        break;
                    }
                    "self" if !path.is_empty() => {}
                    name if is_name(name) => path.push(name.to_owned()),
                    ":" => continue,
                    _ => {}
                }
                let alias = match (token.text.as_str(), text(part, at + 1)) {
                    ("*", _) => "",
                    (_, "as") => text(part, at + 2),
                    (_, "") => path.last().map_or("", String::as_str),
                    _ => continue,
                };
                let (path, alias) = (path.clone(), alias.to_owned());
                self.modules[module].uses.push(Use { path, alias, is_public, line });
                break;
            }
        }
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (index, module) in self.modules.iter().enumerate() {
            let from = imports.entry(module.file.clone()).or_default();
            let is_used = |leaf: &&Use| !leaf.is_public || module.words.contains(&leaf.alias);
            let uses = module.uses.iter().filter(is_used).map(|leaf| (&leaf.path, leaf.line));
            let paths = module.paths.iter().map(|(path, line)| (path, *line));
            for (path, line) in uses.chain(paths) {
                let (Place::Module(to) | Place::Item(to)) = match self.follow(index, path, 0) {
                    Some(place) => place,
                    None => continue,
                };
                let to = &self.modules[to].file;
                if *to != module.file && !to.is_empty() {
                    from.entry(to.clone()).or_insert(line);
                }
            }
        }
        imports
    }

    /// What a path names in a module. `None` for a path of another crate.
    fn follow(&self, module: usize, path: &[String], depth: usize) -> Option<Place> {
        let (first, rest) = path.split_first()?;
        let mut place = match first.as_str() {
            "crate" => Place::Module(0),
            "self" => Place::Module(module),
            "super" => Place::Module(self.modules[module].parent?),
            name => self.look_up(module, name, depth)?,
        };
        for name in rest {
            let Place::Module(module) = place else { break };
            place = match name.as_str() {
                "super" => Place::Module(self.modules[module].parent?),
                // An item that a macro defines is unknown here, so its module stands for it.
                name => self.look_up(module, name, depth).unwrap_or(Place::Item(module)),
            };
        }
        Some(place)
    }

    fn look_up(&self, at: usize, name: &str, depth: usize) -> Option<Place> {
        let module = &self.modules[at];
        if let Some(&child) = module.children.get(name) {
            return Some(Place::Module(child));
        }
        if module.items.contains(name) {
            return Some(Place::Item(at));
        }
        if depth == DEPTH_MAX {
            return None;
        }
        // A `use name;` would look for itself.
        let named = |leaf: &&Use| leaf.alias == name && leaf.path != [name];
        if let Some(leaf) = module.uses.iter().find(named) {
            return self.follow(at, &leaf.path, depth + 1);
        }
        let globs = module.uses.iter().filter(|leaf| leaf.alias.is_empty() && leaf.path[0] != name);
        globs.into_iter().find_map(|leaf| match self.follow(at, &leaf.path, depth + 1)? {
            Place::Module(target) if target != at => self.look_up(target, name, depth + 1),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let texts = files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect();
        let package = Package { roots: vec!["a/lib.rs".to_owned()], ..Package::default() };
        let found = check(&[package], &texts).unwrap();
        let lines = found.into_iter().map(|f| format!("{}:{}: {}", f.path, f.line, f.what));
        lines
            .map(|line| line.replace(": move what both sides need to a file of its own", ""))
            .collect()
    }

    #[test]
    fn files_that_import_each_other_through_a_third_one_are_a_circle() {
        let mut files = vec![
            ("a/lib.rs", "mod one;\nmod two;\nmod three;"),
            ("a/one.rs", "use crate::two::{Two as Three, self};\npub struct One(Two);"),
            ("a/two/mod.rs", "pub struct Two;\nfn f() { super::three::g(); }"),
            ("a/three.rs", "//!\nuse super::one::*;\npub fn g() {}"),
        ];
        let expected = "a/one.rs:1: files import each other (a/one.rs:1, a/three.rs:2, a/two/mod.rs:2). \
            a/one.rs a/three.rs a/two/mod.rs";
        assert_eq!(found(&files), [expected]);
        files.push((KEPT, "# Why.\na/one.rs a/three.rs a/two/mod.rs # So.\n"));
        assert_eq!(found(&files), [""; 0]);
        files[3].1 = "pub fn g() {}";
        assert_eq!(found(&files), [format!("{KEPT}:2: there is no such circle: remove it")]);
    }

    #[test]
    fn a_glob_of_the_parent_is_an_import_and_a_declaration_is_none() {
        let child = ("a/child.rs", "use super::*;\npub struct Child(Parent);");
        let files = [("a/lib.rs", "mod child;\npub struct Parent;"), child];
        assert_eq!(found(&files), [""; 0]);
        let parent = "mod child;\npub struct Parent;\nfn f(_: child::Child) {}";
        assert_eq!(found(&[("a/lib.rs", parent), child]).len(), 1);
    }

    #[test]
    fn a_reexport_stands_for_the_file_behind_it() {
        let root =
            ("a/lib.rs", "mod low;\nmod high;\npub use low::Low;\npub(crate) use high::High;");
        let high = ("a/high.rs", "use crate::Low;\npub struct High(Low);");
        assert_eq!(found(&[root, high, ("a/low.rs", "pub struct Low;")]), [""; 0]);
        let low = ("a/low.rs", "pub struct Low(Option<Box<crate::High>>);");
        assert_eq!(found(&[root, high, low]).len(), 1);
    }

    #[test]
    fn imports_of_tests_make_no_circle() {
        let two = "pub struct Two;\n#[cfg(test)]\nuse crate::one::One;\n#[cfg(all(test, loom))]\nmod tests {\n\
            use super::*;\nfn f(_: crate::one::One) {}\n}\n\
            impl Two { #[cfg(test)] fn f<A, B: Fn() -> A>(_: crate::one::One) {} }\n\
            struct Three { #[cfg(test)] one: Vec<crate::one::One, ()>, two: Two }\n";
        let files = |two| {
            [
                ("a/lib.rs", "mod one;\nmod two;"),
                ("a/one.rs", "use crate::two::Two;\npub struct One;"),
                ("a/two.rs", two),
            ]
        };
        assert_eq!(found(&files(two)), [""; 0]);
        assert_eq!(found(&files("#[cfg(not(test))] use crate::one::One;")).len(), 1);
        assert_eq!(found(&files("#![cfg(test)]\nuse crate::one::One;")), [""; 0]);
    }
}
