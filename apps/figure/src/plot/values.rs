//! The values along an axis.

use crate::error::{Result, wrong};
use crate::rows::Row;

/// The different values of a column, in the order of the rows. If all values are numbers and
/// `sorted` is set, they are in the order of the numbers.
pub(super) fn values(rows: &[&Row], column: &str, sorted: bool) -> Result<Vec<String>> {
    let mut values: Vec<String> = Vec::new();
    for row in rows {
        match row.text(column) {
            Some(text) if values.iter().any(|value| value == text) => {}
            Some(text) => values.push(text.to_owned()),
            None => return wrong(row.name(), format!("there is no column {column}")),
        }
    }
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
    if let (true, Some(numbers)) = (sorted, numbers) {
        let mut pairs: Vec<_> = numbers.into_iter().zip(values).collect();
        pairs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        values = pairs.into_iter().map(|(_, value)| value).collect();
    }
    Ok(values)
}
