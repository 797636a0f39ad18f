//! Measures how often a disk can sync: fdatasyncs per second of one writer that appends 160 bytes
//! each time.
//!
//! ```text
//! cargo run --release -p latchwork-wal --example syncs -- DIRECTORY [MILLISECONDS]
//! ```
//!
//! The directory is made, and removed again.

use std::error::Error;
use std::path::Path;

use latchwork_runtime::Clock;
use latchwork_wal::storage::{Disk, Storage};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("name a directory that does not exist")?;
    let millis: u64 = args.next().map_or(Ok(500), |millis| millis.parse())?;
    if Path::new(&path).exists() {
        return Err(format!("{path} exists: name a directory that does not").into());
    }
    let disk = Disk::new(Path::new(&path))?;
    let file = disk.create("alone")?;
    disk.sync_directory()?;
    let (clock, mut syncs) = (Clock::start(), 0_u32);
    while clock.now().as_nanos() < 1_000_000 * millis {
        file.append(&[1; 160])?;
        file.sync()?;
        syncs += 1;
    }
    println!("{:.0}", f64::from(syncs) * 1e9 / clock.now().as_nanos() as f64);
    drop(file);
    std::fs::remove_dir_all(&path)?;
    Ok(())
}
