//! Helpers that read attributes of an item.

use syn::{Attribute, Item, Meta};

/// Whether the attribute limits its item to test builds.
pub(crate) fn is_test_only(attribute: &Attribute) -> bool {
    fn holds(meta: &Meta) -> bool {
        match meta {
            Meta::Path(path) => path.is_ident("test"),
            Meta::List(list) if list.path.is_ident("all") => {
                let parts = syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated;
                list.parse_args_with(parts).is_ok_and(|parts| parts.iter().any(holds))
            }
            _ => false,
        }
    }
    let Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("cfg") && list.parse_args::<Meta>().is_ok_and(|meta| holds(&meta))
}

pub(crate) fn is_test_function(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "test")
}

/// Literal of an attribute `name = "text"`.
pub(crate) fn text_of(attributes: &[Attribute], name: &str) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(literal) = &pair.value else { return None };
        let syn::Lit::Str(text) = &literal.lit else { return None };
        pair.path.is_ident(name).then(|| text.value())
    })
}

/// All attributes of an item.
pub(crate) fn of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::TraitAlias(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}
