//! Runs PTX without a GPU.
