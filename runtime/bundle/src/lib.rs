//! The bundle: plain, versioned data that the compiler writes and the runtime reads.
