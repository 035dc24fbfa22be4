//! The build script of the tools: lets them find `libMLIR.so`, which Debian keeps outside the system's search path.

fn main() {
    println!("cargo::rerun-if-changed=../rpath.rs");
    println!("cargo::rerun-if-env-changed=RADDLE_LLVM_PREFIX");
    if let Ok(prefix) = std::env::var("RADDLE_LLVM_PREFIX") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{prefix}/lib");
    }
}
