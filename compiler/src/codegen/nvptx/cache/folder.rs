//! Files of entries: read, replaced as a whole, and removed when there are too many.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::entry::{self, Found};
use super::key::Key;

/// How the names of files start that are being written.
const UNFINISHED: &str = ".raddle-kernel-";

/// What an unfinished file's writer is given before it is taken for dead.
const LONGEST_WRITE: Duration = Duration::from_secs(3600);

/// An entry that is read notes so at most this often.
const NOTE_EVERY: Duration = Duration::from_secs(3600);

/// What was removed from a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A folder of entries, with a bound on their bytes.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
    bound_bytes: u64,
}

/// A file that is an entry.
struct Listed {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Folder {
    pub(super) fn new(path: PathBuf, bound_bytes: u64) -> Folder {
        Folder { path, bound_bytes }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What lies under a name. It counts as used now.
    pub(super) fn read(&self, key: &Key) -> Found {
        let path = self.path.join(key.file());
        match fs::read(&path) {
            Ok(bytes) => {
                note_use(&path);
                entry::unwrap(&bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
            Err(_) => Found::Damaged,
        }
    }

    /// Puts an entry under a name in one step, whatever is there, and then removes old entries beyond the bound.
    pub(super) fn keep(&self, key: &Key, payload: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempfile_in(&self.path)?;
        file.write_all(&entry::wrap(payload))?;
        file.persist(self.path.join(key.file()))?;
        // Others may be doing the same, or the folder may be gone again: the entry is kept or not, either is fine.
        let _ = self.shrink(key);
        Ok(())
    }

    pub(super) fn clear(&self) -> io::Result<Removed> {
        let mut removed = Removed::default();
        for listed in self.list(Duration::ZERO)? {
            remove(&listed, &mut removed)?;
        }
        Ok(removed)
    }

    /// Removes the entries that were not used for longest until the rest is within the bound; the newest stays.
    fn shrink(&self, newest: &Key) -> io::Result<()> {
        let mut entries = self.list(LONGEST_WRITE)?;
        let mut bytes: u64 = entries.iter().map(|listed| listed.bytes).sum();
        if bytes <= self.bound_bytes {
            return Ok(());
        }
        entries.sort_by_key(|listed| listed.used);
        let newest = self.path.join(newest.file());
        for listed in entries.iter().filter(|listed| listed.path != newest) {
            if bytes <= self.bound_bytes {
                break;
            }
            remove(listed, &mut Removed::default())?;
            bytes -= listed.bytes;
        }
        Ok(())
    }

    /// The entries, and files that were left unfinished for longer than this.
    fn list(&self, unfinished_for: Duration) -> io::Result<Vec<Listed>> {
        let files = match fs::read_dir(&self.path) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let now = SystemTime::now();
        let mut listed = Vec::new();
        for file in files {
            let file = file?;
            let name = file.file_name();
            let name = name.to_string_lossy();
            let facts = match file.metadata() {
                Ok(facts) => facts,
                // Removed by another process.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let used = facts.modified()?;
            let age = now.duration_since(used).unwrap_or_default();
            let abandoned = name.starts_with(UNFINISHED) && age >= unfinished_for;
            if facts.is_file() && (Key::is_file(&name) || abandoned) {
                listed.push(Listed {
                    path: file.path(),
                    bytes: facts.len(),
                    used,
                });
            }
        }
        Ok(listed)
    }
}

/// Sets the time of a file's last change, if that was some time ago, so that it is not taken for an old one. A folder
/// that is only for reading stays as it is.
fn note_use(path: &Path) {
    let noted = fs::metadata(path).and_then(|facts| facts.modified());
    let is_old = noted.is_ok_and(|noted| noted.elapsed().is_ok_and(|age| age >= NOTE_EVERY));
    if is_old && let Ok(file) = File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

fn remove(listed: &Listed, removed: &mut Removed) -> io::Result<()> {
    match fs::remove_file(&listed.path) {
        Ok(()) => {
            removed.files += 1;
            removed.bytes += listed.bytes;
            Ok(())
        }
        // Removed by another process.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
