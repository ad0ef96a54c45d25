//! Input and output files: each is opened once, and no output of a run is one of its inputs.

pub mod digest;
pub mod folder;
pub mod gzip;
pub mod input;
pub mod output;
pub mod registry;
pub mod shared_folder;
