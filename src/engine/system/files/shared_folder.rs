//! Files with predictable names in folders that others may write to, such as the cache of the Hub. Somebody else may have put a
//! link there, through which a file of this user would be overwritten, or a pipe that waits for a reader. Anything but a regular
//! file is replaced by a new file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Opens or creates a file for reading and writing. Anything but a regular file with one name (hard link) is replaced by a
/// new file. Fails if the file cannot be opened, created or replaced.
pub fn open(path: &Path) -> io::Result<File> {
    // Bounded, since somebody may put the obstacle back each time.
    for _ in 0..10 {
        // `create_new` fails if anything is there, even a link.
        match OpenOptions::new().read(true).write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return opened,
        }
        let existing = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            existing => existing?,
        };
        if is_regular_single_link(&existing) {
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            // The file may have been exchanged in the meantime; nothing is written yet.
            if is_same_file(&existing, &file.metadata()?) {
                return Ok(file);
            }
        } else {
            fs::remove_file(path)?;
        }
    }
    Err(io::Error::new(ErrorKind::AlreadyExists, "it is no file, and comes again when it is removed"))
}

/// Whether this is a regular file with one name (hard link).
fn is_regular_single_link(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    let names = std::os::unix::fs::MetadataExt::nlink(metadata);
    #[cfg(not(unix))]
    let names = 1;
    metadata.is_file() && names == 1
}

/// Whether both are one file.
fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    }
    #[cfg(not(unix))]
    {
        a.file_type() == b.file_type()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_file_is_made_and_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        open(&path).unwrap().write_all(b"abc").unwrap();
        let mut text = String::new();
        open(&path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
        assert!(open(&folder.path().join("absent/file")).is_err());
    }

    #[test]
    #[cfg(unix)]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let [mine, path] = ["mine", "file"].map(|name| folder.path().join(name));
        for is_symbolic in [true, false] {
            fs::write(&mine, "keep").unwrap();
            let linked =
                if is_symbolic { std::os::unix::fs::symlink(&mine, &path) } else { fs::hard_link(&mine, &path) };
            linked.unwrap();
            open(&path).unwrap().write_all(b"others").unwrap();
            assert_eq!(fs::read_to_string(&mine).unwrap(), "keep");
            assert_eq!(fs::read_to_string(&path).unwrap(), "others");
            fs::remove_file(&path).unwrap();
        }
    }
}
