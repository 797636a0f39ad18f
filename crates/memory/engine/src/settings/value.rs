//! Values of settings as text.

use std::time::Duration;

use super::{Release, ReplacementChoice};

/// A type of settings. `least` is the lower bound of types with an order: a number, or nanoseconds.
pub trait SettingValue: Sized {
    /// Reads the value of `text`.
    fn parse(text: &str, least: u64) -> Option<Self>;
    /// The shortest text of this value.
    fn show(&self) -> String;
    /// The possible values, as text that follows "use".
    fn expected(least: u64) -> String;
}

const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

impl SettingValue for Duration {
    fn parse(text: &str, least: u64) -> Option<Self> {
        latchwork_units::time(text, latchwork_units::TimeUnit::Seconds)
            .filter(|duration| duration.as_nanos() >= u128::from(least))
    }

    fn show(&self) -> String {
        let nanos = self.as_nanos();
        let fits = |unit: &&(&str, u64)| nanos.is_multiple_of(u128::from(unit.1));
        let (name, unit) = UNITS.iter().find(fits).expect("nanoseconds always fit");
        if nanos == 0 { "0".to_owned() } else { format!("{}{name}", nanos / u128::from(*unit)) }
    }

    fn expected(least: u64) -> String {
        let least = Duration::from_nanos(least);
        let bound =
            if least.is_zero() { String::new() } else { format!(", from {}", least.show()) };
        format!("a time such as 500ns, 20us, 1ms or 10, which is in seconds{bound}")
    }
}

impl SettingValue for bool {
    fn parse(text: &str, _least: u64) -> Option<Self> {
        match text {
            "on" | "true" => Some(true),
            "off" | "false" => Some(false),
            _ => None,
        }
    }

    fn show(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }

    fn expected(_least: u64) -> String {
        "on or off".to_owned()
    }
}

macro_rules! whole_numbers {
    ($($number:ty),*) => {
        $(impl SettingValue for $number {
            fn parse(text: &str, least: u64) -> Option<Self> {
                text.parse().ok().filter(|number| *number as u64 >= least)
            }

            fn show(&self) -> String {
                self.to_string()
            }

            fn expected(least: u64) -> String {
                // No input reaches the largest number of 64 bits, so the text omits that bound.
                let bound = match <$number>::MAX as u64 {
                    u64::MAX => String::new(),
                    most => format!(" to {most}"),
                };
                format!("a whole number from {least}{bound}")
            }
        })*
    };
}

whole_numbers!(u8, u32, usize);

/// Implements [`SettingValue`] for enums of a few words.
#[macro_export]
macro_rules! setting_words {
    ($($of:ty: $($value:ident $word:literal),+;)*) => {
        $(impl $crate::SettingValue for $of {
            fn parse(text: &str, _least: u64) -> Option<Self> {
                match text {
                    $($word => Some(<$of>::$value),)+
                    _ => None,
                }
            }

            fn show(&self) -> String {
                match self {
                    $(<$of>::$value => $word,)+
                }
                .to_owned()
            }

            fn expected(_least: u64) -> String {
                [$($word),+].join(" or ")
            }
        })*
    };
}

crate::setting_words! {
    Release: Lazy "lazy", Adaptive "adaptive";
    ReplacementChoice: Epoch "epoch", Lru "lru";
}

/// An optional bound.
impl<T: SettingValue> SettingValue for Option<T> {
    fn parse(text: &str, least: u64) -> Option<Self> {
        if text == "inf" { Some(None) } else { T::parse(text, least).map(Some) }
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "inf".to_owned(), SettingValue::show)
    }

    fn expected(least: u64) -> String {
        format!("{}, or inf", T::expected(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown_in_the_largest_unit_that_fits() {
        for (text, nanos) in [
            ("0", 0),
            ("500ns", 500),
            ("2us", 2_000),
            ("1500us", 1_500_000),
            ("10s", 10_000_000_000),
        ] {
            let duration = Duration::parse(text, 0).expect(text);
            assert_eq!((duration.as_nanos(), duration.show().as_str()), (nanos, text));
        }
        for (text, shown) in [("10", "10s"), ("0.5", "500ms"), ("1.5us", "1500ns"), ("2m", "120s")]
        {
            assert_eq!(Duration::parse(text, 0).expect(text).show(), shown);
        }
        for wrong in ["", "us", "-1us", "1 us", "2d", "99999999999999999999s"] {
            assert_eq!(Duration::parse(wrong, 0), None, "{wrong}");
        }
        assert_eq!(Duration::parse("999ns", 1_000), None);
        assert!(Duration::expected(1_000).ends_with("from 1us"));
    }

    #[test]
    fn a_bound_may_be_missing() {
        assert_eq!(Option::<u32>::parse("inf", 0), Some(None));
        assert_eq!(Option::<u32>::parse("0", 1), None);
        assert_eq!(Some(256u32).show(), "256");
        assert_eq!(None::<u32>.show(), "inf");
    }
}
