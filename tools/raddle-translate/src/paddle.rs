//! PaddlePaddle programs in and out.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use raddle_compiler::driver::{OutputFile, write_generic_copy};
use raddle_compiler::interop::paddle::{self, File, RankFiles};
use raddle_dialect::diag::{Diagnostics, Source};
use raddle_dialect::ir::{Context, VerifyOptions, verify};
use raddle_dialect::syntax::{ParseOptions, PrintOptions, parse, write};

use crate::{Cli, diagnostics};

/// A file's path, for messages, and its contents.
struct Contents {
    name: String,
    bytes: Vec<u8>,
}

impl Contents {
    fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self {
            name: path.display().to_string(),
            bytes,
        })
    }

    fn file(&self) -> File<'_> {
        File {
            name: &self.name,
            bytes: &self.bytes,
        }
    }
}

/// Imports; whether it worked.
pub fn import(cli: &Cli) -> Result<bool> {
    let count = cli.import_paddle.len();
    if cli.startup.len() != count || cli.mesh.len() != count {
        bail!(
            "{count} main programs, {} startup programs and {} mesh files: give as many of each, in the same order",
            cli.startup.len(),
            cli.mesh.len()
        );
    }
    let read = |paths: &[std::path::PathBuf]| -> Result<Vec<Contents>> {
        paths.iter().map(|p| Contents::read(p)).collect()
    };
    let (mains, startups, meshes) = (
        read(&cli.import_paddle)?,
        read(&cli.startup)?,
        read(&cli.mesh)?,
    );
    let files: Vec<_> = (0..count)
        .map(|i| RankFiles {
            main: mains[i].file(),
            startup: startups[i].file(),
            mesh: meshes[i].file(),
        })
        .collect();
    let cx = Context::new();
    let mut found = Diagnostics::new();
    let module = paddle::import(&cx, &files, &mut found);
    diagnostics::show(&found, &Source::new("", b""), &cx);
    let Some(module) = module else {
        return Ok(false);
    };
    let options = PrintOptions {
        generic: cli.mlir_print_op_generic,
        debug_info: cli.mlir_print_debuginfo,
        ..PrintOptions::default()
    };
    save(&cli.output, |mut out| write(&module, options, &mut out))?;
    if let Some(folder) = &cli.generic_copies {
        write_generic_copy(&module, folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    Ok(true)
}

/// Exports; whether it worked.
pub fn export(cli: &Cli) -> Result<bool> {
    let (Some(rank), Some(startup_out)) = (cli.rank, &cli.startup_out) else {
        bail!("--export-paddle needs --rank and --startup-out");
    };
    let input = if cli.input == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .context("cannot read standard input")?;
        Contents {
            name: "<stdin>".to_owned(),
            bytes,
        }
    } else {
        Contents::read(&cli.input)?
    };
    let cx = Context::new();
    let source = Source::new(&input.name, &input.bytes);
    let mut found = Diagnostics::new();
    let programs = parse(&cx, &source, ParseOptions::default(), &mut found)
        .and_then(|module| verify(module, VerifyOptions::default(), &mut found).ok())
        .and_then(|module| paddle::export(&module, rank, &mut found));
    diagnostics::show(&found, &source, &cx);
    let Some(programs) = programs else {
        return Ok(false);
    };
    save_pair(
        (&cli.output, &programs.main),
        (startup_out, &programs.startup),
    )?;
    Ok(true)
}

/// Writes two files, of which neither appears unless both can be written.
fn save_pair(first: (&Path, &[u8]), second: (&Path, &[u8])) -> Result<()> {
    let (path, bytes) = second;
    let failed = || format!("cannot write {}", path.display());
    let mut out = OutputFile::create(path).with_context(failed)?;
    out.write_all(bytes).with_context(failed)?;
    save(first.0, |out| out.write_all(first.1))?;
    out.finish().with_context(failed)
}

/// Writes a file whole or not at all.
fn save(path: &Path, body: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let written = if path == Path::new("-") {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        body(&mut out).and_then(|()| out.flush())
    } else {
        OutputFile::create(path).and_then(|mut out| {
            body(&mut out)?;
            out.finish()
        })
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}
