//! The `dist` dialect: text and IR.
