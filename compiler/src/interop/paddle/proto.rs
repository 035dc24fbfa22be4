//! Paddle's `ProgramDesc` on the wire: the messages of `framework.proto` (PaddlePaddle 2.6 and 3.0), written out so that no
//! protobuf compiler is needed.
//!
//! Text is kept as bytes: proto2 strings need not be UTF-8, and Paddle puts Python source lines into some attributes.
//! Fields of later releases are skipped when read. Whether an optional field was there is kept.

use prost::Message;

/// A whole program.
#[derive(Clone, PartialEq, Message)]
pub struct ProgramDesc {
    /// Block 0 is the program; further blocks are bodies of control flow.
    #[prost(message, repeated, tag = "1")]
    pub blocks: Vec<BlockDesc>,
    /// Format version.
    #[prost(message, optional, tag = "4")]
    pub version: Option<Version>,
    /// Versions of the op definitions the program was made with.
    #[prost(message, optional, tag = "5")]
    pub op_version_map: Option<OpVersionMap>,
}

/// A version number.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Version {
    /// The number.
    #[prost(int64, optional, tag = "1")]
    pub version: Option<i64>,
}

/// Op names to versions.
#[derive(Clone, PartialEq, Message)]
pub struct OpVersionMap {
    /// The entries.
    #[prost(message, repeated, tag = "1")]
    pub pair: Vec<OpVersionPair>,
}

/// One op's version.
#[derive(Clone, PartialEq, Message)]
pub struct OpVersionPair {
    /// The op.
    #[prost(bytes = "vec", required, tag = "1")]
    pub op_name: Vec<u8>,
    /// Its version.
    #[prost(message, required, tag = "2")]
    pub op_version: OpVersion,
}

/// The version of an op.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct OpVersion {
    /// The number.
    #[prost(int32, required, tag = "1")]
    pub version: i32,
}

/// Variables and ops.
#[derive(Clone, PartialEq, Message)]
pub struct BlockDesc {
    /// Position in the program.
    #[prost(int32, required, tag = "1")]
    pub idx: i32,
    /// The block around this one, or -1.
    #[prost(int32, required, tag = "2")]
    pub parent_idx: i32,
    /// Variables.
    #[prost(message, repeated, tag = "3")]
    pub vars: Vec<VarDesc>,
    /// Ops, in order of execution.
    #[prost(message, repeated, tag = "4")]
    pub ops: Vec<OpDesc>,
    /// The block that this one is the backward of.
    #[prost(int32, optional, tag = "5")]
    pub forward_block_idx: Option<i32>,
}

/// One op.
#[derive(Clone, PartialEq, Message)]
pub struct OpDesc {
    /// Input slots.
    #[prost(message, repeated, tag = "1")]
    pub inputs: Vec<OpVar>,
    /// Output slots.
    #[prost(message, repeated, tag = "2")]
    pub outputs: Vec<OpVar>,
    /// `matmul_v2` and the like.
    #[prost(bytes = "vec", required, tag = "3")]
    pub r#type: Vec<u8>,
    /// Attributes.
    #[prost(message, repeated, tag = "4")]
    pub attrs: Vec<OpAttr>,
    /// Whether the op is a target of pruning.
    #[prost(bool, optional, tag = "5")]
    pub is_target: Option<bool>,
}

/// A slot and the variables in it.
#[derive(Clone, PartialEq, Message)]
pub struct OpVar {
    /// The slot: `X`, `Out`, …
    #[prost(bytes = "vec", required, tag = "1")]
    pub parameter: Vec<u8>,
    /// The variables' names.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub arguments: Vec<Vec<u8>>,
}

/// An attribute: `type` says which field holds the value.
#[derive(Clone, PartialEq, Message)]
pub struct OpAttr {
    /// Its name.
    #[prost(bytes = "vec", required, tag = "1")]
    pub name: Vec<u8>,
    /// INT 0, FLOAT 1, STRING 2, INTS 3, FLOATS 4, STRINGS 5, BOOLEAN 6, BOOLEANS 7, BLOCK 8, LONG 9, BLOCKS 10, LONGS 11,
    /// FLOAT64S 12, VAR 13, VARS 14, FLOAT64 15, SCALAR 16, SCALARS 17.
    #[prost(int32, required, tag = "2")]
    pub r#type: i32,
    /// INT
    #[prost(int32, optional, tag = "3")]
    pub i: Option<i32>,
    /// FLOAT
    #[prost(float, optional, tag = "4")]
    pub f: Option<f32>,
    /// STRING
    #[prost(bytes = "vec", optional, tag = "5")]
    pub s: Option<Vec<u8>>,
    /// INTS
    #[prost(int32, repeated, packed = "false", tag = "6")]
    pub ints: Vec<i32>,
    /// FLOATS
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// STRINGS
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub strings: Vec<Vec<u8>>,
    /// BOOLEAN
    #[prost(bool, optional, tag = "10")]
    pub b: Option<bool>,
    /// BOOLEANS
    #[prost(bool, repeated, packed = "false", tag = "11")]
    pub bools: Vec<bool>,
    /// BLOCK
    #[prost(int32, optional, tag = "12")]
    pub block_idx: Option<i32>,
    /// LONG
    #[prost(int64, optional, tag = "13")]
    pub l: Option<i64>,
    /// BLOCKS
    #[prost(int32, repeated, packed = "false", tag = "14")]
    pub blocks_idx: Vec<i32>,
    /// LONGS
    #[prost(int64, repeated, packed = "false", tag = "15")]
    pub longs: Vec<i64>,
    /// FLOAT64S
    #[prost(double, repeated, packed = "false", tag = "16")]
    pub float64s: Vec<f64>,
    /// VAR
    #[prost(bytes = "vec", optional, tag = "17")]
    pub var_name: Option<Vec<u8>>,
    /// VARS
    #[prost(bytes = "vec", repeated, tag = "18")]
    pub vars_name: Vec<Vec<u8>>,
    /// FLOAT64
    #[prost(double, optional, tag = "19")]
    pub float64: Option<f64>,
    /// SCALAR
    #[prost(message, optional, tag = "20")]
    pub scalar: Option<Scalar>,
    /// SCALARS
    #[prost(message, repeated, tag = "21")]
    pub scalars: Vec<Scalar>,
}

/// A number with its type.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Scalar {
    /// BOOLEAN 1, LONG 2, FLOAT64 3, COMPLEX128 4.
    #[prost(int32, required, tag = "1")]
    pub r#type: i32,
    /// BOOLEAN
    #[prost(bool, optional, tag = "2")]
    pub b: Option<bool>,
    /// LONG
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// FLOAT64
    #[prost(double, optional, tag = "4")]
    pub r: Option<f64>,
    /// COMPLEX128
    #[prost(message, optional, tag = "5")]
    pub c: Option<Complex>,
}

/// A complex number.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Complex {
    /// Real part.
    #[prost(double, required, tag = "1")]
    pub r: f64,
    /// Imaginary part.
    #[prost(double, required, tag = "2")]
    pub i: f64,
}

/// A variable.
#[derive(Clone, PartialEq, Message)]
pub struct VarDesc {
    /// Its name.
    #[prost(bytes = "vec", required, tag = "1")]
    pub name: Vec<u8>,
    /// What it holds.
    #[prost(message, required, tag = "2")]
    pub r#type: VarType,
    /// Whether it outlives the step.
    #[prost(bool, optional, tag = "3")]
    pub persistable: Option<bool>,
    /// Whether a fed value is checked against the type.
    #[prost(bool, optional, tag = "4")]
    pub need_check_feed: Option<bool>,
    /// Whether it is a parameter.
    #[prost(bool, optional, tag = "5")]
    pub is_parameter: Option<bool>,
    /// Whether gradients stop here.
    #[prost(bool, optional, tag = "6")]
    pub stop_gradient: Option<bool>,
    /// Attributes, such as the distributed attributes of auto-parallel.
    #[prost(message, repeated, tag = "7")]
    pub attrs: Vec<VarAttr>,
}

/// An attribute of a variable.
#[derive(Clone, PartialEq, Message)]
pub struct VarAttr {
    /// Its name.
    #[prost(bytes = "vec", required, tag = "1")]
    pub name: Vec<u8>,
    /// As in [`OpAttr`].
    #[prost(int32, required, tag = "2")]
    pub r#type: i32,
    /// INT
    #[prost(int32, optional, tag = "3")]
    pub i: Option<i32>,
    /// STRING
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    /// INTS
    #[prost(int32, repeated, packed = "false", tag = "5")]
    pub ints: Vec<i32>,
}

/// What a variable holds.
#[derive(Clone, PartialEq, Message)]
pub struct VarType {
    /// LOD_TENSOR 7 is a plain tensor.
    #[prost(int32, required, tag = "1")]
    pub r#type: i32,
    /// SELECTED_ROWS
    #[prost(message, optional, tag = "2")]
    pub selected_rows: Option<TensorDesc>,
    /// LOD_TENSOR
    #[prost(message, optional, tag = "3")]
    pub lod_tensor: Option<LodTensorDesc>,
    /// LOD_TENSOR_ARRAY
    #[prost(message, optional, tag = "4")]
    pub tensor_array: Option<LodTensorDesc>,
    /// READER
    #[prost(message, optional, tag = "5")]
    pub reader: Option<ReaderDesc>,
    /// TUPLE
    #[prost(message, optional, tag = "7")]
    pub tuple: Option<TupleDesc>,
}

/// Element type and shape.
#[derive(Clone, PartialEq, Message)]
pub struct TensorDesc {
    /// BOOL 0, INT16 1, INT32 2, INT64 3, FP16 4, FP32 5, FP64 6, UINT8 20, INT8 21, BF16 22.
    #[prost(int32, required, tag = "1")]
    pub data_type: i32,
    /// Extents; -1 is unknown.
    #[prost(int64, repeated, packed = "false", tag = "2")]
    pub dims: Vec<i64>,
}

/// A tensor with nested sequence levels (always 0 here).
#[derive(Clone, PartialEq, Message)]
pub struct LodTensorDesc {
    /// The tensor.
    #[prost(message, required, tag = "1")]
    pub tensor: TensorDesc,
    /// Sequence levels.
    #[prost(int32, optional, tag = "2")]
    pub lod_level: Option<i32>,
}

/// Several tensors.
#[derive(Clone, PartialEq, Message)]
pub struct ReaderDesc {
    /// The tensors.
    #[prost(message, repeated, tag = "1")]
    pub lod_tensor: Vec<LodTensorDesc>,
}

/// A tuple of types.
#[derive(Clone, PartialEq, Message)]
pub struct TupleDesc {
    /// The types.
    #[prost(int32, repeated, packed = "false", tag = "1")]
    pub element_type: Vec<i32>,
}
