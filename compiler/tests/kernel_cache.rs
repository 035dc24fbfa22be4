//! The cache of kernels on disk: what is kept comes back, what was damaged is made anew, the folder stays within its bound,
//! and threads that share it do not disturb each other. Needs LLVM, and NVIDIA's assembler for machine code.
#![cfg(feature = "llvm")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use raddle_compiler::codegen::nvptx::{
    Architecture, KernelCache, Maker, Origin, Planned, Ptx, Target, Toolkit,
};
use raddle_compiler::codegen::{ElementType, KernelDescription, Wish};

fn planned(k: u64) -> Planned {
    let kernel = KernelDescription::product(ElementType::Bf16, 16, 16, k);
    Planned::of(&kernel, Target::of(Architecture::Sm80), Wish::default()).expect("a plan")
}

fn emit(cache: &KernelCache, k: u64) -> (Ptx, Origin) {
    let cached = cache.emit(planned(k)).expect("a kernel");
    (cached.value, cached.origin)
}

/// The files of a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

#[test]
fn what_is_kept_comes_back_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = KernelCache::new(folder.path().join("not/there/yet"));
    let (made, origin) = emit(&cache, 16);
    assert!(matches!(origin, Origin::Made));
    let (kept, origin) = emit(&cache, 16);
    assert!(matches!(origin, Origin::Kept));
    assert_eq!(made, kept);
    assert_eq!(
        cache.find(planned(16), &Maker::emitter()).as_ref(),
        Some(&made)
    );
    assert_eq!(cache.find(planned(32), &Maker::emitter()), None);
    assert!(matches!(emit(&cache, 32).1, Origin::Made));
    let removed = cache.clear().expect("cleared");
    assert_eq!(removed.files, 2);
    assert!(removed.bytes as usize > made.text.len());
    assert!(matches!(emit(&cache, 16).1, Origin::Made));
}

#[test]
fn what_was_damaged_is_made_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = KernelCache::new(folder.path());
    let (made, _) = emit(&cache, 16);
    let [file] = &files(folder.path())[..] else {
        panic!("one entry");
    };
    let whole = fs::read(file).expect("the entry");
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    for damaged in [&whole[..whole.len() / 3], &changed, b"", b"\xff\xfe"] {
        fs::write(file, damaged).expect("written");
        let (repaired, origin) = emit(&cache, 16);
        assert!(matches!(origin, Origin::Repaired), "{origin:?}");
        assert_eq!(repaired, made);
        assert_eq!(fs::read(file).expect("the entry"), whole);
        assert!(matches!(emit(&cache, 16).1, Origin::Kept));
    }
}

#[test]
fn a_folder_that_cannot_be_used_does_not_keep_kernels_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "in the way").expect("written");
    let cache = KernelCache::new(file.join("kernels"));
    for _ in 0..2 {
        let (ptx, origin) = emit(&cache, 16);
        assert!(
            matches!(origin, Origin::NotKept(_) | Origin::Repaired),
            "{origin:?}"
        );
        assert!(ptx.text.contains(".entry"));
    }
}

#[test]
fn the_entries_that_were_not_used_for_longest_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let unbounded = KernelCache::new(folder.path());
    let depths = [16, 32, 48, 64];
    let mut sizes = 0;
    for (age, k) in depths.into_iter().enumerate() {
        emit(&unbounded, k);
        let newest = files(folder.path()).into_iter().max_by_key(|file| {
            let facts = fs::metadata(file).expect("facts");
            facts.modified().expect("a time")
        });
        let newest = newest.expect("an entry");
        sizes = sizes.max(fs::metadata(&newest).expect("facts").len());
        // The first is the oldest; all are older than what is noted of a use.
        let time = SystemTime::now() - Duration::from_secs(86400 * (10 - age as u64));
        let file = fs::File::options().append(true).open(newest).expect("open");
        file.set_modified(time).expect("a time");
    }
    fs::write(folder.path().join("notes.txt"), "not an entry").expect("written");
    // A use makes the oldest the newest.
    assert!(matches!(emit(&unbounded, 16).1, Origin::Kept));
    let bounded = unbounded.with_bound(sizes * 3 + sizes / 2);
    emit(&bounded, 80);
    let is_kept = |k| bounded.find(planned(k), &Maker::emitter()).is_some();
    assert_eq!(
        [16, 32, 48, 64, 80].map(is_kept),
        [true, false, false, true, true]
    );
    assert!(folder.path().join("notes.txt").exists());
    // The newest stays even where it alone is too large.
    let tiny = bounded.with_bound(1);
    emit(&tiny, 96);
    assert_eq!(files(folder.path()).len(), 2);
}

#[test]
fn threads_may_share_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let alone: Vec<String> = [16, 32]
        .into_iter()
        .map(|k| {
            let other = tempfile::tempdir().expect("a folder");
            emit(&KernelCache::new(other.path()), k).0.text
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (path, alone) = (folder.path(), &alone);
            scope.spawn(move || {
                let cache = KernelCache::new(path);
                for round in 0..8 {
                    let index = (thread + round) % 2;
                    let cached = cache.emit(planned([16, 32][index])).expect("a kernel");
                    assert_eq!(cached.value.text, alone[index]);
                    assert!(!matches!(
                        cached.origin,
                        Origin::NotKept(_) | Origin::Repaired
                    ));
                    if round == 3 && thread == 0 {
                        cache.clear().expect("cleared");
                    }
                }
            });
        }
    });
    // No unfinished file is left.
    for file in files(folder.path()) {
        let name = file
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(name.ends_with(".ptx") && !name.starts_with('.'), "{name}");
    }
}

#[test]
fn machine_code_is_kept_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = KernelCache::new(folder.path());
    let (ptx, _) = emit(&cache, 16);
    let toolkit = Toolkit::discover();
    let made = cache.assemble(&ptx, &toolkit).expect("machine code");
    assert!(matches!(made.origin, Origin::Made));
    let kept = cache.assemble(&ptx, &toolkit).expect("machine code");
    assert!(matches!(kept.origin, Origin::Kept));
    assert_eq!(made.value, kept.value);
    assert!(made.value.image.starts_with(b"\x7fELF"));
    let maker = Maker::assembler(&toolkit).expect("an assembler");
    assert_eq!(cache.find_cubin(&ptx, &maker), Some(kept.value));
    // Another kernel's machine code is not taken for it.
    let (other, _) = emit(&cache, 32);
    assert_eq!(cache.find_cubin(&other, &maker), None);
}
