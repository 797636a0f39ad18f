//! [`Overrides`]: settings of the protocol that differ from the defaults. [`variants`]: the
//! combinations that a hunt tries.

use std::collections::BTreeMap;

use latchwork_cluster::ClusterConfig;

/// Settings by name, as [`ClusterConfig::set`] takes them.
pub type Overrides = BTreeMap<String, String>;

/// Whether drawn worlds vary the settings and the line size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Vary {
    /// Default settings, and small lines.
    #[default]
    Nothing,
    /// Every third world has the default settings. The other worlds take the [`variants`] in turn,
    /// so N such worlds in a row have each of the N variants once. In addition, a random sixth of
    /// the worlds has any line size that a memory pool offers.
    Settings,
}

impl Vary {
    pub(super) fn draw(self, seed: u64) -> Overrides {
        let (Vary::Settings, Some(place)) = (self, (seed % 3).checked_sub(1)) else {
            return Overrides::new();
        };
        let all = variants();
        let at = (seed / 3 * 2 + place) % all.len().max(1) as u64;
        all.get(at as usize).cloned().unwrap_or_default()
    }
}

/// The combinations of settings that a hunt tries: each value in the `tries` of
/// [`ClusterConfig::settings`] alone, and each pair of such values of two settings.
pub fn variants() -> Vec<Overrides> {
    let settings = &ClusterConfig::settings();
    let all = || {
        let values = |at: usize| settings[at].tries.iter();
        (0..settings.len()).flat_map(move |at| values(at).map(move |value| (at, *value)))
    };
    let entry = |(at, value): (usize, &str)| (settings[at].name.to_owned(), value.to_owned());
    let alone = all().map(|one| Overrides::from([entry(one)]));
    let pairs = all().flat_map(|one| {
        let others = all().filter(move |other| other.0 > one.0);
        others.map(move |other| Overrides::from([entry(one), entry(other)]))
    });
    alone.chain(pairs).collect()
}

/// The settings as text: `lease=0 takeover=on`, or `defaults` without any.
pub fn in_words(overrides: &Overrides) -> String {
    if overrides.is_empty() {
        return "defaults".to_owned();
    }
    let words: Vec<_> = overrides.iter().map(|(name, value)| format!("{name}={value}")).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn worlds_in_a_row_have_every_setting_alone_and_every_pair() {
        let all = variants();
        let tries: usize =
            ClusterConfig::settings().iter().map(|setting| setting.tries.len()).sum();
        assert_eq!(all.iter().filter(|variant| variant.len() == 1).count(), tries);
        assert!(tries >= 2 && all.iter().all(|variant| variant.len() <= 2));
        let worlds = all.len() as u64 * 3 / 2 + 3;
        let met: BTreeSet<_> =
            (1000..1000 + worlds).map(|seed| Vary::Settings.draw(seed)).collect();
        assert!(met.contains(&Overrides::new()), "the defaults, too");
        assert!(all.iter().all(|variant| met.contains(variant)));
        assert_eq!(Vary::Nothing.draw(1001), Overrides::new());
    }

    #[test]
    fn every_variant_can_be_set() {
        for variant in variants() {
            let mut settings = ClusterConfig::default();
            for (name, value) in &variant {
                settings.set(name, value).expect("a value to try");
            }
        }
    }
}
