//! Which columns have the coordinates and the names of rows.

use csv::StringRecord;

use super::number::{coordinate, printable};
use crate::geometry::{Area, BadCorner, Space};

/// The names of columns that were asked for. What was not is guessed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct ColumnNames {
    /// One column of longitudes, or those of two corners.
    pub(crate) longitude: Option<Vec<String>>,
    /// One column of latitudes, or those of two corners.
    pub(crate) latitude: Option<Vec<String>>,
    /// The columns whose fields are the name of a row.
    pub(crate) label: Option<Vec<String>>,
    /// The flags of the three, for errors.
    pub(crate) flags: [&'static str; 3],
}

/// Names that are tried: longitudes and latitudes.
const GUESSES: [(&[&str], &[&str]); 9] = [
    (&["longitude"], &["latitude"]),
    (&["longitude_deg"], &["latitude_deg"]),
    (&["lon"], &["lat"]),
    (&["lng"], &["lat"]),
    (&["x"], &["y"]),
    (&["west", "east"], &["south", "north"]),
    (&["min_lon", "max_lon"], &["min_lat", "max_lat"]),
    (&["xmin", "xmax"], &["ymin", "ymax"]),
    (&["le_longitude_deg", "he_longitude_deg"], &["le_latitude_deg", "he_latitude_deg"]),
];

/// Names that are tried for the name of a row: all that there are of the first group with any.
const LABELS: [&[&str]; 5] =
    [&["airport_ident", "le_ident", "he_ident"], &["ident"], &["label"], &["name"], &["id"]];

/// The most names of columns in an error.
const NAMES_MAX: usize = 40;

/// Positions of columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Columns {
    longitude: Vec<usize>,
    latitude: Vec<usize>,
    label: Vec<usize>,
}

impl Columns {
    /// The columns with these names, or those that look like coordinates.
    ///
    /// # Errors
    /// Which column there is not, and which there are; a first line that has no names.
    pub(super) fn choose(header: &StringRecord, names: &ColumnNames) -> Result<Columns, String> {
        check(header)?;
        let find = |flag: &str, wanted: &[String]| -> Result<Vec<usize>, String> {
            wanted.iter().map(|name| position(header, flag, name)).collect()
        };
        let [longitude_flag, latitude_flag, label_flag] = names.flags;
        let (longitude, latitude) = match (&names.longitude, &names.latitude) {
            (Some(longitude), Some(latitude)) if longitude.len() != latitude.len() => {
                return Err(format!(
                    "{longitude_flag} names {} columns, and {latitude_flag} names {}; name one column each for \
                     places, or two each for boxes",
                    longitude.len(),
                    latitude.len()
                ));
            }
            (Some(longitude), Some(latitude)) => {
                (find(longitude_flag, longitude)?, find(latitude_flag, latitude)?)
            }
            (Some(_), None) => return Err(format!("{longitude_flag} needs {latitude_flag}")),
            (None, Some(_)) => return Err(format!("{latitude_flag} needs {longitude_flag}")),
            (None, None) => guess(header).ok_or_else(|| {
                format!(
                    "no columns look like coordinates; name them with {longitude_flag} and {latitude_flag}; {}",
                    there_are(header)
                )
            })?,
        };
        let label = match &names.label {
            Some(label) => find(label_flag, label)?,
            None => guess_label(header),
        };
        Ok(Columns { longitude, latitude, label })
    }

    /// The names of the columns of longitudes and of latitudes.
    pub(super) fn names(&self, header: &StringRecord) -> [Vec<String>; 2] {
        let names = |columns: &[usize]| {
            columns.iter().map(|column| printable(&header[*column])).collect::<Vec<_>>()
        };
        [names(&self.longitude), names(&self.latitude)]
    }

    /// The fields of the coordinates, with their columns.
    pub(super) fn fields<'r>(&self, record: &'r StringRecord) -> Vec<(usize, &'r str)> {
        let columns = self.longitude.iter().chain(&self.latitude);
        columns.map(|column| (*column, record.get(*column).unwrap_or_default())).collect()
    }

    /// The place or the box of a record whose fields are not empty.
    ///
    /// # Errors
    /// The column, and what is wrong with its field.
    pub(super) fn area(
        &self,
        header: &StringRecord,
        record: &StringRecord,
        space: Space,
    ) -> Result<Area, String> {
        let at = |column: usize| {
            let field = record.get(column).unwrap_or_default();
            coordinate(field)
                .map_err(|what| format!("column {}: {what}", printable(&header[column])))
        };
        let corner = |corner: usize| -> Result<([f64; 2], [usize; 2]), String> {
            let columns = [self.longitude[corner], self.latitude[corner]];
            Ok(([at(columns[0])?, at(columns[1])?], columns))
        };
        let (first, last) = (corner(0)?, corner(self.longitude.len() - 1)?);
        space.boxed([first.0, last.0]).map_err(|bad| {
            let is_bad = |(corner, _): &&([f64; 2], [usize; 2])| space.boxed([*corner; 2]).is_err();
            let columns = [&first, &last].into_iter().find(is_bad).map_or(first.1, |bad| bad.1);
            let column = match bad {
                BadCorner::Latitude(_) => columns[1],
                BadCorner::Longitude(_) | BadCorner::NotFinite(_) => columns[0],
            };
            format!("column {}: {bad}", printable(&header[column]))
        })
    }

    /// The name of a row, of at most `max` characters; empty if it has none.
    pub(super) fn label(&self, record: &StringRecord, max: usize) -> String {
        let fields = self.label.iter().filter_map(|column| record.get(*column));
        let fields: Vec<&str> = fields.filter(|field| !field.is_empty()).collect();
        printable(&fields.join(" ")).chars().take(max).collect()
    }
}

/// Whether the first line of a file can be names.
fn check(header: &StringRecord) -> Result<(), String> {
    if header.iter().all(str::is_empty) {
        return Err("it is empty; its first line has to name the columns".to_owned());
    }
    if let Some(number) = header.iter().find(|name| name.parse::<f64>().is_ok()) {
        return Err(format!(
            "line 1: no header: `{}` is a number, and the first line has to name the columns",
            printable(number)
        ));
    }
    match header.get(0) {
        Some(only) if header.len() == 1 && only.contains([';', '\t']) => {
            Err("line 1: it has one column; separate fields by commas".to_owned())
        }
        _ => Ok(()),
    }
}

fn position(header: &StringRecord, flag: &str, name: &str) -> Result<usize, String> {
    let mut found = header.iter().enumerate().filter(|(_, column)| *column == name);
    match (found.next(), found.next()) {
        (Some((at, _)), None) => Ok(at),
        (Some(_), Some(_)) => Err(format!("line 1: two columns are named {name}; rename one")),
        (None, _) => Err(format!("{flag}: there is no column {name}; {}", there_are(header))),
    }
}

fn there_are(header: &StringRecord) -> String {
    let names: Vec<String> = header.iter().take(NAMES_MAX).map(printable).collect();
    let more = match header.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("there are {}{more}", names.join(", "))
}

fn find_all(header: &StringRecord, names: &[&str]) -> Option<Vec<usize>> {
    let find = |name: &&str| header.iter().position(|column| column.eq_ignore_ascii_case(name));
    names.iter().map(find).collect()
}

fn guess(header: &StringRecord) -> Option<(Vec<usize>, Vec<usize>)> {
    let find = |(longitude, latitude): &(&[&str], &[&str])| {
        Some((find_all(header, longitude)?, find_all(header, latitude)?))
    };
    GUESSES.iter().find_map(find)
}

fn guess_label(header: &StringRecord) -> Vec<usize> {
    LABELS.iter().find_map(|names| find_all(header, names)).unwrap_or_default()
}
