//! Input files: all are opened here, so that no output can overwrite one, and are read up to a bound.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use anyhow::anyhow;

use crate::system::errors::{ErrorExt, io_error};

/// First bytes of the small file with which git LFS replaces a large one
/// (<https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>, "The Pointer").
pub const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Fails if a file that begins with `beginning` is a git LFS pointer in the place of the file itself.
pub fn ensure_no_lfs_pointer(beginning: &[u8]) -> io::Result<()> {
    if beginning.starts_with(LFS_POINTER) {
        let pointer = anyhow!("it is a pointer of git LFS and not the file itself");
        return Err(io_error(io::ErrorKind::InvalidData, pointer.hint("run `git lfs pull` in its folder")));
    }
    Ok(())
}

/// Opens a file for reading. From then on, no [`Output`](super::output::Output) of this process can replace it. Fails if it
/// cannot be opened, is a folder, or is an output of this process; the error does not name it.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    super::registry::register_input(&metadata)?;
    Ok(file)
}

/// Opens a regular file. Other files are refused, since opening a pipe waits for a writer. Fails as [`open`].
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::NotSeekable, "it is no file"));
    }
    open(path)
}

/// Returns standard input. If it is a file, no output of this process can replace it from then on. Fails if it is an output
/// of this process.
pub fn stdin() -> io::Result<io::Stdin> {
    let stdin = io::stdin();
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        // A closed standard input has nothing to lose.
        if let Ok(file) = stdin.as_fd().try_clone_to_owned().map(File::from) {
            super::registry::register_input(&file.metadata()?)?;
        }
    }
    Ok(stdin)
}

/// Reads a file of at most `most` bytes. Fails as [`open`], if the file cannot be read, if it is longer, or if it is a git
/// LFS pointer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > most {
        return Err(too_long_error(most));
    }
    let bytes = read_all(file, most)?;
    ensure_no_lfs_pointer(&bytes)?;
    Ok(bytes)
}

/// Reads a file whose path comes from another program. Fails as [`read`], or if it is no regular file, since a pipe without
/// a writer would block.
pub fn read_regular_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    open_regular_file(path).map(drop)?;
    read(path, most)
}

/// Reads a UTF-8 file of at most `most` bytes. Fails as [`read`], or if it is not UTF-8.
pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    decode_utf8(read(path, most)?)
}

/// Reads a stream of at most `most` bytes, such as standard input. Fails if it cannot be read, or if it is longer.
pub fn read_all(stream: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_long_error(most)) } else { Ok(bytes) }
}

/// Decodes UTF-8. Fails if `bytes` are not UTF-8; the error gives the first wrong byte.
pub fn decode_utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[place];
        let line = error.as_bytes()[..place].split(|byte| *byte == b'\n').count();
        let error = anyhow!("not UTF-8 (line {line} has the byte 0x{byte:02x})").with_line(line as u64);
        io_error(io::ErrorKind::InvalidData, error)
    })
}

/// Makes the error about a file of more than `most` bytes.
pub fn too_long_error(most: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} bytes, the most that is read of it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "four").unwrap();
        assert_eq!(read_to_string(&path, 4).unwrap(), "four");
        let error = read(&path, 3).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 3 bytes, the most that is read of it");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_has_no_end_is_not_read_to_it() {
        assert_eq!(read(Path::new("/dev/zero"), 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn bytes_that_are_no_text_are_named() {
        let error = decode_utf8(b"a\nb\xff".to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "not UTF-8 (line 2 has the byte 0xff)");
    }
}
