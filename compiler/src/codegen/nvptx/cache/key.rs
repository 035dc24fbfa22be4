//! Names of entries: digests of everything that decides what they hold.

use std::fs;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::entry::hexadecimal;
use crate::codegen::error::CodegenError;
use crate::codegen::nvptx::planned::Planned;
use crate::codegen::nvptx::ptx::Ptx;
use crate::codegen::nvptx::toolkit::Toolkit;

/// What made an entry: the emitter with its LLVM, or an assembler. Its text is compared and shown, nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Maker(String);

impl Maker {
    /// The emitter of this build: a digest of the sources of code generation, and the version of the LLVM that runs.
    #[cfg(feature = "llvm")]
    pub fn emitter() -> Maker {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        Maker(format!(
            "raddle {} {}, LLVM {major}.{minor}.{patch}",
            env!("CARGO_PKG_VERSION"),
            env!("RADDLE_CODEGEN_DIGEST"),
        ))
    }

    /// The assembler that a toolkit finds: its file, how large it is, and when it was last changed.
    ///
    /// # Errors
    /// [`CodegenError::ToolMissing`], or [`CodegenError::Io`] if its file cannot be looked at.
    pub fn assembler(toolkit: &Toolkit) -> Result<Maker, CodegenError> {
        let file = toolkit.assembler()?;
        let facts = fs::metadata(&file).and_then(|facts| Ok((facts.len(), facts.modified()?)));
        let (bytes, changed) = facts.map_err(|source| CodegenError::Io {
            what: format!("cannot look at {}", file.display()),
            source,
        })?;
        let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Maker(format!(
            "{} of {bytes} bytes from {}.{:09}",
            file.display(),
            changed.as_secs(),
            changed.subsec_nanos()
        )))
    }
}

/// The name of an entry's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key(String);

impl Key {
    /// PTX is decided by the description, the plan, the target, and the emitter. All fields of the first three count, those
    /// that will be added too: what is hashed is their debugging output, which lists them by name.
    pub(super) fn of_ptx(planned: &Planned, maker: &Maker) -> Key {
        let Maker(maker) = maker;
        Key::of("ptx", &[&format!("{planned:?}"), maker])
    }

    /// Machine code is decided by the PTX, the architecture, and the assembler.
    pub(super) fn of_cubin(ptx: &Ptx, maker: &Maker) -> Key {
        let Maker(maker) = maker;
        Key::of(
            "cubin",
            &[ptx.text.as_str(), ptx.target.architecture().name(), maker],
        )
    }

    /// The file's name.
    pub(super) fn file(&self) -> &str {
        &self.0
    }

    /// Whether a file's name is one of an entry.
    pub(super) fn is_file(name: &str) -> bool {
        name.split_once('.').is_some_and(|(digest, kind)| {
            digest.len() == 64
                && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
                && matches!(kind, "ptx" | "cubin")
        })
    }

    fn of(kind: &str, parts: &[&str]) -> Key {
        let mut digest = Sha256::new();
        for part in parts {
            // Lengths keep the parts apart.
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        }
        Key(format!("{}.{kind}", hexadecimal(&digest.finalize())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::nvptx::{Architecture, PtxVersion, Target};
    use crate::codegen::{Activation, ElementType, KernelDescription, TileSize, Wish};

    #[test]
    fn everything_that_decides_a_kernel_decides_its_name() {
        let kernel = KernelDescription::product(ElementType::Bf16, 256, 256, 256);
        let target = Target::of(Architecture::Sm80);
        let maker = Maker("this".to_owned());
        let key = |kernel: &KernelDescription, target, wish, maker: &Maker| {
            Key::of_ptx(
                &Planned::of(kernel, target, Wish::from(wish)).expect("a plan"),
                maker,
            )
        };
        let base = key(&kernel, target, None, &maker);
        assert_eq!(base, key(&kernel, target, None, &maker));
        assert!(Key::is_file(base.file()));
        let newer = PtxVersion { major: 8, minor: 0 };
        let newer = Target::with_ptx(Architecture::Sm80, newer).expect("a target");
        let relu = KernelDescription {
            activation: Activation::Relu,
            ..kernel
        };
        let mut others = vec![
            key(&relu, target, None, &maker),
            key(&kernel, newer, None, &maker),
            key(&kernel, Target::of(Architecture::Sm86), None, &maker),
            key(&kernel, target, None, &Maker("that".to_owned())),
        ];
        for (rows, columns) in [(128, 256), (128, 64)] {
            let wish = Some(TileSize { rows, columns });
            others.push(key(&kernel, target, wish, &maker));
        }
        others.push(base);
        for (index, key) in others.iter().enumerate() {
            assert!(!others[..index].contains(key), "{index}");
        }
    }

    #[test]
    fn only_entries_have_names_of_entries() {
        for name in ["", "notes.txt", ".ptx", "abc.ptx", &"z".repeat(64), "ptx"] {
            assert!(!Key::is_file(name), "{name}");
        }
        assert!(!Key::is_file(&format!("{}.txt", "a".repeat(64))));
    }
}
