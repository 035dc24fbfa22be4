//! Copies of printed modules in generic form, for comparison with other readers of MLIR's text.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::path::Path;

use raddle_dialect::ir::Module;
use raddle_dialect::syntax::{PrintOptions, print};

use super::OutputFile;

/// Writes the module in generic form into a folder, under a name made from its content: equal modules make one file.
///
/// # Errors
/// If the folder does not exist or cannot be written to.
pub fn write_generic_copy(module: &Module, folder: &Path) -> io::Result<()> {
    let generic = PrintOptions {
        generic: true,
        ..PrintOptions::default()
    };
    let text = print(module, generic);
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    let path = folder.join(format!("{:016x}.mlir", hasher.finish()));
    let mut file = OutputFile::create(&path)?;
    file.write_all(text.as_bytes())?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_dialect::ir::Context;

    #[test]
    fn equal_modules_make_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let cx = Context::new();
        for _ in 0..2 {
            let module = Module::new(&cx, cx.unknown_loc());
            write_generic_copy(&module, folder.path()).unwrap();
        }
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(files.len(), 1);
    }
}
