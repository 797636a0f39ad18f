//! The target `properties`: property files, and the YCSB workload that they describe.

use latchwork_workload::properties::Properties;
use latchwork_workload::ycsb::CoreWorkload;

use super::target::{FuzzTarget, assert_one_line};
use crate::{Mutator, class_of};

/// Property files of YCSB.
pub const TARGET: FuzzTarget =
    FuzzTarget { name: "properties", run, mutate: Mutator::text, tried: 1500 };

const NAME: &str = "fuzzed.properties";

/// Reads properties, writes them as plain assignments, reads these, and makes a workload of them.
///
/// - An error is one line, which names file and line.
/// - Properties that are written with escapes come back unchanged.
///
/// # Panics
/// When one of these does not hold.
pub fn run(data: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(data) else { return "not UTF-8".to_owned() };
    let mut properties = Properties::default();
    if let Err(error) = properties.parse(text, NAME) {
        assert_one_line(&error.to_string());
        assert!(error.to_string().starts_with(&format!("{NAME}:")), "no place: {error}");
        return class_of(&error);
    }
    let pairs = |properties: &Properties| {
        properties.iter().map(|p| (p.key.clone(), p.value.clone())).collect::<Vec<_>>()
    };
    let mut again = Properties::default();
    again.parse(&written(&properties), NAME).expect("what was read can be written");
    assert_eq!(pairs(&again), pairs(&properties), "properties change when they are written");
    match CoreWorkload::from_properties(&properties) {
        Ok((workload, warnings)) => {
            warnings.iter().for_each(|warning| assert_one_line(warning));
            assert!(workload.records.start < workload.records.end, "no records");
            let sum = workload.mix.sum();
            assert!(sum.is_finite() && sum > 0.0, "the shares add up to {sum}");
            let warned = warnings.iter().map(class_of).collect::<String>();
            format!("whole: {:?} {warned}", std::mem::discriminant(&workload.requests))
        }
        Err(error) => {
            assert_one_line(&error.to_string());
            class_of(&error)
        }
    }
}

/// The assignments, with an escape for each character that needs one.
fn written(properties: &Properties) -> String {
    let mut text = String::new();
    let mut put = |word: &str, end: &str| {
        for letter in word.chars() {
            match letter {
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\u{c}' => text.push_str("\\f"),
                ' ' | '=' | ':' | '#' | '!' | '\\' => text.extend(['\\', letter]),
                letter => text.push(letter),
            }
        }
        text.push_str(end);
    };
    for property in properties.iter() {
        put(&property.key, "=");
        put(&property.value, "\n");
    }
    text
}
