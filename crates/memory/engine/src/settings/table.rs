//! The settings by name: one list from which programs make flags, scenarios make keys, and
//! experiments make loops.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use super::value::Value;
use super::{NodeSettings, Release, ReplacementChoice, Resend};

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
    get: fn(&NodeSettings) -> String,
    set: fn(&mut NodeSettings, &str) -> bool,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Setting").field(&self.name).finish()
    }
}

/// Why a setting cannot be set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SettingError {
    /// No setting has this name.
    #[error("there is no setting {name}: {known} are possible")]
    Unknown {
        /// The name.
        name: String,
        /// The names of all settings.
        known: String,
    },
    /// The setting cannot have this value.
    #[error("{name} cannot be {given:?}: use {expected}")]
    Value {
        /// The setting.
        name: &'static str,
        /// The given value.
        given: String,
        /// The possible values.
        expected: String,
    },
}

/// `name: field of Type [least], help, tries`.
macro_rules! setting {
    ($name:literal: $field:ident of $type:ty $([$least:literal])?, $help:literal, [$($try:literal),*]) => {{
        const LEAST: u64 = 0 $(+ $least)?;
        Setting {
            name: $name,
            help: $help,
            expected: || <$type as Value>::expected(LEAST),
            tries: &[$($try),*],
            get: |settings| settings.$field.show(),
            set: |settings, text| {
                let value = <$type as Value>::parse(text, LEAST);
                let is_one = value.is_some();
                value.into_iter().for_each(|value| settings.$field = value);
                is_one
            },
        }
    }};
}

impl NodeSettings {
    /// All settings that a user may change, by name.
    pub const TABLE: &'static [Setting] = &[
        setting!("deadline": deadline of Duration [1],
            "How long an access waits for a line before it fails", []),
        setting!("lapse": lapse of Duration,
            "How long local code may keep a line from a node that asked for it, before reservations lapse", ["0"]),
        setting!("lease": lease of Option<u32>,
            "Waiting local accesses (reads / workers + writes) that come before a node that asked for the line (SELCC 5.3.1)", ["0", "inf"]),
        setting!("resend": resend of Resend,
            "How pauses go on with every refusal: growing (doubled), or shrinking, C x RTT / N (SELCC 5.1.2)", ["growing"]),
        setting!("resend-factor": resend_factor of u32 [1],
            "C of shrinking pauses (SELCC 5.1.2)", []),
        setting!("round-trip": round_trip of Duration [1],
            "RTT of shrinking pauses: of an atomic (SELCC 5.1.2)", []),
        setting!("pause": pause of Duration [1],
            "The shortest pause after a refusal", []),
        setting!("pause-max": pause_max of Duration [1],
            "The longest pause", []),
        setting!("aging": aging of bool,
            "Refusals raise priorities, and the highest is served first (SELCC 5.3.2)", ["off"]),
        setting!("spin-windows": spin_windows of bool,
            "Readers that gave a line up for a refused writer hold off for a while (SELCC 5.3.2)", ["off"]),
        setting!("priority-matching": priority_matching of bool,
            "A starved writer keeps its line from readers of lower priority (SELCC 5.3.2)", ["off"]),
        setting!("starved-at": starved_at of u8 [1],
            "A writer that was refused so often is starved (SELCC 5.3.2)", ["1"]),
        setting!("hold-off": hold_off of Duration,
            "How long readers hold off for each step of the writer's priority (SELCC 5.3.2), or a node that released a line for others at the first step, doubled with each", []),
        setting!("hold-off-max": hold_off_max of Duration,
            "The longest time that they hold off", []),
        setting!("serve-interval": serve_interval of Duration [1],
            "How often requests that local code keeps waiting are tried again by a worker with nothing else to do", []),
        setting!("evict-share": evict_share of usize [1],
            "Eviction keeps one frame in this many free, and at most eight times evict-batch (SELCC 5.2.1)", []),
        setting!("evict-batch": evict_batch of usize [1],
            "Lines that one sweep evicts at most, ahead of need; 1: one at a time, when an access needs the frame (SELCC 5.2.1)", ["1"]),
        setting!("replacement": replacement of ReplacementChoice,
            "How lines are chosen that leave the cache: by epochs of last use (ScaleStore 4.1) or by exact order (SELCC 5.2)", ["lru"]),
        setting!("evict-sample": evict_sample of usize [1],
            "Frames that replacement by epochs looks at for each that is wanted, and 16 at least (ScaleStore 4.2)", ["32"]),
        setting!("epoch-share": epoch_share of usize [1],
            "A new epoch of replacement begins when one frame in this many was replaced (ScaleStore 4.1)", []),
        setting!("write-back-ring": write_back_ring of usize,
            "Evicted lines that a worker writes back to one memory node at a time while their frames are free already; 0: none (SELCC 5.2.1)", ["0", "1"]),
        setting!("lock-share": lock_share of usize [1],
            "Transactions lock one frame in this many at most", []),
        setting!("dirty-bounds": dirty_bounds of bool,
            "Only what changed of a line is written back (SELCC 5.2.2)", ["off"]),
        setting!("forwarding": forwarding of bool,
            "An exclusive holder that is asked hands the line over; off: it writes back and releases (SELCC 4.4.1)", ["off"]),
        setting!("release": release of Release,
            "lazy: lines stay until they are asked for; adaptive: those go early that others keep taking away", ["adaptive"]),
        setting!("linger": linger of usize,
            "With adaptive release, lines that a worker obtained last and does not give back yet", ["0"]),
        setting!("takeover": takeover of bool,
            "Whether a writer takes shared lines over with one operation, by pledges, instead of a release of each sharer (SELCC 4.4.3)", ["off"]),
        setting!("gaps-max": gaps_max of usize [1],
            "Messages of one worker that may be overtaken and still count", []),
    ];

    /// The setting of this name.
    pub fn named(name: &str) -> Option<&'static Setting> {
        Self::TABLE.iter().find(|setting| setting.name == name)
    }

    /// Sets the setting of this name to the value of `text`.
    ///
    /// # Errors
    /// One line, when no such setting exists or the setting cannot have this value.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let Some(setting) = Self::named(name) else {
            let known: Vec<_> = Self::TABLE.iter().map(|setting| setting.name).collect();
            return Err(SettingError::Unknown { name: name.to_owned(), known: known.join(", ") });
        };
        if (setting.set)(self, text) {
            return Ok(());
        }
        let (given, expected) = (text.to_owned(), (setting.expected)());
        Err(SettingError::Value { name: setting.name, given, expected })
    }
}

impl Setting {
    /// The value of the setting in `settings`, as text that [`NodeSettings::set`] takes.
    pub fn value(&self, settings: &NodeSettings) -> String {
        (self.get)(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields that users do not set.
    const NOT_BY_NAME: [&str; 3] = ["costs", "drops_repeats", "heeds_the_gone"];

    #[test]
    fn every_field_has_a_name() {
        let shown = format!("{:#?}", NodeSettings::default());
        let field = |line: &str| {
            line.strip_prefix("    ")?.split_once(':').map(|(name, _)| name.to_owned())
        };
        let mut fields: Vec<_> =
            shown.lines().filter_map(field).filter(|name| !name.starts_with(' ')).collect();
        fields.retain(|name| !NOT_BY_NAME.contains(&name.as_str()));
        let names: Vec<_> =
            NodeSettings::TABLE.iter().map(|setting| setting.name.replace('-', "_")).collect();
        assert_eq!(names, fields, "the table has the fields of Settings, in their order");
    }

    #[test]
    fn values_come_back_and_change_one_field_each() {
        let default = NodeSettings::default();
        for setting in NodeSettings::TABLE {
            let mut same = default.clone();
            same.set(setting.name, &setting.value(&default)).expect("its own default");
            assert_eq!(format!("{same:?}"), format!("{default:?}"), "{}", setting.name);
            for text in setting.tries {
                let mut other = default.clone();
                other.set(setting.name, text).expect("a value to try");
                assert_ne!(setting.value(&other), setting.value(&default), "{}", setting.name);
                other.set(setting.name, &setting.value(&default)).expect("its default");
                assert_eq!(format!("{other:?}"), format!("{default:?}"), "{}", setting.name);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_one_line_with_what_would_do() {
        let mut settings = NodeSettings::default();
        let line = settings.set("pauses", "2us").unwrap_err().to_string();
        assert!(line.contains("pauses") && line.contains("pause-max"), "{line}");
        for (name, text, would_do) in
            [("pause", "2d", "20us"), ("evict-batch", "0", "from 1"), ("deadline", "0", "from 1ns")]
        {
            let line = settings.set(name, text).unwrap_err().to_string();
            assert!(line.contains(name) && !line.contains('\n'), "{line}");
            assert!(line.contains(would_do), "{line}");
        }
        assert_eq!(format!("{settings:?}"), format!("{:?}", NodeSettings::default()));
    }
}
