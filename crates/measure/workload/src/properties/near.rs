//! Suggestions for a misspelled key.

/// The keys of `known` that are similar to `written`, the most similar first, at most three.
pub fn near_matches<'k>(written: &str, known: &[&'k str]) -> Vec<&'k str> {
    let written = written.to_ascii_lowercase();
    let tolerance = (written.len() / 4).clamp(1, 4);
    let mut near: Vec<(usize, &'k str)> = known
        .iter()
        .filter_map(|key| {
            let distance = strsim::osa_distance(&written, key);
            let begins = written.len() >= 4 && key.starts_with(&written);
            (distance <= tolerance || begins).then_some((distance.min(tolerance), *key))
        })
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, key)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_recognised() {
        let known = ["recordcount", "operationcount", "readproportion", "readallfields", "table"];
        assert_eq!(near_matches("recordcuont", &known), ["recordcount"]);
        assert_eq!(near_matches("RecordCount", &known), ["recordcount"]);
        assert_eq!(near_matches("read", &known), ["readallfields", "readproportion"]);
        assert_eq!(near_matches("tabel", &known), ["table"]);
        assert!(near_matches("colour", &known).is_empty());
    }

    #[test]
    fn a_swap_of_neighbours_counts_once() {
        // With a tolerance of one edit: a swap, an insertion, a deletion, a replacement.
        for written in ["tabel", "taable", "tble", "tabla"] {
            assert_eq!(near_matches(written, &["table"]), ["table"], "{written}");
        }
        assert!(near_matches("tbael", &["table"]).is_empty(), "two edits");
    }
}
