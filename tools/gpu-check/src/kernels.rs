//! Where the kernels come from: a folder that was prepared, or the emitter.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use raddle_compiler::codegen::nvptx::{KernelCache, Maker, Planned, Ptx, Target};
use raddle_compiler::codegen::{KernelDescription, Wish};
use serde::{Deserialize, Serialize};

/// The file in a prepared folder that says what its kernels were made by.
const MAKERS: &str = "makers.json";

/// What a folder's kernels were made by.
#[derive(Serialize, Deserialize)]
struct Makers {
    emitter: Maker,
    assembler: Option<Maker>,
}

/// Kernels with their machine code.
pub enum Kernels {
    /// From a folder.
    Prepared {
        /// The folder.
        cache: KernelCache,
        /// What its PTX was made by.
        emitter: Maker,
        /// What its machine code was made by, if there is any.
        assembler: Option<Maker>,
    },
    /// Emitted, and assembled where NVIDIA's assembler is at hand.
    #[cfg(feature = "emit")]
    Emitted(Option<raddle_compiler::codegen::nvptx::Toolkit>),
}

impl Kernels {
    /// Those of a folder that [`prepare`] filled.
    ///
    /// # Errors
    /// When it does not say what its kernels were made by.
    pub fn prepared(folder: &Path) -> Result<Kernels> {
        let file = folder.join(MAKERS);
        let text = fs::read_to_string(&file).with_context(|| {
            format!(
                "cannot read {}; fill the folder with --prepare",
                file.display()
            )
        })?;
        let makers: Makers = serde_json::from_str(&text)
            .with_context(|| format!("cannot read {}", file.display()))?;
        Ok(Kernels::Prepared {
            // A bound would be kept by removing kernels.
            cache: KernelCache::new(folder).with_bound(u64::MAX),
            emitter: makers.emitter,
            assembler: makers.assembler,
        })
    }

    /// Those that this program emits.
    ///
    /// # Errors
    /// When it was built without an emitter.
    pub fn emitted() -> Result<Kernels> {
        #[cfg(feature = "emit")]
        {
            use raddle_compiler::codegen::nvptx::Toolkit;
            let toolkit = Toolkit::discover();
            let is_there = Maker::assembler(&toolkit).is_ok();
            Ok(Kernels::Emitted(is_there.then_some(toolkit)))
        }
        #[cfg(not(feature = "emit"))]
        bail!("this program was built without LLVM; name a folder of kernels with --prepared")
    }

    /// A kernel's PTX, and its machine code if there is any.
    ///
    /// # Errors
    /// A kernel that is not in the folder, or that cannot be made.
    pub fn get(
        &self,
        kernel: &KernelDescription,
        target: Target,
    ) -> Result<(Ptx, Option<Vec<u8>>)> {
        let planned = Planned::of(kernel, target, Wish::default())?;
        match self {
            Kernels::Prepared {
                cache,
                emitter,
                assembler,
            } => {
                let Some(ptx) = cache.find(planned, emitter) else {
                    bail!(
                        "{} holds no such kernel for {}; it was prepared by another build",
                        cache.folder().display(),
                        target.architecture()
                    );
                };
                let cubin = assembler
                    .as_ref()
                    .and_then(|assembler| cache.find_cubin(&ptx, assembler));
                Ok((ptx, cubin.map(|cubin| cubin.image)))
            }
            #[cfg(feature = "emit")]
            Kernels::Emitted(toolkit) => {
                let ptx = raddle_compiler::codegen::nvptx::emit_planned(planned)?;
                let cubin = match toolkit {
                    Some(toolkit) => Some(toolkit.assemble(&ptx)?.image),
                    None => None,
                };
                Ok((ptx, cubin))
            }
        }
    }
}

/// Fills a folder with kernels and, where NVIDIA's assembler is at hand, their machine code, on all processors.
///
/// # Errors
/// What LLVM and the assembler refuse, and files that cannot be written.
#[cfg(feature = "emit")]
pub fn prepare(folder: &Path, kernels: &[(KernelDescription, Target)]) -> Result<()> {
    use raddle_compiler::codegen::nvptx::{Origin, Toolkit};
    use rayon::prelude::*;

    let toolkit = Toolkit::discover();
    let makers = Makers {
        emitter: Maker::emitter(),
        assembler: Maker::assembler(&toolkit).ok(),
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let cache = KernelCache::new(folder).with_bound(u64::MAX);
    let kept = |origin: Origin| match origin {
        Origin::NotKept(error) => {
            Err(error).with_context(|| format!("cannot write to {}", folder.display()))
        }
        Origin::Kept | Origin::Made | Origin::Repaired => Ok(()),
    };
    kernels.par_iter().try_for_each(|(kernel, target)| {
        let ptx = cache.emit(Planned::of(kernel, *target, Wish::default())?)?;
        kept(ptx.origin)?;
        if makers.assembler.is_some() {
            kept(cache.assemble(&ptx.value, &toolkit)?.origin)?;
        }
        anyhow::Ok(())
    })?;
    let text = serde_json::to_string_pretty(&makers)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    file.persist(folder.join(MAKERS))?;
    Ok(())
}
