//! Fields: as numbers, and as text for people.

/// The number in `text`.
///
/// # Errors
/// What it is instead.
pub(super) fn coordinate(text: &str) -> Result<f64, String> {
    let shown = || printable(text);
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err(format!("`{}` is not a finite number", shown())),
        Err(_) if text.contains(',') => {
            Err(format!("`{}` is not a number; write a decimal point", shown()))
        }
        Err(_) => Err(format!("`{}` is not a number", shown())),
    }
}

/// A text of a file without characters that move the cursor of a terminal.
pub(super) fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}
