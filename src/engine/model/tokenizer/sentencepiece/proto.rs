//! Parser of a stored sentencepiece model: the fields of `ModelProto` (`sentencepiece_model.proto`) that make a tokenizer, in the
//! format of protocol buffers (<https://protobuf.dev/programming-guides/encoding>).

use anyhow::{Context, Result, bail, ensure};

/// A sentencepiece model: its vocabulary, and the settings of its tokenizer.
#[derive(Debug, PartialEq)]
pub(super) struct SentencePieceModel {
    /// The vocabulary, by id.
    pub pieces: Vec<Piece>,
    /// Algorithm that cuts text into pieces.
    pub algorithm: Algorithm,
    /// The id of the unknown piece.
    pub unknown: i64,
    /// Replacements of characters that are applied before a text is cut, as a trie and its values; empty if there are none.
    pub replacements: Vec<u8>,
}

/// An entry of a sentencepiece vocabulary.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Piece {
    /// The text of the piece, with `▁` for a space.
    pub text: String,
    /// The logarithm of the piece's probability (unigram), or the negative rank of its merge (BPE).
    pub score: f32,
    /// Type of the piece, `SentencePiece.Type`; see [`CONTROL_TYPE`] and [`USER_DEFINED_TYPE`].
    pub kind: Option<u64>,
}

/// `SentencePiece.Type` of a piece that stands for no text, such as `<s>`.
pub(super) const CONTROL_TYPE: Option<u64> = Some(3);

/// `SentencePiece.Type` of a piece that the trainer's user defined; it stays whole wherever a text contains it.
pub(super) const USER_DEFINED_TYPE: Option<u64> = Some(4);

/// The algorithm that cuts text into pieces, `TrainerSpec.ModelType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Unigram,
    Bpe,
    /// Cuts text into words or characters.
    Other,
}

/// Maximum number of pieces: the largest published vocabulary has a million (XLM-V, Liang et al. 2023).
const MAX_PIECES: usize = 1 << 22;

/// Maximum length of a piece, in bytes. The trainer's default limit is 16 characters (`max_sentencepiece_length`);
/// only user-defined pieces, which are tags, are longer than that.
const MAX_PIECE_BYTES: usize = 1 << 10;

impl SentencePieceModel {
    /// Parses the bytes of a `.model` file. Fails if they are no protocol buffers message, hold no vocabulary, or hold an
    /// invalid piece.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        // Missing fields have the defaults of sentencepiece_model.proto.
        let mut model = Self { pieces: vec![], algorithm: Algorithm::Unigram, unknown: 0, replacements: vec![] };
        for field in Fields(bytes) {
            match field? {
                (1, Field::Bytes(piece)) => {
                    ensure!(model.pieces.len() < MAX_PIECES, "it has more than {MAX_PIECES} pieces");
                    let id = model.pieces.len();
                    model.pieces.push(Piece::parse(piece).with_context(|| format!("piece {id}"))?);
                }
                (2, Field::Bytes(trainer)) => model.read_trainer(trainer).context("trainer_spec")?,
                (3, Field::Bytes(normalizer)) => {
                    for field in Fields(normalizer) {
                        if let (2, Field::Bytes(replacements)) = field.context("normalizer_spec")? {
                            model.replacements = replacements.to_vec();
                        }
                    }
                }
                _ => {}
            }
        }
        ensure!(!model.pieces.is_empty(), "it has no pieces");
        Ok(model)
    }

    /// Reads the algorithm and the unknown id from the message `TrainerSpec`.
    fn read_trainer(&mut self, trainer: &[u8]) -> Result<()> {
        for field in Fields(trainer) {
            match field? {
                (3, Field::Varint(1)) => self.algorithm = Algorithm::Unigram,
                (3, Field::Varint(2)) => self.algorithm = Algorithm::Bpe,
                (3, Field::Varint(_)) => self.algorithm = Algorithm::Other,
                (40, Field::Varint(id)) => self.unknown = id.cast_signed(),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Piece {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut piece = Self::default();
        for field in Fields(bytes) {
            match field? {
                (1, Field::Bytes(text)) => {
                    let bytes = text.len();
                    ensure!(bytes <= MAX_PIECE_BYTES, "it has {bytes} bytes, at most {MAX_PIECE_BYTES} are read");
                    str::from_utf8(text).context("its text is not UTF-8")?.clone_into(&mut piece.text);
                }
                (2, Field::Fixed32(score)) => piece.score = f32::from_le_bytes(score),
                (3, Field::Varint(kind)) => piece.kind = Some(kind),
                _ => {}
            }
        }
        ensure!(!piece.text.is_empty(), "it is empty");
        ensure!(piece.score.is_finite(), "its score is {}", piece.score);
        Ok(piece)
    }
}

/// The value of a field in a protocol buffers message, by its wire type.
#[derive(Debug, PartialEq)]
enum Field<'a> {
    Varint(u64),
    /// Eight bytes; no field that this parser reads has them.
    Fixed64,
    Bytes(&'a [u8]),
    /// Four bytes, lowest first.
    Fixed32([u8; 4]),
}

/// An iterator over the fields of a protocol buffers message, with their numbers. It ends after the first error.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Reads the next field. Returns (its number, its value).
    fn read_field(&mut self) -> Result<(u64, Field<'a>)> {
        let tag = self.read_varint()?;
        let field = match tag & 7 {
            0 => Field::Varint(self.read_varint()?),
            1 => {
                self.take_bytes(8)?;
                Field::Fixed64
            }
            2 => {
                let length = self.read_varint()?;
                Field::Bytes(self.take_bytes(length)?)
            }
            5 => Field::Fixed32(self.take_bytes(4)?.try_into()?),
            other => bail!("a field has wire type {other}"),
        };
        Ok((tag >> 3, field))
    }

    /// Reads a number that is stored in groups of seven bits, lowest first. The highest bit of a byte is set if another byte
    /// follows.
    fn read_varint(&mut self) -> Result<u64> {
        let mut value = 0;
        // Ten groups hold 64 bits.
        for shift in (0..70).step_by(7) {
            let [byte, rest @ ..] = self.0 else { bail!("it ends within a number") };
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        bail!("a number has more than 64 bits")
    }

    /// Removes the first `length` bytes of the message and returns them.
    fn take_bytes(&mut self, length: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (taken, rest) = split.with_context(|| format!("{length} bytes are said to follow, and fewer do"))?;
        self.0 = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read_field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A field of bytes.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn error(model: &[u8]) -> String {
        format!("{:#}", SentencePieceModel::parse(model).unwrap_err())
    }

    #[test]
    fn fields_have_their_values_and_their_defaults() {
        let named = [bytes(1, "▁a".as_bytes()), vec![0x15, 0, 0, 0x80, 0xbf, 0x18, 4]].concat();
        let model = [bytes(1, &named), bytes(1, &[&bytes(1, b"<s>")[..], &[0x18, 3]].concat())].concat();
        let read = SentencePieceModel::parse(&model).unwrap();
        assert_eq!((read.pieces[0].text.as_str(), read.pieces[0].score), ("▁a", -1.0));
        assert!(read.pieces[0].kind == USER_DEFINED_TYPE && read.pieces[1].kind == CONTROL_TYPE);
        assert_eq!((read.algorithm, read.unknown, &read.replacements[..]), (Algorithm::Unigram, 0, &[][..]));
        // Unknown fields are passed over; a negative id has ten bytes.
        let trainer = [&[0x18, 2, 0xc0, 0x02][..], &[0xff; 9], &[1, 0x09], &[0; 8]].concat();
        let whole = [model, bytes(2, &trainer), bytes(3, &bytes(2, b"map"))].concat();
        let read = SentencePieceModel::parse(&whole).unwrap();
        assert_eq!((read.algorithm, read.unknown, &read.replacements[..]), (Algorithm::Bpe, -1, &b"map"[..]));
    }

    #[test]
    fn what_is_no_model_is_told() {
        assert_eq!(error(b""), "it has no pieces");
        assert_eq!(error(&[0x0a, 9, 0]), "9 bytes are said to follow, and fewer do");
        assert_eq!(error(&[0x0b]), "a field has wire type 3");
        assert_eq!(error(&[0xff; 11]), "a number has more than 64 bits");
        assert_eq!(error(&[0xff; 9]), "it ends within a number");
        assert_eq!(error(&bytes(1, b"")), "piece 0: it is empty");
        assert_eq!(
            error(&bytes(1, &[&bytes(1, b"a")[..], &[0x15, 0, 0, 0xc0, 0x7f]].concat())),
            "piece 0: its score is NaN"
        );
        assert!(error(&bytes(1, &bytes(1, &[0xff]))).starts_with("piece 0: its text is not UTF-8"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(model: Vec<u8>, piece: Vec<u8>) {
            let _ = SentencePieceModel::parse(&model);
            let _ = SentencePieceModel::parse(&bytes(1, &piece[..piece.len().min(100)]));
        }
    }
}
