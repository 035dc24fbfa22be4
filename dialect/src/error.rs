//! What can go wrong in this crate apart from text: meshes, and ops that do not fit what they are given.

/// The crate's error. Where there is an op or a place in the text at hand it becomes a
/// [`Diagnostic`](crate::diag::Diagnostic) with [`Error::code`] and [`Error::help`].
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Error {
    /// Not one size per axis.
    #[error("a mesh has one size per axis, but there are {axes} axes and {sizes} sizes")]
    MeshLengths {
        /// Number of axes.
        axes: usize,
        /// Number of sizes.
        sizes: usize,
    },
    /// An axis has no name.
    #[error("a mesh axis has an empty name")]
    UnnamedAxis,
    /// An axis is named twice.
    #[error("axis '{0}' is named twice")]
    RepeatedAxis(String),
    /// An axis has no devices.
    #[error("axis '{0}' must have a size of at least 1")]
    EmptyAxis(String),
    /// Too many ranks.
    #[error("a mesh has at most 1048576 ranks")]
    MeshTooLarge,
    /// The mesh has no such axis.
    #[error("the mesh has no axis '{axis}'")]
    UnknownAxis {
        /// The name.
        axis: String,
        /// The axes there are.
        known: Vec<String>,
    },
    /// An index beyond the end of an axis.
    #[error("index {index} lies outside axis '{axis}' of size {size}")]
    IndexOutside {
        /// The axis.
        axis: String,
        /// The index.
        index: i64,
        /// The axis' size.
        size: usize,
    },
    /// The op is not inside a module with a mesh.
    #[error("there is no mesh here")]
    NoMesh,
    /// A class does not say which ranks it is.
    #[error("'dist.ranks' must be an array of dictionaries from axis to array<i64>")]
    NoRanks,
    /// An op's attributes, types or layouts do not fit what the op is.
    #[error("{message}")]
    Op {
        /// Stable code, `E03xx`.
        code: &'static str,
        /// What is wrong.
        message: String,
        /// What to do about it.
        help: Option<String>,
    },
}

impl Error {
    /// An error of an op.
    pub fn op(code: &'static str, message: impl Into<String>) -> Self {
        Self::Op {
            code,
            message: message.into(),
            help: None,
        }
    }

    /// With advice (for [`Error::Op`]; the others have their own).
    pub fn with_help(mut self, advice: impl Into<String>) -> Self {
        if let Self::Op { help, .. } = &mut self {
            *help = Some(advice.into());
        }
        self
    }

    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Op { code, .. } => code,
            Self::MeshLengths { .. }
            | Self::UnnamedAxis
            | Self::EmptyAxis(_)
            | Self::MeshTooLarge => "E0320",
            Self::RepeatedAxis(_) => "E0321",
            Self::UnknownAxis { .. } => "E0322",
            Self::IndexOutside { .. } => "E0323",
            Self::NoMesh => "E0324",
            Self::NoRanks => "E0325",
        }
    }

    /// What to do about it, if there is something to say.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Op { help, .. } => help.clone(),
            Self::UnknownAxis { known, .. } if !known.is_empty() => {
                Some(format!("its axes are {}", known.join(", ")))
            }
            Self::NoMesh => Some(
                "name one with `dist.mesh = @mesh` on the enclosing module, and define `dist.mesh @mesh` in the top module"
                    .into(),
            ),
            Self::NoRanks => Some("write `dist.ranks = [{}]` for all ranks, or `[{mp = array<i64: 0>}]` for some".into()),
            _ => None,
        }
    }
}
