//! Writes a file beside its destination and renames it, so that nobody ever sees half of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file being written. It appears under its name only when [`OutputFile::finish`] is called; dropped before, it
/// leaves nothing behind.
#[derive(Debug)]
pub struct OutputFile {
    out: BufWriter<File>,
    /// The unfinished file and the name it is to get; none where the destination is a device or a pipe, which is
    /// written directly.
    pending: Option<(PathBuf, PathBuf)>,
}

impl OutputFile {
    /// Opens an unfinished file beside `path`.
    ///
    /// # Errors
    /// If the folder does not exist or cannot be written to.
    pub fn create(path: &Path) -> io::Result<Self> {
        let existing = fs::metadata(path);
        if existing.as_ref().is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Self {
                out: BufWriter::new(file),
                pending: None,
            });
        }
        // A link stays a link; the file it leads to is replaced.
        let destination = match existing {
            Ok(_) => fs::canonicalize(path)?,
            Err(_) => path.to_owned(),
        };
        let Some(name) = destination.file_name() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a file name",
            ));
        };
        let mut unfinished = std::ffi::OsString::from(".");
        unfinished.push(name);
        unfinished.push(format!(".{}.unfinished", std::process::id()));
        let unfinished = destination.with_file_name(unfinished);
        let file = File::create(&unfinished)?;
        if let Ok(found) = fs::metadata(&destination) {
            file.set_permissions(found.permissions())?;
        }
        Ok(Self {
            out: BufWriter::new(file),
            pending: Some((unfinished, destination)),
        })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If the last bytes cannot be written or the file cannot be renamed; the destination is then as it was.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        if let Some((unfinished, destination)) = &self.pending {
            fs::rename(unfinished, destination)?;
            self.pending = None;
        }
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some((unfinished, _)) = &self.pending {
            // Nothing more can be done about a file that cannot be removed.
            let _ = fs::remove_file(unfinished);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mlir");
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert!(names(folder.path()).is_empty());
        fs::write(&path, "old").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a.mlir"]);
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("real");
        let link = folder.path().join("link");
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut file = OutputFile::create(&link).unwrap();
        file.write_all(b"new").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn devices_are_written_directly() {
        let mut file = OutputFile::create(Path::new("/dev/null")).unwrap();
        file.write_all(b"x").unwrap();
        file.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn folders_and_missing_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(OutputFile::create(folder.path()).is_err());
        assert!(OutputFile::create(&folder.path().join("no/file")).is_err());
    }
}
