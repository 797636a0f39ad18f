//! [`Distance`]: a length on a command line.

use super::space::Space;
use super::sphere;

/// A length with the unit in which it was written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Distance {
    number: f64,
    unit: LengthUnit,
}

/// The unit of a length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LengthUnit {
    /// The unit of the columns, whatever it is.
    Plain,
    /// Metres.
    M,
    /// Kilometres.
    Km,
    /// Nautical miles of 1852 metres.
    Nm,
    /// Degrees of a great circle, or of the columns.
    Degrees,
}

const UNITS: [(&str, LengthUnit); 5] = [
    ("km", LengthUnit::Km),
    ("nm", LengthUnit::Nm),
    ("deg", LengthUnit::Degrees),
    ("m", LengthUnit::M),
    ("", LengthUnit::Plain),
];

impl Distance {
    /// The length in `text`: a number that is 0 or above, and a unit without a space between them.
    ///
    /// # Errors
    /// The valid values.
    pub(crate) fn parse(text: &str) -> Result<Distance, String> {
        let of = |&(name, unit): &(&str, LengthUnit)| {
            let digits = text.strip_suffix(name)?;
            let is_number =
                digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
            let number: f64 = is_number.then(|| digits.parse().ok())??;
            number.is_finite().then_some(Distance { number, unit })
        };
        UNITS.iter().find_map(of).ok_or_else(|| {
            "use a distance such as 20km, 500m, 10nm or 0.5deg, or a plain number on a plane"
                .to_owned()
        })
    }

    /// The length in the unit of distances in `space`.
    ///
    /// # Errors
    /// What would do, when the unit has no meaning there.
    pub(crate) fn within(self, space: Space) -> Result<f64, String> {
        let Distance { number, unit } = self;
        match (space, unit) {
            (Space::Plane, LengthUnit::Plain | LengthUnit::Degrees) => Ok(number),
            (Space::Plane, _) => {
                Err("on a plane a distance has the unit of the columns; write a plain number, or \
                                      add --great-circle"
                    .to_owned())
            }
            (Space::Sphere, LengthUnit::M) => Ok(number),
            (Space::Sphere, LengthUnit::Km) => Ok(number * 1000.0),
            (Space::Sphere, LengthUnit::Nm) => Ok(number * 1852.0),
            (Space::Sphere, LengthUnit::Degrees) => Ok(sphere::of_degrees(number)),
            (Space::Sphere, LengthUnit::Plain) => {
                Err("say the unit, as in 20km, 500m, 10nm or 0.5deg".to_owned())
            }
        }
    }
}

impl std::fmt::Display for Distance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = UNITS.iter().find(|(_, unit)| *unit == self.unit).map_or("", |(name, _)| name);
        write!(f, "{}{name}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metres(text: &str) -> f64 {
        Distance::parse(text).and_then(|distance| distance.within(Space::Sphere)).expect(text)
    }

    #[test]
    fn a_distance_has_its_unit() {
        assert_eq!([metres("20km"), metres("500m"), metres("10nm")], [20_000.0, 500.0, 18_520.0]);
        assert!((metres("1deg") - 111_195.0).abs() < 1.0);
        let plane = |text: &str| Distance::parse(text).and_then(|d| d.within(Space::Plane));
        assert_eq!((plane("0.5"), plane("0.5deg"), plane("1e3")), (Ok(0.5), Ok(0.5), Ok(1000.0)));
        assert_eq!(Distance::parse("20km").map(|distance| distance.to_string()), Ok("20km".into()));
    }

    #[test]
    fn what_is_no_distance_says_what_would_do() {
        for text in ["", "km", "-1km", "20 km", "20kms", "nan", "inf", "infkm", "1e999", "20mi"] {
            assert!(Distance::parse(text).expect_err(text).contains("20km"), "{text}");
        }
        let plane = Distance::parse("20km").and_then(|distance| distance.within(Space::Plane));
        assert!(plane.expect_err("a unit").contains("--great-circle"));
        let sphere = Distance::parse("20").and_then(|distance| distance.within(Space::Sphere));
        assert!(sphere.expect_err("no unit").contains("say the unit"));
    }
}
