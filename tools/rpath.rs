//! The build script of the tools: lets them find `libMLIR.so`, which Debian keeps outside the system's search path.

fn main() {
    println!("cargo::rerun-if-changed=../rpath.rs");
    println!("cargo::rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    if let Ok(prefix) = std::env::var("MLIR_SYS_220_PREFIX") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{prefix}/lib");
    }
}
