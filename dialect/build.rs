//! Builds the parser from the grammar.

fn main() {
    println!("cargo::rerun-if-changed=src/syntax/grammar.lalrpop");
    let built = lalrpop::Configuration::new()
        .set_in_dir("src/syntax")
        .set_out_dir(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
        .emit_rerun_directives(false)
        .process();
    if let Err(error) = built {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
