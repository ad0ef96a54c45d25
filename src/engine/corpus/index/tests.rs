use std::path::PathBuf;

use super::*;

#[test]
fn families_are_told_again() {
    use FamilyId::{Begins, Next, Of};
    let family = |number, is_first| SentenceGroup { number, is_first };
    // Two begin as counted, one is older, one could not be remembered, and the next is counted on.
    let families = [family(5, true), family(6, true), family(2, false), family(1 << 60, true), family(8, true)];
    let mut segment = Segment::new(5);
    assert_eq!(segment.add_piece(piece(5), &families, 5), 9);
    assert_eq!(segment.families, [Next, Next, Of(2), Begins(1 << 60), Next]);
    assert_eq!(segment.families(), families);
}

#[test]
fn what_is_no_index_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("corpus.index");
    let mut whole = Vec::new();
    let mut records = IndexWriter::new(|bytes: &[u8]| {
        whole.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    records.add_segment(&Segment::default()).unwrap();
    assert_eq!(records.finish(&[], RepeatCounts::default(), UnitMarks::default()).unwrap(), 1);
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Index::open(&path)
    };
    assert_eq!(open(&whole).unwrap().read_segment(0).unwrap(), Segment::default());
    for place in 0..whole.len() {
        assert!(open(&whole[..place]).is_err(), "cut at {place}");
        let mut flipped = whole.clone();
        flipped[place] ^= 1;
        let found = open(&flipped).and_then(|index| index.read_segment(0));
        assert!(found.is_err(), "flipped at {place}");
    }
    let other = open(b"headscope index 0\nwhatever").unwrap_err();
    let message = format!("{other:#}").replace(&folder.path().display().to_string(), "DIR");
    insta::assert_snapshot!(message, @"cannot use the index `DIR/corpus.index`: it has another format: make it again with `headscope index`");
}

/// A piece of this many sentences.
fn piece(sentences: u64) -> Piece {
    Piece {
        file: 0,
        sentences,
        before: 0,
        start: 0,
        bytes: 9,
        lines_before: 0,
        sha256: [0; DIGEST_BYTES],
        document: 0,
        documents_before: 0,
        entity_fields: None,
        document_name: None,
    }
}

/// The record of a segment of this many sentences, each its own family.
fn record(sentences: u64) -> Vec<u8> {
    let mut segment = Segment::new(0);
    segment.add_piece(piece(sentences), &(0..sentences).map(SentenceGroup::new).collect::<Vec<_>>(), 0);
    seal(&segment).unwrap()
}

/// The path of an index as anyone can seal one: for a file with this many sentences, with these records and the lengths
/// that it claims.
fn forged(folder: &Path, read: u64, records: &[Vec<u8>], lengths: Vec<u64>) -> PathBuf {
    let file = IndexedFile {
        name: "a.txt".to_owned(),
        format: Format::Text,
        is_compressed: false,
        bytes: 9,
        sha256: "0".repeat(64),
        generated: None,
    };
    let (program, repeats) = (env!("CARGO_PKG_VERSION"), RepeatCounts { read, ..RepeatCounts::default() });
    let contents = seal(&(program, vec![file], repeats, UnitMarks::default(), lengths)).unwrap();
    let length = (contents.len() - DIGEST_BYTES) as u64;
    let beginning = format!("{MAGIC}{FORMAT_VERSION}\n").into_bytes();
    let path = folder.join("forged.index");
    std::fs::write(&path, [beginning, records.concat(), contents, length.to_le_bytes().to_vec()].concat()).unwrap();
    path
}

#[test]
fn segments_have_all_sentences_together() {
    let folder = tempfile::tempdir().unwrap();
    // The segments, each of this many sentences, that can be read from a corpus of 257; `None` if there is no index.
    let readable = |sentences: &[u64]| {
        let records: Vec<Vec<u8>> = sentences.iter().map(|&sentences| record(sentences)).collect();
        let lengths = records.iter().map(|record| record.len() as u64).collect();
        let index = Index::open(&forged(folder.path(), 257, &records, lengths)).ok()?;
        Some((0..index.segment_count()).map(|number| index.read_segment(number).is_ok()).collect::<Vec<bool>>())
    };
    assert_eq!(readable(&[256, 1]), Some(vec![true, true]));
    assert_eq!(readable(&[0, 1]), Some(vec![false, true]));
    assert_eq!(readable(&[255, 2]), Some(vec![false, false]));
    assert_eq!(readable(&[256, 0]), Some(vec![true, false]));
    assert_eq!(readable(&[257, 0]), Some(vec![false, false]));
    for other in [&[][..], &[256], &[256, 1, 0], &[256, 1, 256]] {
        assert_eq!(readable(other), None, "{other:?}");
    }
}

/// The most bytes that were allocated at once.
fn memory(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).bytes_max
}

#[test]
fn what_cannot_be_there_takes_no_memory() {
    const MANY: usize = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let kin = postcard::to_stdvec(&(0_u64, vec![0_u8; MANY], 0_u8)).unwrap();
    let pieces = postcard::to_stdvec(&(0_u64, 0_u8, vec![0_u8; MANY])).unwrap();
    for (what, bytes) in [("kin", kin), ("pieces", pieces)] {
        let record = [&bytes[..], &Sha256::digest(&bytes)].concat();
        let length = record.len() as u64;
        let index = Index::open(&forged(folder.path(), 1, &[record], vec![length])).unwrap();
        let taken = memory(|| assert!(index.read_segment(0).is_err()));
        assert!(taken < length + 10_000, "{taken} bytes for {what}");
    }
    let path = forged(folder.path(), 1, &[record(1)], vec![0; MANY]);
    let taken = memory(|| assert!(Index::open(&path).is_err()));
    assert!(taken < MANY as u64 + 10_000, "{taken} bytes for lengths");
}
