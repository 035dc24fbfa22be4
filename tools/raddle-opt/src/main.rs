//! raddle-opt
fn main() {}
