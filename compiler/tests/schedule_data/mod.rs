//! The recorded schedules in `lit-tests/data/schedules`, shared by the tests that hold Raddle's against them.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;

/// Reads a compressed JSON file.
pub fn data<T: DeserializeOwned>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../lit-tests/data/schedules")
        .join(name);
    let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("gzip");
    serde_json::from_str(&text).expect("json")
}
