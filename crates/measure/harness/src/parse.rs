//! Parsers of values on a command line. An error says which values are valid.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use latchwork_units::{SizeUnit, TimeUnit};

/// Bytes of a mebibyte.
pub const MIB: u64 = 1 << 20;

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
/// The valid values.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("use a number above 0".to_owned()),
    }
}

/// A percentage, 0 to 100.
///
/// # Errors
/// The valid values.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("use a percentage from 0 to 100".to_owned()),
    }
}

/// `on` or `true`, and `off` or `false`.
///
/// # Errors
/// The valid values.
pub fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err("use on or off".to_owned()),
    }
}

/// A help text: how to write sizes and times.
pub const UNITS: &str = "Sizes: 512K, 256M, 4G, or KiB, MiB, GiB, as powers of 1024. Times: 500us, 20ms, 4s, 2m, 1h. A \
                         number without a unit has the one that the flag names.";

const TIME: &str = "a time such as 500ms, 4s or 2m";

/// A time above 0, up to a million seconds. A plain number is in seconds.
///
/// # Errors
/// The valid values.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match latchwork_units::time(text, TimeUnit::Seconds) {
        Some(time) if !time.is_zero() && time <= TIME_MAX => Ok(time),
        _ => {
            Err(format!("use {TIME}, or a number of seconds, above 0 and up to a million seconds"))
        }
    }
}

const TIME_MAX: Duration = Duration::from_secs(1_000_000);

/// As [`seconds`], but 0 is valid, too.
///
/// # Errors
/// The valid values.
pub fn seconds_or_none(text: &str) -> Result<Duration, String> {
    match latchwork_units::time(text, TimeUnit::Seconds) {
        Some(Duration::ZERO) => Ok(Duration::ZERO),
        _ => seconds(text),
    }
}

/// As [`seconds`]. The result is a number of seconds.
///
/// # Errors
/// The valid values.
pub fn seconds_f64(text: &str) -> Result<f64, String> {
    seconds(text).map(|time| time.as_secs_f64())
}

/// A time of whole microseconds. The result is their number, which is in `range`. A plain number is
/// in microseconds.
pub fn whole_micros(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| {
        let time = latchwork_units::time(text, TimeUnit::Microseconds);
        let whole = time.filter(|time| time.subsec_nanos() % 1000 == 0);
        let micros = whole.and_then(|time| u64::try_from(time.as_micros()).ok());
        micros.filter(|micros| range.contains(micros)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("use whole microseconds from {least} to {most}, as 50, 50us or 1ms")
        })
    }
}

/// A time above 0, up to 10,000 minutes. A plain number is in minutes.
///
/// # Errors
/// The valid values.
pub fn minutes(text: &str) -> Result<Duration, String> {
    let time = latchwork_units::time(text, TimeUnit::Minutes);
    time.filter(|time| !time.is_zero() && *time <= Duration::from_secs(600_000)).ok_or_else(|| {
        "use a number of minutes above 0, up to 10000, or a time such as 90s or 2h".to_owned()
    })
}

/// A size above 0; a plain number is in bytes.
///
/// # Errors
/// The valid values.
pub fn size(text: &str) -> Result<u64, String> {
    let size = latchwork_units::size(text, SizeUnit::B).filter(|bytes| *bytes > 0);
    size.ok_or_else(|| "use a size such as 512M or 4GiB, or a number of bytes, above 0".to_owned())
}

/// A size in bytes, in `range`.
pub fn bytes(
    range: RangeInclusive<usize>,
) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync {
    move |text| {
        let size = latchwork_units::size(text, SizeUnit::B).and_then(|size| size.try_into().ok());
        size.filter(|size| range.contains(size)).ok_or_else(|| {
            format!(
                "use a number of bytes from {} to {}, or a size as 2K",
                range.start(),
                range.end()
            )
        })
    }
}

/// A size of on-chip memory in bytes.
///
/// # Errors
/// The valid values.
pub fn chip_memory(text: &str) -> Result<u64, String> {
    let size = latchwork_units::size(text, SizeUnit::B);
    size.filter(|bytes| bytes.is_multiple_of(8) && *bytes <= 1 << 30)
        .ok_or_else(|| "use a multiple of 8 bytes up to 1GiB, or a size such as 256K".to_owned())
}

/// A size above 0. The result is in mebibytes, and a plain number is in mebibytes.
///
/// # Errors
/// The valid values.
pub fn mebibytes(text: &str) -> Result<f64, String> {
    // A plain number is parsed directly, so that a fraction such as 0.5 is valid.
    let size = text.parse().ok().or_else(|| {
        let bytes = latchwork_units::size(text, SizeUnit::MiB)?;
        Some(bytes as f64 / MIB as f64)
    });
    size.filter(|size| *size > 0.0 && size.is_finite())
        .ok_or_else(|| "use a number of MiB above 0, or a size such as 256M or 4GiB".to_owned())
}

/// A size above 0. The result is in bytes, and a plain number is in mebibytes.
///
/// # Errors
/// The valid values.
pub fn mebibytes_exact(text: &str) -> Result<u64, String> {
    let size = latchwork_units::size(text, SizeUnit::MiB).filter(|bytes| *bytes > 0);
    size.ok_or_else(|| "use a number of MiB above 0, or a size such as 512M or 4GiB".to_owned())
}

/// A size of whole mebibytes. The result is their number, which is in `range`. A plain number is in
/// mebibytes.
pub fn whole_mebibytes(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| {
        let size = latchwork_units::size(text, SizeUnit::MiB);
        let whole = size.filter(|bytes| bytes.is_multiple_of(MIB)).map(|bytes| bytes / MIB);
        whole.filter(|mebibytes| range.contains(mebibytes)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("use whole MiB from {least} to {most}, as 256, 256M or 4GiB")
        })
    }
}

/// An IP address.
///
/// # Errors
/// The valid values.
pub fn address(text: &str) -> Result<IpAddr, String> {
    let would_do = "use an IP address, as 10.0.0.1; names of hosts are not looked up";
    text.parse().map_err(|_| would_do.to_owned())
}

/// An IP address and a port.
///
/// # Errors
/// The valid values.
pub fn socket(text: &str) -> Result<SocketAddr, String> {
    let would_do = "use an IP address and a port, as 10.0.0.1:0; names of hosts are not looked up";
    text.parse().map_err(|_| would_do.to_owned())
}

/// The size of a line in bytes: a power of two from 512 to 65536.
///
/// # Errors
/// The valid values.
pub fn line_size(text: &str) -> Result<u32, String> {
    let size = latchwork_units::size(text, SizeUnit::B).and_then(|size| u32::try_from(size).ok());
    size.filter(|size| size.is_power_of_two() && (512..=65_536).contains(size))
        .ok_or_else(|| "use a power of two from 512 to 65536, as 2048 or 2K".to_owned())
}

/// An error of clap as one line: its first line and its hints. For an unknown argument without a
/// hint, the line refers to `--help`.
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
        assert_eq!((line_size("2048"), line_size("2K")), (Ok(2048), Ok(2048)));
        assert!(line_size("2000").is_err() && line_size("256").is_err());
    }

    #[test]
    fn a_plain_number_has_the_flags_unit_and_any_other_is_said() {
        let ms = Duration::from_millis;
        assert_eq!(
            [seconds("4"), seconds("4s"), seconds("4000ms")],
            [const { Ok(Duration::from_secs(4)) }; 3]
        );
        assert_eq!((seconds_or_none("0s"), minutes("0.5")), (Ok(Duration::ZERO), Ok(ms(30_000))));
        assert_eq!((minutes("30s"), seconds_f64("500ms")), (Ok(ms(30_000)), Ok(0.5)));
        assert_eq!((whole_micros(1..=50)("50"), whole_micros(1..=50)("0.05ms")), (Ok(50), Ok(50)));
        assert_eq!(
            (size("4096"), size("4K"), bytes(1..=4096)("4KiB")),
            (Ok(4096), Ok(4096), Ok(4096))
        );
        assert_eq!(
            (mebibytes("256"), mebibytes("256M"), mebibytes("512KiB")),
            (Ok(256.0), Ok(256.0), Ok(0.5))
        );
        assert_eq!(
            (whole_mebibytes(1..=4096)("64"), whole_mebibytes(1..=4096)("4G")),
            (Ok(64), Ok(4096))
        );
        for (told, would_do) in [
            (seconds("4 s").unwrap_err(), "4s"),
            (whole_micros(1..=50)("50ns").unwrap_err(), "50us"),
            (mebibytes("256MB").unwrap_err(), "256M"),
            (whole_mebibytes(1..=64)("1K").unwrap_err(), "from 1 to 64"),
        ] {
            assert!(told.contains(would_do), "{told}");
        }
    }
}
