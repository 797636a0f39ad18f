//! The settings by name: tables from which programs make flags, scenarios make keys, and
//! experiments make loops.

use std::fmt;

/// One setting with its name.
pub struct Setting {
    /// Its name, as in `--set pause=2us`.
    pub name: &'static str,
    /// One line on what it does, with its source.
    pub help: &'static str,
    /// The possible values, as text that follows "use".
    pub expected: fn() -> String,
    /// Values besides the default under which all guarantees must hold, too: the other position of
    /// a switch, the extremes of a number. Empty where no other value is tried.
    pub tries: &'static [&'static str],
    /// In a list of all settings this setting and the next ones of its table stand behind the
    /// setting of this name. `None`: behind the one before it in its table.
    pub behind: Option<&'static str>,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Setting").field(&self.name).finish()
    }
}

/// Settings that users change by name. [`settings!`](crate::settings) implements this trait.
pub trait NamedSettings {
    /// The settings that a user may change.
    fn table(&self) -> &'static [Setting];

    /// The value of the setting of this name, as text that [`set`](NamedSettings::set) takes.
    /// `None`: the table has no such setting.
    fn value(&self, name: &str) -> Option<String>;

    /// Sets the setting of this name to the value of `text`. Returns whether the setting can have
    /// this value. `None`: the table has no such setting.
    fn set(&mut self, name: &str, text: &str) -> Option<bool>;
}

/// Declares a type of settings with its defaults and its table of names. A protocol brings its own
/// settings in this way. Each entry has this form, with a comma or a semicolon where one stands
/// here:
///
/// ```text
/// /// documentation
/// field: Type = default, "name" [least] behind "other" "help" ["a value to try"];
/// ```
///
/// `[least]` is the lower bound of a number, or of a time in nanoseconds. `behind` is as in
/// [`Setting::behind`]. Fields without a name follow `@unnamed`; users do not set them.
#[macro_export]
macro_rules! settings {
    (
        $(#[$doc:meta])* $of:ident
        $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr, $name:literal
            $([$least:literal])? $(behind $behind:literal)? $help:literal [$($try:literal),*];)*
        @unnamed
        $($(#[$hidden_doc:meta])* $hidden:ident: $hidden_type:ty = $hidden_default:expr;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $of {
            $($(#[$field_doc])* pub $field: $type,)*
            $($(#[$hidden_doc])* pub $hidden: $hidden_type,)*
        }

        impl Default for $of {
            fn default() -> Self {
                $of { $($field: $default,)* $($hidden: $hidden_default,)* }
            }
        }

        impl $of {
            /// The settings that a user may change, by name.
            pub const TABLE: &'static [$crate::Setting] = &[$($crate::Setting {
                name: $name,
                help: $help,
                expected: || <$type as $crate::SettingValue>::expected(0 $(+ $least)?),
                tries: &[$($try),*],
                behind: [$(Some($behind),)? None][0],
            }),*];
        }

        impl $crate::NamedSettings for $of {
            fn table(&self) -> &'static [$crate::Setting] {
                Self::TABLE
            }

            fn value(&self, name: &str) -> Option<String> {
                match name {
                    $($name => Some($crate::SettingValue::show(&self.$field)),)*
                    _ => None,
                }
            }

            fn set(&mut self, name: &str, text: &str) -> Option<bool> {
                match name {
                    $($name => {
                        let value = $crate::SettingValue::parse(text, 0 $(+ $least)?);
                        let is_one = value.is_some();
                        value.into_iter().for_each(|value| self.$field = value);
                        Some(is_one)
                    })*
                    _ => None,
                }
            }
        }
    };
}
