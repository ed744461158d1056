//! Encrypted segments.

use super::*;

const SECRET: &[u8] = b"a secret that no file shows";

fn with(encryption: Arc<dyn Encryption>) -> CommitLogOptions {
    CommitLogOptions { encryption: Some(encryption), ..options(SyncMode::Batch) }
}

fn decrypting(keys: &'static [&'static str]) -> CommitLogOptions {
    with(Arc::new(AesGcm::new(TestKeys(keys), None).unwrap()))
}

/// A log with records under key `a`, large and small ones, and its contents.
fn written() -> (FakeFileSystem, Vec<Vec<u8>>) {
    let fs = FakeFileSystem::new();
    let log = try_open(&fs, encrypted(SyncMode::Batch)).unwrap().log;
    let contents: Vec<Vec<u8>> =
        (0..30).map(|number| SECRET.repeat(if number % 10 == 3 { 200 } else { 1 + number % 5 })).collect();
    for (number, content) in contents.iter().enumerate() {
        let tables: &[u128] = if number % 4 == 0 { &[1, 2] } else { &[1] };
        log.append(&record(tables, content)).unwrap();
    }
    drop(log);
    (fs.kill(), contents)
}

fn shows(fs: &FakeFileSystem, text: &[u8]) -> bool {
    files(fs).iter().any(|file| fs.bytes(file).windows(text.len()).any(|window| window == text))
}

trait Bytes {
    fn bytes(&self, file: &str) -> Vec<u8>;
}

impl Bytes for FakeFileSystem {
    fn bytes(&self, file: &str) -> Vec<u8> {
        (self as &dyn FileSystem).read(Path::new(file)).unwrap()
    }
}

#[test]
fn encrypted_records_replay_and_no_file_shows_them() {
    let (fs, contents) = written();
    assert!(files(&fs).len() > 5);
    assert!(!shows(&fs, SECRET) && !shows(&fs, b"columns of"));
    let opened = try_open(&fs, encrypted(SyncMode::Batch)).unwrap();
    assert_eq!(opened.contents(), contents);
    let plain = FakeFileSystem::new();
    open(&plain, SyncMode::Batch).log.append(&record(&[1], SECRET)).unwrap();
    assert!(shows(&plain, SECRET) && shows(&plain, b"columns of"));
}

#[test]
fn a_missing_or_another_key_is_an_error_that_names_it_and_changes_no_file() {
    let (fs, contents) = written();
    let skipping = CommitLogOptions { replay: ReplayPolicy::SkipDamaged, ..options(SyncMode::Batch) };
    for (refused, expected) in [
        (options(SyncMode::Batch), "no keys are configured"),
        (skipping, "no keys are configured"),
        (decrypting(&["b"]), "no key \"a\""),
        (with(Arc::new(AesGcm::new(OtherKeys, None).unwrap())), "key \"a\" is not the one"),
    ] {
        let before: Vec<_> = files(&fs).iter().map(|file| (file.clone(), fs.bytes(file))).collect();
        let error = try_open(&fs, refused).err().unwrap();
        assert!(matches!(error, OpenError::Key { .. }));
        let error = error.to_string();
        assert!(error.contains(expected) && error.contains("CommitLog-102-"), "{error}");
        let after: Vec<_> = files(&fs).iter().map(|file| (file.clone(), fs.bytes(file))).collect();
        assert!(before == after);
    }
    assert_eq!(try_open(&fs, decrypting(&["a"])).unwrap().contents(), contents);
}

#[derive(Debug)]
struct OtherKeys;

impl Keys for OtherKeys {
    fn key(&self, _: &str) -> Result<Key, KeyError> {
        Key::new(vec![99; 32])
    }
}

#[test]
fn a_log_with_segments_of_several_keys_and_unencrypted_ones_replays() {
    let fs = FakeFileSystem::new();
    let lives = [None, Some("a"), Some("b"), None, Some("a")];
    for (number, alias) in lives.into_iter().enumerate() {
        let options = CommitLogOptions { encryption: alias.map(encryption), ..options(SyncMode::Batch) };
        let options = if alias.is_none() && number > 0 { decrypting(&["a", "b"]) } else { options };
        let opened = try_open(&fs, options).unwrap();
        assert_eq!(opened.records.len(), number);
        opened.log.append(&record(&[1], &[number as u8; 50])).unwrap();
    }
    let versions: Vec<bool> = files(&fs).iter().map(|file| file.contains("-102-")).collect();
    assert_eq!(versions.iter().filter(|encrypted| **encrypted).count(), 3, "{versions:?}");
    let opened = try_open(&fs, decrypting(&["a", "b"])).unwrap();
    assert_eq!(opened.contents(), (0..5).map(|number| vec![number; 50]).collect::<Vec<_>>());
}

#[test]
fn a_record_with_right_checksums_and_a_false_tag_is_damage() {
    let fs = FakeFileSystem::new();
    let log = try_open(&fs, encrypted(SyncMode::Batch)).unwrap().log;
    let end = log.append(&record(&[1], SECRET)).unwrap();
    log.append(&record(&[1], b"another")).unwrap();
    drop(log);
    let fs = fs.kill();
    let file = files(&fs)[0].clone();
    let mut bytes = fs.bytes(&file);
    let end = end.offset as usize;
    // The record of the secret: framing, kinds, count, index, content, tag.
    let start = end - (12 + 2 + 2 + 2 + SECRET.len() + 16);
    bytes[start + 20] ^= 1;
    let length_checksum: [u8; 4] = bytes[start + 4..start + 8].try_into().unwrap();
    let mut hasher = crc32fast::Hasher::new_with_initial(u32::from_be_bytes(length_checksum));
    hasher.update(&bytes[start + 8..end - 4]);
    bytes[end - 4..end].copy_from_slice(&hasher.finalize().to_be_bytes());
    (&fs as &dyn FileSystem).write_atomically(Path::new(&file), &bytes).unwrap();
    let error = try_open(&fs, encrypted(SyncMode::Batch)).err().unwrap().to_string();
    assert!(error.contains("an encrypted record that fails its authentication"), "{error}");
    let skipping = CommitLogOptions { replay: ReplayPolicy::SkipDamaged, ..encrypted(SyncMode::Batch) };
    assert_eq!(try_open(&fs, skipping).unwrap().contents(), [b"another"]);
}
