//! GPU architectures, PTX versions, and which go together.
//!
//! LLVM ends the process when it is asked for a pair that it does not know, so a [`Target`] can only be made of a pair
//! that it does.

use std::fmt;
use std::str::FromStr;

use crate::codegen::CodegenError;

/// The most blocks that one dimension of a launch takes (CUDA programming guide, technical specifications).
pub const LARGEST_GRID: u32 = i32::MAX as u32;

/// The last PTX version that LLVM 22 writes.
const HIGHEST: PtxVersion = PtxVersion { major: 9, minor: 0 };

/// A GPU architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// A100.
    Sm80,
    /// A10, RTX 30.
    Sm86,
    /// L4, L40, RTX 40.
    Sm89,
    /// H100, H200, with the features that only this architecture has.
    Sm90a,
    /// B200, with the features that only this architecture has.
    Sm100a,
}

impl Architecture {
    /// Every architecture.
    pub const ALL: [Architecture; 5] = [
        Architecture::Sm80,
        Architecture::Sm86,
        Architecture::Sm89,
        Architecture::Sm90a,
        Architecture::Sm100a,
    ];

    /// The name that `ptxas -arch` and LLVM use.
    pub const fn name(self) -> &'static str {
        match self {
            Architecture::Sm80 => "sm_80",
            Architecture::Sm86 => "sm_86",
            Architecture::Sm89 => "sm_89",
            Architecture::Sm90a => "sm_90a",
            Architecture::Sm100a => "sm_100a",
        }
    }

    /// The names of all, for messages.
    pub fn names() -> String {
        Architecture::ALL.map(Architecture::name).join(", ")
    }

    /// The first PTX version that knows the architecture (PTX ISA, "Release Notes").
    pub const fn first_ptx(self) -> PtxVersion {
        let (major, minor) = match self {
            Architecture::Sm80 => (7, 0),
            Architecture::Sm86 => (7, 1),
            Architecture::Sm89 => (7, 8),
            Architecture::Sm90a => (8, 0),
            Architecture::Sm100a => (8, 6),
        };
        PtxVersion { major, minor }
    }

    /// Whether it has TMA and `wgmma`.
    pub const fn has_warpgroups(self) -> bool {
        matches!(self, Architecture::Sm90a)
    }

    /// Whether it has TMA, tensor memory and `tcgen05`.
    pub const fn has_tensor_memory(self) -> bool {
        matches!(self, Architecture::Sm100a)
    }

    /// What a multiprocessor of this architecture has (CUDA programming guide, "Compute Capabilities").
    pub const fn limits(self) -> Limits {
        let ampere = Limits {
            multiprocessors: 108,
            registers: 65536,
            registers_per_thread: 255,
            warps: 64,
            blocks: 32,
            shared_bytes: 164 * 1024,
            shared_bytes_per_block: 163 * 1024,
            reserved_shared_bytes: 1024,
            tensor_memory_columns: 0,
            tensor_terms_per_cycle: 1024,
            scalar_terms_per_cycle: 64,
        };
        match self {
            Architecture::Sm80 => ampere,
            Architecture::Sm86 => Limits {
                multiprocessors: 84,
                warps: 48,
                blocks: 16,
                shared_bytes: 100 * 1024,
                shared_bytes_per_block: 99 * 1024,
                tensor_terms_per_cycle: 512,
                scalar_terms_per_cycle: 128,
                ..ampere
            },
            Architecture::Sm89 => Limits {
                multiprocessors: 142,
                warps: 48,
                blocks: 24,
                shared_bytes: 100 * 1024,
                shared_bytes_per_block: 99 * 1024,
                tensor_terms_per_cycle: 512,
                scalar_terms_per_cycle: 128,
                ..ampere
            },
            Architecture::Sm90a => Limits {
                multiprocessors: 132,
                shared_bytes: 228 * 1024,
                shared_bytes_per_block: 227 * 1024,
                scalar_terms_per_cycle: 128,
                ..ampere
            },
            Architecture::Sm100a => Limits {
                multiprocessors: 148,
                shared_bytes: 228 * 1024,
                shared_bytes_per_block: 227 * 1024,
                tensor_memory_columns: 512,
                scalar_terms_per_cycle: 128,
                ..ampere
            },
        }
    }
}

impl FromStr for Architecture {
    type Err = CodegenError;

    fn from_str(text: &str) -> Result<Architecture, CodegenError> {
        Architecture::ALL
            .into_iter()
            .find(|architecture| architecture.name() == text)
            .ok_or_else(|| CodegenError::UnknownTarget(text.to_owned()))
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one multiprocessor has and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Multiprocessors of the largest part of the architecture that is sold.
    pub multiprocessors: u32,
    /// Registers of 32 bits.
    pub registers: u32,
    /// The most registers that a thread can have.
    pub registers_per_thread: u32,
    /// Warps that can be resident.
    pub warps: u32,
    /// Blocks that can be resident.
    pub blocks: u32,
    /// Bytes of shared memory.
    pub shared_bytes: u32,
    /// The most bytes of shared memory that a block can ask for.
    pub shared_bytes_per_block: u32,
    /// Bytes of shared memory that the system takes from each block.
    pub reserved_shared_bytes: u32,
    /// Columns of tensor memory, 128 lanes of 32 bits each.
    pub tensor_memory_columns: u32,
    /// Multiply-adds of 16-bit elements on tensor cores per cycle, as `mma.sync` reaches them.
    pub tensor_terms_per_cycle: u32,
    /// Multiply-adds in single precision per cycle.
    pub scalar_terms_per_cycle: u32,
}

/// A version of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxVersion {
    /// Before the point.
    pub major: u32,
    /// After it.
    pub minor: u32,
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for PtxVersion {
    type Err = CodegenError;

    fn from_str(text: &str) -> Result<PtxVersion, CodegenError> {
        let invalid = || {
            CodegenError::InvalidDescription(format!(
                "`{text}` is no PTX version; write one as 8.0"
            ))
        };
        let (major, minor) = text.split_once('.').ok_or_else(invalid)?;
        Ok(PtxVersion {
            major: major.parse().map_err(|_| invalid())?,
            minor: minor.parse().map_err(|_| invalid())?,
        })
    }
}

/// The PTX versions that LLVM 22 writes, apart from those before 7.0.
const KNOWN: &[(u32, u32)] = &[
    (7, 0),
    (7, 1),
    (7, 2),
    (7, 3),
    (7, 4),
    (7, 5),
    (7, 6),
    (7, 7),
    (7, 8),
    (8, 0),
    (8, 1),
    (8, 2),
    (8, 3),
    (8, 4),
    (8, 5),
    (8, 6),
    (8, 7),
    (8, 8),
    (9, 0),
];

/// An architecture and a PTX version that LLVM can write for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    architecture: Architecture,
    ptx: PtxVersion,
}

impl Target {
    /// The architecture with the oldest PTX version that knows it: drivers take that version and every older one.
    pub const fn of(architecture: Architecture) -> Target {
        Target {
            architecture,
            ptx: architecture.first_ptx(),
        }
    }

    /// The architecture with a given PTX version.
    ///
    /// # Errors
    /// [`CodegenError::PtxVersion`] if the two do not go together.
    pub fn with_ptx(architecture: Architecture, ptx: PtxVersion) -> Result<Target, CodegenError> {
        if ptx < architecture.first_ptx() || !KNOWN.contains(&(ptx.major, ptx.minor)) {
            return Err(CodegenError::PtxVersion {
                architecture: architecture.name(),
                requested: ptx,
                lowest: architecture.first_ptx(),
                highest: HIGHEST,
            });
        }
        Ok(Target { architecture, ptx })
    }

    /// The architecture.
    pub const fn architecture(self) -> Architecture {
        self.architecture
    }

    /// The PTX version.
    pub const fn ptx(self) -> PtxVersion {
        self.ptx
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pairs_that_go_together_become_targets() {
        let version = |major, minor| PtxVersion { major, minor };
        for architecture in Architecture::ALL {
            assert!(Target::with_ptx(architecture, architecture.first_ptx()).is_ok());
            assert!(Target::with_ptx(architecture, version(6, 5)).is_err());
            assert!(
                Target::with_ptx(architecture, version(7, 9)).is_err(),
                "there is no 7.9"
            );
            assert!(Target::with_ptx(architecture, version(9, 9)).is_err());
        }
        let error = Target::with_ptx(Architecture::Sm90a, version(7, 8)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sm_90a cannot be written in PTX 7.8; it takes 8.0 to 9.0"
        );
    }

    #[test]
    fn names_read_back() {
        for architecture in Architecture::ALL {
            assert_eq!(
                architecture.name().parse::<Architecture>().unwrap(),
                architecture
            );
        }
        assert!("sm_35".parse::<Architecture>().is_err());
        assert_eq!(
            "8.6".parse::<PtxVersion>().unwrap(),
            PtxVersion { major: 8, minor: 6 }
        );
        for text in ["", "8", "8.", ".8", "8.x", "-1.0"] {
            assert!(text.parse::<PtxVersion>().is_err(), "{text}");
        }
    }
}
