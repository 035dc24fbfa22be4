//! Affine maps and integer sets. Expressions are stored flat, in postfix order, so that no depth of nesting needs recursion.

/// One step of an affine expression in postfix order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AffineStep {
    /// `dN`
    Dim(u32),
    /// `sN`
    Symbol(u32),
    /// An integer constant.
    Const(i64),
    /// Adds the two expressions before it.
    Add,
    /// Multiplies them; one is constant or symbolic.
    Mul,
    /// `floordiv`
    FloorDiv,
    /// `ceildiv`
    CeilDiv,
    /// `mod`
    Mod,
}

/// An affine expression in postfix order, as MLIR simplifies it on reading.
pub type AffineExpr = Box<[AffineStep]>;

/// `affine_map<(d0)[s0] -> (d0 + s0)>`
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AffineMap {
    /// Number of dimensions.
    pub dims: u32,
    /// Number of symbols.
    pub symbols: u32,
    /// Results.
    pub results: Box<[AffineExpr]>,
}

/// `affine_set<(d0) : (d0 >= 0)>`
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IntegerSet {
    /// Number of dimensions.
    pub dims: u32,
    /// Number of symbols.
    pub symbols: u32,
    /// Each expression is compared with 0: `== 0` if the flag is set, `>= 0` otherwise.
    pub constraints: Box<[(AffineExpr, bool)]>,
}

impl AffineMap {
    /// Whether the map has no symbols and gives each dimension as it is.
    pub fn is_identity(&self) -> bool {
        let given = |at: usize| self.results[at].as_ref() == [AffineStep::Dim(at as u32)];
        self.symbols == 0
            && self.results.len() == self.dims as usize
            && (0..self.results.len()).all(given)
    }
}
