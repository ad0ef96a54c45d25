//! Pairs of texts, one pair a line: `das Haus ||| the house ||| 0-0 1-1`.
//!
//! Words are separated by white space, and a model reads both texts as a pair. The optional third field has links of type
//! `align`, from words of the first text to words of the second, both counted from 0: alignments in the format of Pharaoh (Koehn
//! 2004) and `fast_align` (Dyer et al. 2013). Candidates are the words of the second text.

use anyhow::{Result, anyhow, ensure};

use super::reader::{ParsedSentence, ReaderContext, next_line};
use crate::corpus::bounds::{MAX_LINKS, SentenceSize};
use crate::corpus::lines::Lines;
use crate::corpus::sentence::links::{LinkSet, LinkTypes};
use crate::corpus::sentence::{Content, Sentence, TreeHead, Word};
use crate::system::errors::ErrorExt;
use crate::system::printable::excerpt;

/// Separator between the fields of a line.
const SEPARATOR: &str = "|||";

pub(super) fn next(lines: &mut Lines, context: &mut ReaderContext) -> Result<Option<ParsedSentence>> {
    next_line(lines, |line| {
        let (words, first, links) = parse_pair(line, &mut context.link_types)?;
        Ok(Sentence { links, first_text_word_count: Some(first), ..Sentence::new(Content::Words(words)) }.into())
    })
}

/// Parses a line into the words of both texts, the number of words in the first text, and the links between them. Fails if
/// the line is malformed.
fn parse_pair(line: &str, types: &mut LinkTypes) -> Result<(Vec<Word>, usize, Vec<LinkSet>)> {
    let tokens: Vec<&str> = line.split_whitespace().collect();
    let fields: Vec<&[&str]> = tokens.split(|&token| token == SEPARATOR).collect();
    let (texts, alignment) = match fields[..] {
        [first, second] => ([first, second], None),
        [first, second, alignment] => ([first, second], Some(alignment)),
        _ => {
            let (shown, count) = (excerpt(line), fields.len());
            let error = anyhow!("a line has two texts between `{SEPARATOR}`, and `{shown}` has {count}");
            return Err(error.hint("write it as FIRST ||| SECOND or FIRST ||| SECOND ||| 0-0 1-2"));
        }
    };
    for (text, ordinal) in texts.iter().zip(["first", "second"]) {
        ensure!(!text.is_empty(), "the {ordinal} text has no words: `{}`", excerpt(line));
    }
    let [first, second] = texts;
    let mut size = SentenceSize::default();
    let mut words = Vec::new();
    for form in first.iter().chain(second) {
        size.add([*form])?;
        words.push(Word::new(*form, TreeHead::Unknown, "_"));
    }
    let Some(alignment) = alignment else { return Ok((words, first.len(), Vec::new())) };
    let too_many = || anyhow!("the alignment has more than {MAX_LINKS} links").hint("split the texts");
    ensure!(alignment.len() <= MAX_LINKS, too_many());
    let mut links = LinkSet::new(types.get_by_name("align")?);
    for link in alignment {
        let ends = link.split_once('-').and_then(|(from, to)| Some([from.parse().ok()?, to.parse().ok()?]));
        let wrong = || anyhow!("`{}` is no link: expected FROM-TO, two numbers of words, as `0-2`", excerpt(link));
        let [from, to]: [usize; 2] = ends.ok_or_else(wrong).with_value(link)?;
        for (number, text, ordinal) in [(from, first, "first"), (to, second, "second")] {
            let last = text.len() - 1;
            let missing = || anyhow!("`{link}`: the {ordinal} text has no word {number}, but words 0 to {last}");
            ensure!(number <= last, missing().with_value(link));
        }
        links.add(from, first.len() + to);
    }
    links.candidates = Some((first.len()..words.len()).collect());
    Ok((words, first.len(), vec![links]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_alignment_becomes_links_between_both_texts() {
        let (words, first, links) =
            parse_pair("das Haus ||| the big house ||| 0-0 1-2 1-1 0-0", &mut LinkTypes::default()).unwrap();
        let forms: Vec<&str> = words.iter().map(|word| &*word.form).collect();
        assert_eq!((forms.join(" "), first), ("das Haus the big house".to_owned(), 2));
        assert_eq!(links[0].targets, BTreeMap::from([(0, [2].into()), (1, [3, 4].into())]));
        assert_eq!((&*links[0].link_type.name, &links[0].candidates), ("align", &Some([2, 3, 4].into())));
        // Without a third field there are no links, with an empty one there are none in this pair.
        let count = |line: &str| parse_pair(line, &mut LinkTypes::default()).unwrap().2.len();
        assert_eq!([count("a ||| b"), count("a ||| b |||")], [0, 1]);
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        for (line, expected) in [
            ("a b", "a line has two texts between `|||`, and `a b` has 1"),
            ("a ||| b ||| 0-0 ||| c", "has 4"),
            (" ||| b", "the first text has no words"),
            ("a ||| ||| 0-0", "the second text has no words"),
            ("a ||| b ||| 0:0", "`0:0` is no link: expected FROM-TO"),
            ("a ||| b ||| 0-x", "`0-x` is no link"),
            ("a ||| b c ||| 0-2", "`0-2`: the second text has no word 2, but words 0 to 1"),
            ("a ||| b ||| 1-0", "`1-0`: the first text has no word 1, but words 0 to 0"),
        ] {
            let error = format!("{:#}", parse_pair(line, &mut LinkTypes::default()).unwrap_err());
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
