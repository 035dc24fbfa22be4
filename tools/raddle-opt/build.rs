//! Lets the program find `libMLIR.so`, which Debian keeps outside the system's search path.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    if std::env::var_os("CARGO_FEATURE_MLIR").is_some()
        && let Ok(prefix) = std::env::var("MLIR_SYS_220_PREFIX")
    {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{prefix}/lib");
    }
}
