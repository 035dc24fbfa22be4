//! Kernels that were emitted and assembled before, kept in a folder.
//!
//! Each entry is a file, named after what it was made from: the description, the plan, the target, and what made it
//! ([`Maker`]). So an entry never goes stale, it only stops being asked for; there is nothing to invalidate. Entries
//! carry a checksum and are replaced as a whole, so that processes may share the folder, and one that was torn or
//! changed is made anew. When the folder outgrows its bound, the entries that were not used for longest go.
//!
//! A cache never stands between a description and its kernel: where the folder cannot be used, the kernel is made and
//! [`Cached::origin`] says why it was not kept.

mod cubin;
mod entry;
mod folder;
mod key;

use std::io;
use std::path::{Path, PathBuf};

pub use folder::Removed;
pub use key::Maker;

use self::entry::Found;
use self::folder::Folder;
use self::key::Key;
use super::planned::Planned;
use super::ptx::Ptx;
use super::toolkit::{Cubin, Toolkit};
use crate::codegen::error::CodegenError;

/// Bytes that a folder may hold unless [`KernelCache::with_bound`] says otherwise.
pub const USUAL_BOUND_BYTES: u64 = 256 << 20;

/// A folder of kernels.
#[derive(Clone, Debug)]
pub struct KernelCache {
    folder: Folder,
}

/// Something that may have come out of a cache.
#[derive(Debug)]
pub struct Cached<T> {
    /// The thing.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

/// Where a kernel came from.
#[derive(Debug)]
pub enum Origin {
    /// It lay in the folder.
    Kept,
    /// It was made, and lies in the folder now.
    Made,
    /// What lay in the folder was damaged; it was made anew and replaced.
    Repaired,
    /// It was made, and could not be kept for this reason.
    NotKept(io::Error),
}

impl KernelCache {
    /// The cache in a folder, which is made when the first kernel is kept.
    pub fn new(folder: impl Into<PathBuf>) -> KernelCache {
        KernelCache {
            folder: Folder::new(folder.into(), USUAL_BOUND_BYTES),
        }
    }

    /// The same with another bound on what the folder holds, in bytes. The entry that was kept last stays in any case.
    pub fn with_bound(self, bound_bytes: u64) -> KernelCache {
        KernelCache {
            folder: Folder::new(self.folder.path().to_owned(), bound_bytes),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The PTX of a planned kernel, from the folder or newly emitted.
    ///
    /// # Errors
    /// What LLVM refuses.
    #[cfg(feature = "llvm")]
    pub fn emit(&self, planned: Planned) -> Result<Cached<Ptx>, CodegenError> {
        let key = Key::of_ptx(&planned, &Maker::emitter());
        let cached = self.get_or_make(
            &key,
            |bytes| String::from_utf8(bytes).ok(),
            || {
                let text = super::emit_planned(planned.clone())?.text;
                let bytes = text.clone().into_bytes();
                Ok((text, bytes))
            },
        )?;
        Ok(Cached {
            value: planned.with_text(cached.value),
            origin: cached.origin,
        })
    }

    /// The PTX of a planned kernel if it lies in the folder, whole; `None` if it must be emitted. This needs no LLVM:
    /// the maker is the emitter of the machine where the folder was filled.
    pub fn find(&self, planned: Planned, maker: &Maker) -> Option<Ptx> {
        match self.folder.read(&Key::of_ptx(&planned, maker)) {
            Found::Whole(bytes) => Some(planned.with_text(String::from_utf8(bytes).ok()?)),
            Found::Nothing | Found::Damaged => None,
        }
    }

    /// The machine code of a kernel, from the folder or newly assembled.
    ///
    /// # Errors
    /// What NVIDIA's assembler reports; see [`Toolkit::assemble`]. An assembler that is not installed is an error even
    /// if the folder holds what an earlier one made.
    pub fn assemble(&self, ptx: &Ptx, toolkit: &Toolkit) -> Result<Cached<Cubin>, CodegenError> {
        let key = Key::of_cubin(ptx, &Maker::assembler(toolkit)?);
        self.get_or_make(
            &key,
            |bytes| cubin::read(&bytes),
            || {
                let made = toolkit.assemble(ptx)?;
                let bytes = cubin::write(&made)?;
                Ok((made, bytes))
            },
        )
    }

    /// The machine code of a kernel if it lies in the folder, whole. The maker is the assembler of the machine where
    /// the folder was filled.
    pub fn find_cubin(&self, ptx: &Ptx, maker: &Maker) -> Option<Cubin> {
        match self.folder.read(&Key::of_cubin(ptx, maker)) {
            Found::Whole(bytes) => cubin::read(&bytes),
            Found::Nothing | Found::Damaged => None,
        }
    }

    /// Removes all entries, and what interrupted processes left behind; other files in the folder stay.
    ///
    /// # Errors
    /// When the folder cannot be read or an entry not removed. A folder that is not there is empty.
    pub fn clear(&self) -> io::Result<Removed> {
        self.folder.clear()
    }

    fn get_or_make<T>(
        &self,
        key: &Key,
        read: impl FnOnce(Vec<u8>) -> Option<T>,
        make: impl FnOnce() -> Result<(T, Vec<u8>), CodegenError>,
    ) -> Result<Cached<T>, CodegenError> {
        let is_new = match self.folder.read(key) {
            Found::Whole(bytes) => match read(bytes) {
                Some(value) => {
                    return Ok(Cached {
                        value,
                        origin: Origin::Kept,
                    });
                }
                None => false,
            },
            Found::Damaged => false,
            Found::Nothing => true,
        };
        let (value, bytes) = make()?;
        let origin = match self.folder.keep(key, &bytes) {
            Ok(()) if is_new => Origin::Made,
            Ok(()) => Origin::Repaired,
            Err(error) => Origin::NotKept(error),
        };
        Ok(Cached { value, origin })
    }
}
