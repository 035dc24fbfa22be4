//! raddle-translate
fn main() {}
