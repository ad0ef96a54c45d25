//! Text of a sentence as written, with the byte range of each word (docs/CORPORA.md, "The text as it was written").
//!
//! The tokenizer gets this text unsplit, as in the model's training. The byte ranges assign tokens to words.

use std::iter;
use std::ops::Range;

use itertools::Itertools as _;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenText {
    /// Text of the sentence as written, without leading or trailing white space.
    pub text: String,
    /// Byte range of each word in `text`, ascending and disjoint; empty for a word without characters.
    pub word_ranges: Vec<Range<usize>>,
    /// Whether white space stands between this sentence and the next.
    pub space_after: bool,
}

/// One piece of a written text: a single word, or a multiword token of CoNLL-U with its words.
#[derive(Clone, Debug)]
pub(in crate::corpus) struct SurfaceToken {
    /// Spelling of a multiword token (`zum`); `None` for a single word, whose form is its spelling.
    pub surface: Option<String>,
    /// Number of words in the piece: 1, or the words of the multiword token.
    pub word_count: usize,
    pub space_after: bool,
}

impl SurfaceToken {
    pub fn single_word(space_after: bool) -> Self {
        Self { surface: None, word_count: 1, space_after }
    }

    /// Spelling of the word or multiword token, and the forms of its words, which begin at index `first` of `forms`.
    fn surface<'a>(&'a self, forms: &'a [&'a str], first: usize) -> (&'a str, &'a [&'a str]) {
        let own_forms = &forms[first..first + self.word_count];
        (self.surface.as_deref().unwrap_or(own_forms[0]), own_forms)
    }
}

/// The place at which a written text and its words disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::corpus) struct Misalignment {
    /// Index of the first word that was not found in the text. It equals the number of words if text follows the last word.
    pub word: usize,
    /// Byte offset in the text at which the missing word was expected, or at which the text after the last word begins.
    pub offset: usize,
}

impl WrittenText {
    /// Joins word forms by single spaces, for a sentence whose written text is unknown.
    pub fn join_by_spaces<'a>(forms: impl IntoIterator<Item = &'a str>) -> Self {
        let forms: Vec<&str> = forms.into_iter().collect();
        Self::join(&forms, &vec![SurfaceToken::single_word(true); forms.len()])
    }

    /// Locates the words, given by their `forms`, in `text`. White space is allowed between pieces. Fails if a piece is
    /// missing, or if text follows the last piece.
    pub(in crate::corpus) fn align(text: &str, forms: &[&str], pieces: &[SurfaceToken]) -> Result<Self, Misalignment> {
        let text = text.trim();
        let mut written =
            Self { text: text.to_owned(), word_ranges: Vec::with_capacity(forms.len()), space_after: true };
        let mut at = 0;
        for piece in pieces {
            let (surface, own_forms) = piece.surface(forms, written.word_ranges.len());
            let rest = &text[at..];
            let start = at + rest.len() - rest.trim_start().len();
            let misfit = Misalignment { word: written.word_ranges.len(), offset: start };
            at = if text[start..].starts_with(surface) { start + surface.len() } else { return Err(misfit) };
            written.word_ranges.extend(split_surface(surface, own_forms, start));
            written.space_after = piece.space_after;
        }
        let rest = text[at..].trim_start().len();
        if rest > 0 {
            return Err(Misalignment { word: forms.len(), offset: text.len() - rest });
        }
        Ok(written)
    }

    /// Joins word forms by spaces, except after pieces that no white space follows.
    pub(in crate::corpus) fn join(forms: &[&str], pieces: &[SurfaceToken]) -> Self {
        let mut written = Self { space_after: true, ..Self::default() };
        for piece in pieces {
            if written.space_after && !written.word_ranges.is_empty() {
                written.text.push(' ');
            }
            let (surface, own_forms) = piece.surface(forms, written.word_ranges.len());
            let start = written.text.len();
            written.text.push_str(surface);
            written.word_ranges.extend(split_surface(surface, own_forms, start));
            written.space_after = piece.space_after;
        }
        written
    }
}

/// Maximum number of cells in the table of [`longest_common_subsequence`]: enough for two strings of a thousand characters.
/// Multiword tokens have about a dozen.
const MAX_CELLS: usize = 1 << 20;

/// Divides the spelling of a multiword token (`surface`) among its words. Returns the byte range of each word in a text
/// in which the token begins at byte `start`. Characters go to words along a longest common subsequence with the
/// lower-cased forms; on a tie, the later word gets the character. A character outside the subsequence goes with the
/// character before it, or to the first word. So `zum` gives `zu` and `m` to zu and dem, and all of `au` goes to à.
fn split_surface(surface: &str, forms: &[&str], start: usize) -> impl Iterator<Item = Range<usize>> {
    let mut ends: Vec<usize> = forms.iter().map(|form| form.len()).collect();
    if forms.concat() == surface {
        (1..ends.len()).for_each(|word| ends[word] += ends[word - 1]);
    } else {
        // Byte of the first matched character of each word.
        let mut starts = vec![None; forms.len()];
        for (byte, word) in longest_common_subsequence(surface, forms) {
            starts[word].get_or_insert(byte);
        }
        let mut end = surface.len();
        for word in (1..forms.len()).rev() {
            ends[word] = end;
            end = starts[word].unwrap_or(end);
        }
        ends[0] = end;
    }
    iter::once(0).chain(ends).tuple_windows().map(move |(from, to)| start + from..start + to)
}

/// Finds a longest common subsequence of `surface` and the joined `forms`, ignoring case. Each element is a character's
/// byte offset in `surface`, with the index of its form. Empty if the table would exceed [`MAX_CELLS`].
fn longest_common_subsequence(surface: &str, forms: &[&str]) -> Vec<(usize, usize)> {
    let lower = |c: char| c.to_lowercase().next().unwrap_or(c);
    let of_surface: Vec<(usize, char)> = surface.char_indices().map(|(byte, c)| (byte, lower(c))).collect();
    let of_forms = forms.iter().enumerate().flat_map(|(word, form)| form.chars().map(move |c| (word, lower(c))));
    let of_forms: Vec<(usize, char)> = of_forms.collect();
    let width = of_forms.len() + 1;
    if width.saturating_mul(of_surface.len() + 1) > MAX_CELLS {
        return Vec::new();
    }
    // Cell: the length of a longest common subsequence of two prefixes.
    let mut lengths = vec![0_u32; width * (of_surface.len() + 1)];
    for (row, &(_, c)) in (1..).zip(&of_surface) {
        for (column, &(_, other)) in (1..).zip(&of_forms) {
            let [above, left] = [lengths[(row - 1) * width + column], lengths[row * width + column - 1]];
            let diagonal = lengths[(row - 1) * width + column - 1];
            lengths[row * width + column] = if c == other { diagonal + 1 } else { above.max(left) };
        }
    }
    let mut matches = Vec::new();
    let (mut row, mut column) = (of_surface.len(), of_forms.len());
    while row > 0 && column > 0 {
        let ((byte, c), (word, other)) = (of_surface[row - 1], of_forms[column - 1]);
        if c == other {
            matches.push((byte, word));
            (row, column) = (row - 1, column - 1);
        } else if lengths[(row - 1) * width + column] >= lengths[row * width + column - 1] {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    matches.reverse();
    matches
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts<'a>(surface: &'a str, forms: &[&str]) -> Vec<&'a str> {
        split_surface(surface, forms, 0).map(|word| &surface[word]).collect()
    }

    #[test]
    fn multiword_tokens_are_divided_among_their_words() {
        let cases: [(&str, &[&str], &[&str]); 12] = [
            ("didn't", &["did", "n't"], &["did", "n't"]),
            ("Cannot", &["Can", "not"], &["Can", "not"]),
            ("zum", &["zu", "dem"], &["zu", "m"]),
            ("Im", &["in", "dem"], &["I", "m"]),
            ("ans", &["an", "das"], &["an", "s"]),
            ("del", &["de", "el"], &["d", "el"]),
            ("au", &["à", "le"], &["au", ""]),
            ("du", &["de", "le"], &["du", ""]),
            ("pelo", &["por", "o"], &["pel", "o"]),
            ("dámelo", &["da", "me", "lo"], &["dá", "me", "lo"]),
            ("x", &["a", "b", "c"], &["x", "", ""]),
            ("", &["a", "b"], &["", ""]),
        ];
        for (surface, forms, expected) in cases {
            assert_eq!(parts(surface, forms), expected, "{surface}");
        }
        let long = "a".repeat(2000);
        assert_eq!(parts(&long, &["b", &long]), [&long[..], ""], "too long to be compared");
    }

    /// `I didn't go, sorry.` with a multiword token.
    fn pieces() -> (Vec<&'static str>, Vec<SurfaceToken>) {
        let forms = vec!["I", "did", "n't", "go", ",", "sorry", "."];
        let didnt = SurfaceToken { surface: Some("didn't".to_owned()), word_count: 2, space_after: true };
        let word = SurfaceToken::single_word;
        (forms, vec![word(true), didnt, word(false), word(true), word(false), word(false)])
    }

    #[test]
    fn words_stand_where_the_text_has_them() {
        let (forms, pieces) = pieces();
        let expected = [0..1, 2..5, 5..8, 9..11, 11..12, 13..18, 18..19];
        let joined = WrittenText::join(&forms, &pieces);
        assert_eq!((joined.text.as_str(), joined.space_after), ("I didn't go, sorry.", false));
        assert_eq!(joined.word_ranges, expected);
        assert_eq!(WrittenText::align("I didn't go, sorry.", &forms, &pieces), Ok(joined));
        let wide = WrittenText::align("I  didn't go,\u{a0}sorry . ", &forms, &pieces).unwrap();
        assert_eq!(wide.text, "I  didn't go,\u{a0}sorry .");
        assert_eq!(wide.word_ranges[2..], [6..9, 10..12, 12..13, 15..20, 21..22]);
        assert_eq!(WrittenText::join_by_spaces(["a", "", "b"]).word_ranges, [0..1, 2..2, 3..4]);
    }

    #[test]
    fn a_text_of_other_words_does_not_fit() {
        let (forms, pieces) = pieces();
        let misfit = |text: &str| WrittenText::align(text, &forms, &pieces).unwrap_err();
        assert_eq!(misfit("I did not go, sorry."), Misalignment { word: 1, offset: 2 });
        assert_eq!(misfit("I didn't go, sorry. Really."), Misalignment { word: 7, offset: 20 });
        assert_eq!(misfit(""), Misalignment { word: 0, offset: 0 });
    }

    proptest! {
        #[test]
        fn all_of_a_surface_is_dealt_out(surface in "[aàbß👍]{0,6}", forms in prop::collection::vec("[aàAbẞ👍]{0,3}", 1..4)) {
            let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
            prop_assert_eq!(parts(&surface, &forms).concat(), surface);
        }
    }
}
