//! Parsers of values on a command line, and what is wrong with one in one line.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;

/// A whole number in `range`.
pub fn whole<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| match text.parse::<T>() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(format!("use a whole number from {} to {}", range.start(), range.end())),
    }
}

/// A finite number above 0.
///
/// # Errors
/// What would do.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("use a number above 0".to_owned()),
    }
}

/// A percentage, 0 to 100.
///
/// # Errors
/// What would do.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("use a percentage from 0 to 100".to_owned()),
    }
}

/// A number of seconds above 0, up to a million.
///
/// # Errors
/// What would do.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "use a number of seconds above 0, up to a million".to_owned();
    let seconds = positive(text).ok().filter(|seconds| *seconds <= 1e6).ok_or_else(wrong)?;
    Ok(Duration::from_secs_f64(seconds))
}

/// As [`seconds`], or 0.
///
/// # Errors
/// What would do.
pub fn seconds_or_none(text: &str) -> Result<Duration, String> {
    if text.parse() == Ok(0.0) { Ok(Duration::ZERO) } else { seconds(text) }
}

/// A duration: a whole number and its unit, above 0.
///
/// # Errors
/// What would do.
pub fn duration(text: &str) -> Result<Duration, String> {
    latchwork_selcc::parse_duration(text).map_err(|would_do| format!("use {would_do}"))
}

/// Bytes: a number with K, M, G or T behind it, powers of 1024, or nothing.
///
/// # Errors
/// What would do.
pub fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| "use a size such as 512M or 4G".to_owned())
}

/// An IP address.
///
/// # Errors
/// What would do.
pub fn address(text: &str) -> Result<IpAddr, String> {
    let would_do = "use an IP address, as 10.0.0.1; names of hosts are not looked up";
    text.parse().map_err(|_| would_do.to_owned())
}

/// An IP address and a port.
///
/// # Errors
/// What would do.
pub fn socket(text: &str) -> Result<SocketAddr, String> {
    let would_do = "use an IP address and a port, as 10.0.0.1:0; names of hosts are not looked up";
    text.parse().map_err(|_| would_do.to_owned())
}

/// Bytes of a global cache line.
///
/// # Errors
/// What would do.
pub fn line_size(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(size) if size.is_power_of_two() && (512..=65_536).contains(&size) => Ok(size),
        _ => Err("use a power of two from 512 to 65536".to_owned()),
    }
}

/// What is wrong with a command line, in one line: clap's first line and its hints; where it has none to offer for what it
/// does not know, that help tells what there is.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("the command line cannot be understood");
    let first = first.strip_prefix("error: ").unwrap_or(first);
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return "say what to do; --help tells what there is".to_owned();
        }
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<_> = lines.take_while(|line| line.starts_with(['-', '<'])).collect();
            return format!("{first} {}; --help tells more", missing.join(", "));
        }
        _ => {}
    }
    let mut hints: Vec<&str> = lines
        .filter_map(|line| {
            let possible = line.starts_with("[possible values");
            line.strip_prefix("tip: ").or(possible.then_some(line))
        })
        .collect();
    let unknown = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand);
    if unknown && hints.is_empty() {
        hints.push("--help tells which there are");
    }
    let separator = if hints.is_empty() { "" } else { "; " };
    format!("{first}{separator}{}", hints.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[arg(long)]
        _nodes: Option<u64>,
        #[arg(long, requires_all = ["_key", "_authority"])]
        _certificate: Option<String>,
        #[arg(long)]
        _key: Option<String>,
        #[arg(long)]
        _authority: Option<String>,
    }

    #[derive(Debug, clap::Parser)]
    struct Commands {
        #[command(subcommand)]
        _command: Command,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Command {
        Check { _file: String },
    }

    #[test]
    fn what_is_missing_is_named() {
        let parsed = <Cli as clap::Parser>::try_parse_from(["test", "--certificate", "c"]);
        let told = one_line(&parsed.expect_err("no key"));
        assert!(told.contains("provided: --key <KEY>, --authority <AUTHORITY>; "), "{told}");
        let told = |arguments: &[&str]| {
            one_line(&<Commands as clap::Parser>::try_parse_from(arguments).expect_err("missing"))
        };
        assert!(
            told(&["test", "check"]).contains("provided: <FILE>; "),
            "{}",
            told(&["test", "check"])
        );
        assert_eq!(told(&["test"]), "say what to do; --help tells what there is");
    }

    #[test]
    fn what_is_no_address_says_how_to_write_one() {
        assert!(socket("127.0.0.1:0").is_ok() && address("10.0.0.1").is_ok());
        for text in ["node1:7470", "127.0.0.1", ":7470"] {
            assert!(socket(text).unwrap_err().contains("as 10.0.0.1:0"), "{text}");
        }
        assert!(address("node1").unwrap_err().contains("as 10.0.0.1;"));
    }

    #[test]
    fn what_is_unknown_says_what_is_alike_or_where_to_look() {
        let told = |flag| {
            let error = <Cli as clap::Parser>::try_parse_from(["test", flag]).expect_err("no flag");
            one_line(&error)
        };
        assert!(
            told("--node").ends_with("a similar argument exists: '--nodes'"),
            "{}",
            told("--node")
        );
        let other = told("--colour");
        assert_eq!(other, "unexpected argument '--colour' found; --help tells which there are");
    }

    #[test]
    fn what_is_no_value_says_what_would_do() {
        assert_eq!(whole(1..=5)("5"), Ok(5));
        assert!(whole(1..=5)("6").unwrap_err().contains("from 1 to 5"));
        assert_eq!(percent("50"), Ok(50.0));
        for text in ["-1", "101", "x", "NaN"] {
            assert!(percent(text).unwrap_err().contains("0 to 100"), "{text}");
        }
        for text in ["0", "inf", "NaN", "", "-2"] {
            assert!(positive(text).is_err() && seconds(text).is_err(), "{text}");
        }
        assert_eq!(seconds_or_none("0"), Ok(Duration::ZERO));
        assert!(seconds("2e6").is_err());
        assert_eq!(line_size("2048"), Ok(2048));
        assert!(line_size("2000").is_err() && line_size("256").is_err());
    }
}
