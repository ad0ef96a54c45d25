use tokenizers::normalizers::{Lowercase, NFKD, Replace, Sequence};
use tokenizers::{NormalizedString, Normalizer};

use anyhow::{Result, anyhow};

use super::*;
use crate::system::panics::catch_panic;

fn normalized(normalizer: impl Into<BoundedNormalizer>, text: &str) -> Result<String> {
    let normalizer = normalizer.into();
    catch_panic(|| {
        let mut text = NormalizedString::from(text);
        normalizer.normalize(&mut text).map(|()| text.get().to_owned()).map_err(|error| anyhow!("{error}"))
    })?
}

#[test]
fn a_normaliser_does_what_its_parts_do() {
    let parts = Sequence::new(vec![Sequence::new(vec![Lowercase.into()]).into(), NFKD.into()]);
    assert_eq!(normalized(parts, "A\u{fdfa}").unwrap().chars().count(), 19);
    // The character that becomes the most, eleven times its bytes.
    assert_eq!(normalized(NFKD, &"\u{fdfa}".repeat(100_000)).unwrap().len(), 3_300_000);
}

#[test]
fn what_it_would_make_is_refused_before_and_after() {
    let double = || Replace::new("a", "aa").unwrap().into();
    let twice = |times: usize| Sequence::new((0..times).map(|_| double()).collect());
    assert_eq!(normalized(twice(10), "a").unwrap().len(), 1024);
    // The second and the third step are not begun, since they may need more memory than there should be.
    let long = Replace::new("b", "c".repeat(1000)).unwrap();
    let refused = [
        normalized(twice(11), "a"),
        normalized(long, &"b".repeat(5000)),
        normalized(NFKD, &"\u{fdfa}".repeat(140_000)),
    ];
    insta::assert_snapshot!(refused.map(|outcome| outcome.unwrap_err().to_string()).join("\n"), @"
    of 1 bytes of text its normaliser makes more than 1088, the most that are tokenised
    of 5000 bytes of text its normaliser makes more than 4194304, the most that are tokenised
    of 420000 bytes of text its normaliser makes more than 4194304, the most that are tokenised
    ");
}

#[test]
fn parts_of_a_file_are_bounded() {
    let refused = |json: &str| ensure_bounded_file(json.as_bytes()).unwrap_err().to_string();
    let long = "x".repeat(1025);
    let files = [
        format!(r#"{{"model": {{"vocab": {{"{long}": 1}}}}}}"#),
        format!(r#"{{"model": {{"vocab": [["{long}", 0.5]]}}}}"#),
        format!(r#"{{"model": {{"vocab": {{}}, "unk_token": "{long}"}}}}"#),
        format!(r#"{{"normalizer": {{"type": "Prepend", "prepend": "{long}"}}}}"#),
    ];
    insta::assert_snapshot!(files.map(|json| refused(&json)).join("\n"), @"
    a token of its vocabulary has 1025 bytes, and no more than 1024 are read
    a token of its vocabulary has 1025 bytes, and no more than 1024 are read
    unk_token has 1025 bytes, and no more than 1024 are read
    prepend has 1025 bytes, and no more than 1024 are read
    ");
    ensure_bounded_file(br#"{"model": {"vocab": {"a": 0}}, "normalizer": {"type": "Replace", "pattern": {"Regex": "\\p{L}+(?!b)"}, "content": ""}}"#).unwrap();
}

#[test]
fn replacements_of_sentencepiece_are_short() {
    let map = |text: &str| [&4_u32.to_le_bytes()[..], &[0; 4], text.as_bytes(), &[0]].concat();
    ensure_short_replacements(&map(&"x".repeat(1024))).unwrap();
    assert!(ensure_short_replacements(&map(&"x".repeat(1025))).is_err());
    ensure_short_replacements(b"").unwrap();
}
