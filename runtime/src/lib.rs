//! Plays a compiled bundle: devices, communication between ranks, and the reference device that defines what is right.
