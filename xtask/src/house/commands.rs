//! Command lines, read from clap's derive attributes.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Fields, Item, Meta, Token, Type};

/// A type that derives `Parser`, `Args` or `Subcommand`.
#[derive(Debug)]
pub(crate) struct CommandType {
    pub(crate) line: usize,
    pub(crate) name: String,
    /// Whether the type is the command line of a program.
    pub(crate) is_program: bool,
    /// The program's name, where an attribute gives one.
    pub(crate) program: Option<String>,
    pub(crate) fields: Vec<Field>,
    /// Subcommands: fields of each variant.
    pub(crate) variants: Vec<(String, Vec<Field>)>,
}

/// A field of such a type.
#[derive(Debug)]
pub(crate) enum Field {
    Flag(Flag),
    /// The flags of another type, by its name.
    Flatten(String),
    /// Subcommands in another type, by its name.
    Subcommand(String),
}

/// A flag with a long name.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    pub(crate) line: usize,
    pub(crate) long: String,
    /// Other names that `--help` shows.
    pub(crate) aliases: Vec<String>,
    pub(crate) is_hidden: bool,
    /// Whether subcommands have it too.
    pub(crate) is_global: bool,
    /// Its documentation, in one line.
    pub(crate) doc: String,
}

/// Reads an item, if it derives one of these traits.
pub(crate) fn read(item: &Item) -> Option<CommandType> {
    let (attributes, ident) = match item {
        Item::Struct(item) => (&item.attrs, &item.ident),
        Item::Enum(item) => (&item.attrs, &item.ident),
        _ => return None,
    };
    let derives = derives(attributes);
    let has = |name: &str| derives.iter().any(|derive| derive == name);
    if !(has("Parser") || has("Args") || has("Subcommand")) {
        return None;
    }
    let settings = Settings::read(attributes);
    let mut command = CommandType {
        line: ident.span().start().line,
        name: ident.to_string(),
        // A type without a binary's name parses lines that are not command lines.
        is_program: has("Parser") && !settings.is_set("no_binary_name"),
        program: settings.text("name"),
        fields: Vec::new(),
        variants: Vec::new(),
    };
    match item {
        Item::Struct(item) => command.fields = read_fields(&item.fields),
        Item::Enum(item) => {
            for variant in &item.variants {
                let settings = Settings::read(&variant.attrs);
                let fields = read_fields(&variant.fields);
                if !settings.is_set("hide") {
                    command.variants.push((variant.ident.to_string(), fields));
                }
            }
        }
        _ => {}
    }
    Some(command)
}

fn derives(attributes: &[Attribute]) -> Vec<String> {
    let mut names = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let paths = Punctuated::<syn::Path, Token![,]>::parse_terminated;
        for path in attribute.parse_args_with(paths).into_iter().flatten() {
            names.extend(path.segments.last().map(|segment| segment.ident.to_string()));
        }
    }
    names
}

fn read_fields(fields: &Fields) -> Vec<Field> {
    let mut found = Vec::new();
    for field in fields {
        let settings = Settings::read(&field.attrs);
        let Some(name) = &field.ident else {
            // A variant that wraps one type has the flags of that type.
            found.extend(type_name(&field.ty).map(Field::Flatten));
            continue;
        };
        if settings.is_set("flatten") {
            found.extend(type_name(&field.ty).map(Field::Flatten));
        } else if settings.is_set("subcommand") {
            found.extend(type_name(&field.ty).map(Field::Subcommand));
        } else if settings.is_set("long") {
            let kebab = name.to_string().trim_start_matches("r#").replace('_', "-");
            found.push(Field::Flag(Flag {
                line: name.span().start().line,
                long: settings.text("long").unwrap_or(kebab),
                aliases: settings.texts("visible_alias"),
                is_hidden: settings.is_set("hide"),
                is_global: settings.is_set("global"),
                doc: doc(&field.attrs),
            }));
        }
    }
    found
}

/// The last name in a type: `Flags` in `Option<Box<a::Flags>>`.
fn type_name(of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last()?;
    if let syn::PathArguments::AngleBracketed(inner) = &last.arguments {
        for argument in &inner.args {
            if let syn::GenericArgument::Type(inner) = argument {
                return type_name(inner);
            }
        }
    }
    Some(last.ident.to_string())
}

fn doc(attributes: &[Attribute]) -> String {
    let mut words = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(pair) = &attribute.meta {
            words.extend(literal(&pair.value).map(|text| text.trim().to_owned()));
        }
    }
    words.join(" ").trim().to_owned()
}

fn literal(expression: &Expr) -> Option<String> {
    let Expr::Lit(literal) = expression else { return None };
    let syn::Lit::Str(text) = &literal.lit else { return None };
    Some(text.value())
}

/// Arguments of the attributes `arg`, `command` and `clap`.
struct Settings(Vec<Expr>);

impl Settings {
    fn read(attributes: &[Attribute]) -> Settings {
        let mut all = Vec::new();
        for attribute in attributes {
            if ["arg", "command", "clap"].iter().any(|name| attribute.path().is_ident(name)) {
                let list = Punctuated::<Expr, Token![,]>::parse_terminated;
                all.extend(attribute.parse_args_with(list).into_iter().flatten());
            }
        }
        Settings(all)
    }

    /// Whether the setting is present, and not `= false`.
    fn is_set(&self, name: &str) -> bool {
        self.0.iter().any(|setting| match setting {
            Expr::Path(path) => path.path.is_ident(name),
            Expr::Assign(pair) => is_name(&pair.left, name) && !is_false(&pair.right),
            Expr::Call(call) => {
                is_name(&call.func, name) && !call.args.first().is_some_and(is_false)
            }
            _ => false,
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.texts(name).into_iter().next()
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter_map(|setting| match setting {
            Expr::Assign(pair) if is_name(&pair.left, name) => literal(&pair.right),
            Expr::Call(call) if is_name(&call.func, name) => call.args.first().and_then(literal),
            _ => None,
        });
        values.collect()
    }
}

fn is_name(expression: &Expr, name: &str) -> bool {
    matches!(expression, Expr::Path(path) if path.path.is_ident(name))
}

fn is_false(expression: &Expr) -> bool {
    let Expr::Lit(literal) = expression else { return false };
    matches!(&literal.lit, syn::Lit::Bool(value) if !value.value)
}
