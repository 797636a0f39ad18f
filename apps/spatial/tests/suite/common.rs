//! What all tests use: the program, files of made-up data, and a geometry of their own.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::SPATIAL;

/// Runs, demands success, and returns standard output.
pub(crate) fn good(arguments: &str) -> String {
    SPATIAL.good(arguments).out
}

pub(crate) fn document(arguments: &str) -> Value {
    SPATIAL.document(arguments)
}

pub(crate) fn measure(document: &Value, name: &str) -> f64 {
    document["measures"][name].as_f64().unwrap_or_else(|| panic!("no measure {name}"))
}

/// The lines of a CSV output without the first one, as fields. No field of these tests has a comma
/// or a quote.
pub(crate) fn rows(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().skip(1);
    rows.map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// Numbers of a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// From 0 up to `end`.
    pub(crate) fn below(&mut self, end: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let mixed = (self.0 ^ self.0 >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        end * (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A box of degrees. The east may be above 180.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides {
    pub(crate) west: f64,
    pub(crate) south: f64,
    pub(crate) east: f64,
    pub(crate) north: f64,
}

const RADIUS_M: f64 = 6_371_008.8;

/// The haversine, as textbooks have it.
fn haversine(latitudes: [f64; 2], gap: f64) -> f64 {
    let [u, v] = latitudes.map(f64::to_radians);
    let h =
        ((v - u) / 2.0).sin().powi(2) + u.cos() * v.cos() * (gap.to_radians() / 2.0).sin().powi(2);
    2.0 * RADIUS_M * h.sqrt().min(1.0).asin()
}

impl Sides {
    /// The least great-circle distance to a place, found by halving the latitudes of the box.
    pub(crate) fn metres_to(&self, longitude: f64, latitude: f64) -> f64 {
        let turned = [-360.0, 0.0, 360.0].map(|turn| longitude + turn);
        let gap = turned.map(|at| (self.west - at).max(at - self.east).max(0.0));
        let gap = gap.into_iter().fold(f64::INFINITY, f64::min);
        let (mut low, mut high) = (self.south, self.north);
        let at = |own: f64| haversine([own, latitude], gap);
        for _ in 0..200 {
            let third = (high - low) / 3.0;
            if at(low + third) < at(high - third) { high -= third } else { low += third }
        }
        at(low).min(at(high)).min(at(self.south)).min(at(self.north))
    }

    /// The least distance of latitudes, which no great-circle distance is below.
    pub(crate) fn degrees_to_latitude(&self, latitude: f64) -> f64 {
        (self.south - latitude).max(latitude - self.north).max(0.0)
    }
}

/// Two files of made-up data: places `P0`.. and boxes `B0`.., on all sides of the Earth, many of
/// them near a pole or the antimeridian.
pub(crate) struct Files {
    directory: TempDir,
    pub(crate) places: Vec<(f64, f64)>,
    pub(crate) boxes: Vec<Sides>,
}

impl Files {
    pub(crate) fn new(places: usize, boxes: usize) -> Files {
        let mut random = Random(7);
        let mut place = || {
            let (longitude, latitude) = (random.below(360.0) - 180.0, random.below(180.0) - 90.0);
            match random.below(4.0) as u64 {
                0 => (if longitude < 0.0 { -179.9 } else { 179.9 }, latitude),
                1 => (longitude, if latitude < 0.0 { -89.9 } else { 89.95 }),
                _ => (longitude, latitude),
            }
        };
        let places: Vec<_> = (0..places).map(|_| place()).collect();
        let corners: Vec<_> = (0..boxes).map(|_| place()).collect();
        let boxes = corners.into_iter().map(|(west, south)| {
            let (wide, high) = (random.below(2.0), random.below(1.0));
            Sides { west, south, east: west + wide, north: (south + high).min(90.0) }
        });
        let boxes = boxes.collect();
        let directory = tempfile::tempdir().expect("a directory");
        let files = Files { directory, places, boxes };
        let mut text = "name,latitude,longitude\n".to_owned();
        for (at, (longitude, latitude)) in files.places.iter().enumerate() {
            text.push_str(&format!("P{at},{latitude},{longitude}\n"));
        }
        std::fs::write(files.places_csv(), text).expect("room");
        let mut text = "label,west,south,east,north\n".to_owned();
        for (at, Sides { west, south, east, north }) in files.boxes.iter().enumerate() {
            let east = if *east > 180.0 { east - 360.0 } else { *east };
            text.push_str(&format!("B{at},{west},{south},{east},{north}\n"));
        }
        std::fs::write(files.boxes_csv(), text).expect("room");
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn places_csv(&self) -> String {
        self.path("places.csv").display().to_string()
    }

    pub(crate) fn boxes_csv(&self) -> String {
        self.path("boxes.csv").display().to_string()
    }
}

/// The folder of real data beside the repository. Without it a test prints why it does nothing.
pub(crate) fn real_data(test: &str) -> Option<[String; 2]> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let files = ["runways.csv", "navaids.csv"].map(|name| folder.join(name));
    if files.iter().all(|file| file.is_file()) {
        return Some(files.map(|file| file.display().to_string()));
    }
    let line = format!("skipped: {test}: there is no {}\n", folder.display());
    // The test harness does not capture this output, as it would with `eprintln`.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    None
}
