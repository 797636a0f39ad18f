//! Parses one Rust file and reduces it to its [`Facts`].

use std::collections::HashSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, UseTree, Visibility};

use super::attributes::{self, is_test_function, is_test_only, text_of};
use super::commands;
use super::facts::{Declared, Facts, Module, PublicItem, UseLeaf, UseLine};
use super::scan;
use super::tokens;

/// Parses the text of a file.
pub(crate) fn parse(text: &str) -> syn::Result<Facts> {
    let found = scan::scan(text);
    let stream: TokenStream = text.parse()?;
    let file: syn::File = syn::parse2(stream.clone())?;
    let mut reader = Reader { facts: Facts::default(), stack: vec![0], test_depth: 0 };
    reader.facts.comments = found.comments;
    reader.facts.code = found.code;
    reader.facts.modules.push(Module::default());
    if file.attrs.iter().any(is_test_only) {
        reader.facts.modules[0].is_test = true;
        reader.facts.test_lines.push((1, usize::MAX));
    }
    reader.visit_file(&file);
    let mut facts = reader.facts;
    tokens::read(stream, &mut facts);
    Ok(facts)
}

/// Whether an alias has the name of the type that it stands for, so that both count as one type.
fn is_same_name(alias: &syn::ItemType) -> bool {
    let syn::Type::Path(path) = &*alias.ty else { return false };
    path.path.segments.last().is_some_and(|segment| segment.ident == alias.ident)
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

struct Reader {
    facts: Facts,
    /// Indexes of the modules around the current item.
    stack: Vec<usize>,
    test_depth: usize,
}

impl Reader {
    fn module(&mut self) -> &mut Module {
        let at = self.stack[self.stack.len() - 1];
        &mut self.facts.modules[at]
    }

    fn declare(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        self.module().items.insert(name);
    }

    fn public(&mut self, ident: &syn::Ident, owner: Option<String>, is_type: bool) {
        if self.test_depth == 0 {
            let (line, name) = (ident.span().start().line, ident.to_string());
            self.facts.items.push(PublicItem { line, name, owner, is_type });
        }
    }

    fn surface(&mut self, tokens: impl ToTokens) {
        tokens::identifiers(tokens.to_token_stream(), &mut self.facts.surface);
    }

    fn path(&mut self, segments: Vec<String>, line: usize) {
        if segments.len() > 1 {
            self.module().paths.entry(segments).or_insert(line);
        }
    }

    /// Notes the public names of a declaration, and the identifiers in its public parts.
    fn publish(&mut self, item: &Item) {
        match item {
            Item::Const(i) if is_public(&i.vis) => {
                self.public(&i.ident, None, false);
                self.surface(&i.ty);
            }
            Item::Static(i) if is_public(&i.vis) => {
                self.public(&i.ident, None, false);
                self.surface(&i.ty);
            }
            Item::Fn(i) if is_public(&i.vis) => {
                self.public(&i.sig.ident, None, false);
                self.signature(&i.sig);
            }
            Item::Struct(i) if is_public(&i.vis) => {
                self.public(&i.ident, None, true);
                self.surface(&i.generics);
                for field in i.fields.iter().filter(|field| is_public(&field.vis)) {
                    self.surface(&field.ty);
                }
            }
            Item::Union(i) if is_public(&i.vis) => self.public(&i.ident, None, true),
            Item::Enum(i) if is_public(&i.vis) => {
                self.public(&i.ident, None, true);
                self.surface(&i.generics);
                for field in i.variants.iter().flat_map(|variant| &variant.fields) {
                    self.surface(&field.ty);
                }
            }
            Item::Trait(i) if is_public(&i.vis) => {
                self.public(&i.ident, None, true);
                self.surface(&i.supertraits);
                for part in &i.items {
                    match part {
                        syn::TraitItem::Fn(f) => self.signature(&f.sig),
                        other => self.surface(other),
                    }
                }
            }
            Item::Type(i) if is_public(&i.vis) => {
                self.public(&i.ident, None, !is_same_name(i));
                self.surface(&i.ty);
            }
            Item::Macro(i) if i.attrs.iter().any(|a| a.path().is_ident("macro_export")) => {
                if let Some(ident) = &i.ident {
                    self.public(ident, None, false);
                }
                self.surface(&i.mac.tokens);
            }
            Item::Impl(i) => self.publish_impl(i),
            _ => {}
        }
    }

    fn publish_impl(&mut self, item: &syn::ItemImpl) {
        if let Some((_, path, _)) = &item.trait_ {
            // Associated types and trait parameters are as public as the trait.
            self.surface(path);
            for part in &item.items {
                if let syn::ImplItem::Type(associated) = part {
                    self.surface(&associated.ty);
                }
            }
            return;
        }
        let owner = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
            _ => None,
        };
        for part in &item.items {
            match part {
                syn::ImplItem::Fn(f) if is_public(&f.vis) && !f.attrs.iter().any(is_test_only) => {
                    self.public(&f.sig.ident, owner.clone(), false);
                    self.signature(&f.sig);
                }
                syn::ImplItem::Const(c) if is_public(&c.vis) => {
                    self.public(&c.ident, owner.clone(), false);
                    self.surface(&c.ty);
                }
                _ => {}
            }
        }
    }

    fn signature(&mut self, signature: &syn::Signature) {
        self.surface(&signature.generics);
        self.surface(&signature.generics.where_clause);
        self.surface(&signature.output);
        for input in &signature.inputs {
            if let syn::FnArg::Typed(input) = input {
                self.surface(&input.ty);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let is_test = attributes::of(item).iter().any(is_test_only);
        if is_test {
            let span = item.span();
            self.facts.test_lines.push((span.start().line, span.end().line));
            self.test_depth += 1;
        }
        match item {
            Item::Const(i) => self.declare(&i.ident),
            Item::Enum(i) => self.declare(&i.ident),
            Item::Fn(i) => self.declare(&i.sig.ident),
            Item::Macro(i) => {
                if let Some(ident) = &i.ident {
                    self.declare(ident);
                }
            }
            Item::Static(i) => self.declare(&i.ident),
            Item::Struct(i) => self.declare(&i.ident),
            Item::Trait(i) => self.declare(&i.ident),
            Item::Type(i) => self.declare(&i.ident),
            Item::Union(i) => self.declare(&i.ident),
            _ => {}
        }
        self.publish(item);
        if self.test_depth == 0 {
            self.facts.commands.extend(commands::read(item));
        }
        visit::visit_item(self, item);
        if is_test {
            self.test_depth -= 1;
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let is_test = item.attrs.iter().any(is_test_only);
        if is_test {
            let span = item.span();
            self.facts.test_lines.push((span.start().line, span.end().line));
            self.test_depth += 1;
        }
        visit::visit_impl_item_fn(self, item);
        if is_test {
            self.test_depth -= 1;
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.attrs.iter().any(is_test_function) {
            let (line, name) = (item.sig.ident.span().start().line, item.sig.ident.to_string());
            self.facts.tests.push((line, name));
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_test = self.test_depth > 0;
        let name = item.ident.to_string();
        let Some((_, items)) = &item.content else {
            let path = text_of(&item.attrs, "path");
            self.module().declared.push(Declared { name, path, is_test });
            return;
        };
        let parent = self.stack.last().copied();
        self.facts.modules.push(Module { name, parent, is_test, ..Module::default() });
        self.stack.push(self.facts.modules.len() - 1);
        for inner in items {
            self.visit_item(inner);
        }
        self.stack.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves);
        let span = item.span();
        let root =
            leaves.first().and_then(|(path, _, _)| path.first().cloned()).unwrap_or_default();
        let (first, last) = (span.start().line, span.end().line);
        self.module().use_lines.push(UseLine { first, last, root, is_public });
        if !self.counts() {
            return;
        }
        for (path, alias, line) in leaves {
            self.module().uses.push(UseLeaf { line, path, alias, is_public });
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        // A `use` inside a function brings in names for paths, but the check of the order ignores
        // it.
        let lines = self.module().use_lines.len();
        visit::visit_block(self, block);
        self.module().use_lines.truncate(lines);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() && self.counts() {
            let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
            if segments.len() > 1 {
                self.path(segments, path.segments[0].ident.span().start().line);
            }
        }
        visit::visit_path(self, path);
    }

    fn visit_ident(&mut self, ident: &'ast syn::Ident) {
        if self.counts() {
            let word = ident.to_string();
            self.module().words.insert(word);
        }
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        visit::visit_path(self, &item.path);
        self.named_entry(item);
        if self.counts() {
            self.visit_path(&item.path);
            self.tokens(&item.tokens);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(&list.tokens);
        }
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

impl Reader {
    /// Whether the current item is compiled in the same builds as its module.
    fn counts(&self) -> bool {
        let module = self.stack[self.stack.len() - 1];
        self.test_depth == 0 || self.facts.modules[module].is_test
    }

    fn named_entry(&mut self, item: &syn::Macro) {
        let mut tokens = item.tokens.clone().into_iter();
        let (Some(TokenTree::Literal(text)), Some(TokenTree::Punct(colon))) =
            (tokens.next(), tokens.next())
        else {
            return;
        };
        let text = syn::parse_str::<syn::LitStr>(&text.to_string());
        if let (':', Ok(text), Some(name)) = (colon.as_char(), text, item.path.get_ident()) {
            self.facts.named_entries.push((name.to_string(), text.value()));
        }
    }

    /// Paths and words among tokens that have no syntax tree.
    fn tokens(&mut self, tokens: &TokenStream) {
        let mut words = HashSet::new();
        tokens::identifiers(tokens.clone(), &mut words);
        self.module().words.extend(words);
        let mut found = Vec::new();
        tokens::paths(tokens.clone(), &mut found);
        for (path, line) in found {
            self.path(path, line);
        }
    }
}

fn flatten(tree: &UseTree, at: &mut Vec<String>, into: &mut Vec<(Vec<String>, String, usize)>) {
    match tree {
        UseTree::Path(path) => {
            at.push(path.ident.to_string());
            flatten(&path.tree, at, into);
            at.pop();
        }
        UseTree::Name(name) => {
            let line = name.ident.span().start().line;
            let mut path = at.clone();
            if name.ident != "self" {
                path.push(name.ident.to_string());
            }
            let alias = path.last().cloned().unwrap_or_default();
            into.push((path, alias, line));
        }
        UseTree::Rename(rename) => {
            let line = rename.ident.span().start().line;
            let mut path = at.clone();
            if rename.ident != "self" {
                path.push(rename.ident.to_string());
            }
            into.push((path, rename.rename.to_string(), line));
        }
        UseTree::Glob(glob) => into.push((at.clone(), String::new(), glob.span().start().line)),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, at, into);
            }
        }
    }
}
