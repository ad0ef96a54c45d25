//! Commands that write a folder of files that the program makes of itself.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::system::errors::{Class, Facts};
use crate::system::files::output::Output;

pub struct OutputFile {
    /// Its name, without folders.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Writes files to a folder, which is made if it is not there.
pub fn write(folder: &Path, files: &[OutputFile]) -> Result<()> {
    fs::create_dir_all(folder).cannot("make the folder", folder.display()).class(Class::Output)?;
    for OutputFile { name, bytes } in files {
        let mut output = Output::open(&folder.join(name))?;
        output.write(bytes)?;
        output.commit()?;
    }
    Ok(())
}
