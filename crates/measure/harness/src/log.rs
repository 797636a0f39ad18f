//! Logs: prints the `tracing` events of the libraries as lines on standard error.

use std::io;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

/// The valid values of `--log`, for error texts.
const EXPECTED: &str = "use off, error, warn, info, debug or trace, or levels of single crates before it, as in \
     latchwork_wal=info,warn";

/// The events to print: a level for all targets, and other levels for some targets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter(Targets);

impl Filter {
    /// Parses `LEVEL` or `TARGET=LEVEL,..,LEVEL`. A target is a crate or a module path, as log
    /// lines show it, and includes all paths that begin with it.
    pub(crate) fn parse(text: &str) -> Result<Filter, String> {
        let level = |text: &str| match text {
            "off" => Ok(LevelFilter::OFF),
            "error" => Ok(LevelFilter::ERROR),
            "warn" => Ok(LevelFilter::WARN),
            "info" => Ok(LevelFilter::INFO),
            "debug" => Ok(LevelFilter::DEBUG),
            "trace" => Ok(LevelFilter::TRACE),
            _ => Err(EXPECTED.to_owned()),
        };
        let mut targets = Targets::new().with_default(LevelFilter::WARN);
        for part in text.split(',') {
            targets = match part.split_once('=') {
                Some((target, of)) if !target.trim().is_empty() => {
                    targets.with_target(target.trim(), level(of.trim())?)
                }
                Some(_) => return Err(EXPECTED.to_owned()),
                None => targets.with_default(level(part.trim())?),
            };
        }
        Ok(Filter(targets))
    }
}

/// Installs the log for this process: each event that passes the filter becomes a line on standard
/// error with time, level, target and event.
pub(crate) fn install(filter: &Filter) {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        // Standard error may be closed.
        .log_internal_errors(false);
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter.0.clone()));
    // The call fails if a test in the same process has installed a subscriber before. The first one
    // stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_level_is_for_all_and_a_target_has_its_own() {
        let Filter(targets) = Filter::parse("latchwork_wal=debug, info").expect("a filter");
        assert!(targets.would_enable("latchwork_txn::recover", &Level::INFO));
        assert!(!targets.would_enable("latchwork_txn::recover", &Level::DEBUG));
        assert!(targets.would_enable("latchwork_wal::replay", &Level::DEBUG));
        let Filter(targets) = Filter::parse("latchwork_wal=off").expect("a filter");
        assert!(!targets.would_enable("latchwork_wal", &Level::ERROR));
        assert!(targets.would_enable("latchwork_txn", &Level::WARN), "the default stays");
    }

    #[test]
    fn what_is_no_level_is_refused_with_what_would_do() {
        for text in ["loud", "", "=info", "latchwork_wal=", "latchwork_wal=loud", "info,", "3"] {
            let error = Filter::parse(text).expect_err(text);
            assert!(error.contains("trace") && error.contains("latchwork_wal=info"), "{error}");
        }
    }
}
