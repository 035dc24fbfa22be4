//! raddle
fn main() {}
