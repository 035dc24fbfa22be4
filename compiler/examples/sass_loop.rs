//! The figures of main loops of any machine code, for tables that compare kernels: reads files that `cuobjdump -sass -fun KERNEL`
//! printed, one kernel each, and prints a line for each.

use std::path::Path;
use std::process::ExitCode;

use raddle_compiler::codegen::nvptx::Sass;

fn main() -> ExitCode {
    let mut all_read = true;
    for file in std::env::args().skip(1) {
        let name = Path::new(&file).file_stem().unwrap_or_default();
        let read = std::fs::read_to_string(&file)
            .map_err(|error| error.to_string())
            .and_then(|text| Sass::read(&text).map_err(|error| error.to_string()));
        match read {
            Ok(sass) => print(&name.to_string_lossy(), &sass),
            Err(error) => {
                eprintln!("sass_loop: {file}: {error}");
                all_read = false;
            }
        }
    }
    if all_read {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn print(name: &str, sass: &Sass) {
    match sass.product_loop() {
        Some(round) => println!(
            "{name}: {} instructions a round, {} of them matrix, {} copies, {}/{} = {:.3}",
            round.instructions,
            round.matrix_instructions,
            round.asynchronous_copies,
            round.stall_cycles,
            round.tensor_cycles,
            f64::from(round.stall_cycles) / f64::from(round.tensor_cycles.max(1)),
        ),
        None => println!("{name}: no loop with products"),
    }
}
