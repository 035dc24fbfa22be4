//! How a kernel's two inputs may lie, shared by the tests that go through all of it.

use raddle_compiler::codegen::MatrixLayout;

/// Every pair of orders.
pub const LAYOUTS: [(MatrixLayout, MatrixLayout); 4] = [
    (MatrixLayout::ROW_MAJOR, MatrixLayout::ROW_MAJOR),
    (MatrixLayout::ROW_MAJOR, MatrixLayout::COLUMN_MAJOR),
    (MatrixLayout::COLUMN_MAJOR, MatrixLayout::ROW_MAJOR),
    (MatrixLayout::COLUMN_MAJOR, MatrixLayout::COLUMN_MAJOR),
];
