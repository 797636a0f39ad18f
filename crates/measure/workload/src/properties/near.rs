//! Suggestions for a misspelled key.

/// The keys of `known` that are similar to `written`, the most similar first, at most three.
pub fn near_matches<'k>(written: &str, known: &[&'k str]) -> Vec<&'k str> {
    let written = written.to_ascii_lowercase();
    let tolerance = (written.len() / 4).clamp(1, 4);
    let mut near: Vec<(usize, &'k str)> = known
        .iter()
        .filter_map(|key| {
            let distance = edit_distance(&written, key);
            let begins = written.len() >= 4 && key.starts_with(&written);
            (distance <= tolerance || begins).then_some((distance.min(tolerance), *key))
        })
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, key)| key).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one string into the other.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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
    fn distances_count_edits() {
        for (a, b, distance) in
            [("", "abc", 3), ("abc", "abc", 0), ("abc", "acb", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }
}
