//! Kernels kept from one run to the next: the options that say where, and the way past them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use etcetera::BaseStrategy;
use raddle_compiler::codegen::CodegenError;
use raddle_compiler::codegen::nvptx::{
    self, Cached, Cubin, KernelCache, Origin, Planned, Ptx, Toolkit,
};

/// Where kernels are kept.
#[derive(Args)]
pub struct Kept {
    /// Where PTX and machine code are kept for the next time. If left out: `raddle/kernels` in the user's folder for caches.
    /// Names are digests of all that decides a kernel, so nothing in there is ever out of date; beyond 256 MiB, what was not
    /// used for longest is removed.
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache: Option<PathBuf>,
    /// Keep nothing, and use nothing that was kept.
    #[arg(long)]
    no_cache: bool,
}

/// What is kept, or nothing.
pub struct Store {
    cache: Option<KernelCache>,
}

impl Kept {
    /// What is kept where the options say.
    pub fn open(&self) -> Store {
        let folder = if self.no_cache { None } else { self.folder() };
        Store {
            cache: folder.map(KernelCache::new),
        }
    }

    /// Removes what is kept, and says how much it was.
    ///
    /// # Errors
    /// A user without a folder for caches, and files that cannot be removed.
    pub fn clear(&self) -> anyhow::Result<ExitCode> {
        let folder = self
            .folder()
            .context("there is no folder for caches; name one with --cache")?;
        let removed = KernelCache::new(&folder)
            .clear()
            .with_context(|| format!("cannot clear {}", folder.display()))?;
        println!(
            "removed {} files of {} bytes from {}",
            removed.files,
            removed.bytes,
            folder.display()
        );
        Ok(ExitCode::SUCCESS)
    }

    fn folder(&self) -> Option<PathBuf> {
        let usual = || {
            let strategy = etcetera::choose_base_strategy().ok()?;
            Some(strategy.cache_dir().join("raddle").join("kernels"))
        };
        self.cache.clone().or_else(usual)
    }
}

impl Store {
    /// Keeps nothing.
    pub const NOTHING: Store = Store { cache: None };

    /// The folder as the library knows it.
    pub fn cache(&self) -> Option<&KernelCache> {
        self.cache.as_ref()
    }

    /// The PTX of a kernel.
    ///
    /// # Errors
    /// What LLVM refuses.
    pub fn emit(&self, planned: Planned) -> Result<Ptx, CodegenError> {
        match &self.cache {
            Some(cache) => cache.emit(planned).map(|cached| taken(cache, cached)),
            None => nvptx::emit_planned(planned),
        }
    }

    /// The machine code of a kernel.
    ///
    /// # Errors
    /// What NVIDIA's assembler reports.
    pub fn assemble(&self, ptx: &Ptx, toolkit: &Toolkit) -> Result<Cubin, CodegenError> {
        match &self.cache {
            Some(cache) => cache
                .assemble(ptx, toolkit)
                .map(|cached| taken(cache, cached)),
            None => toolkit.assemble(ptx),
        }
    }
}

/// What came out of a cache; a warning if it could not be kept.
fn taken<T>(cache: &KernelCache, cached: Cached<T>) -> T {
    if let Origin::NotKept(error) = cached.origin {
        eprintln!(
            "warning: cannot keep the kernel in {}: {error}",
            cache.folder().display()
        );
    }
    cached.value
}
