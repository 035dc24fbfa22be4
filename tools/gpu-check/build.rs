//! Lets the program find LLVM, and MLIR, which Debian keeps outside the system's search path. Without the feature `emit` it
//! needs neither.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RADDLE_LLVM_PREFIX");
    if std::env::var_os("CARGO_FEATURE_EMIT").is_some()
        && let Ok(prefix) = std::env::var("RADDLE_LLVM_PREFIX")
    {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{prefix}/lib");
    }
}
