//! Files of links: a table with a line for each link.
//!
//! The first line names the columns `sentence`, `from`, `to` and `type`, in any order, separated by tabs or by commas. The table
//! is read once, line by line. Memory holds 16 bytes per link, and the name of each sentence.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::corpus::bounds::{MAX_FILE_LINKS, MAX_ID_BYTES, MAX_LINKS};
use crate::corpus::lines::{Compression, Lines};
use crate::corpus::sentence::links::LinkTypes;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::digest::hex;
use crate::system::files::input;
use crate::system::printable::excerpt;

/// Names of the columns. The fields of a split line have this order, whatever the order in the file.
const COLUMNS: [&str; 4] = ["sentence", "from", "to", "type"];

#[derive(Debug, Default)]
pub struct LinkFile {
    pub path: Arc<str>,
    pub digest: NamedDigest,
    /// Names of the link types in the file.
    pub(super) types: Vec<Box<str>>,
    /// Index into `links` by sentence id.
    pub(super) index_by_id: HashMap<Box<str>, usize>,
    /// Index into `links` by the number of the sentence in the corpus, counted from 0.
    pub(super) index_by_number: HashMap<u64, usize>,
    /// Links of each sentence that the file names, one list per sentence.
    pub(super) links: Vec<Vec<LinkRow>>,
}

/// A link between two words of a sentence, by their numbers, counted from 1.
#[derive(Debug)]
pub(super) struct LinkRow {
    /// Number of the source word, counted from 1.
    pub from: u32,
    /// Number of the target word, counted from 1.
    pub to: u32,
    /// Line of the file that gives the link.
    pub line: u32,
    /// Index into [`LinkFile::types`].
    pub type_index: u8,
}

/// Identity of an input file: its name, and the SHA-256 of its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedDigest {
    /// Name of the file, without folders.
    pub name: String,
    /// SHA-256 of the bytes of the file as stored, in lower-case hexadecimal.
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$"))]
    pub sha256: String,
}

impl NamedDigest {
    pub fn new(path: &Path, sha256: String) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str());
        Self { name: name.to_string_lossy().into_owned(), sha256 }
    }

    pub fn of_text(path: &Path, text: &str) -> Self {
        Self::new(path, hex(&Sha256::digest(text)))
    }
}

impl LinkFile {
    /// Reads a file of links, decompressed by its extension. Fails if it cannot be read, has no link, or has a line that is not a
    /// link; the error names the line.
    pub fn read(path: &Path) -> Result<Self> {
        let opened = input::open(path).cannot("read the links", path.display());
        opened.and_then(|file| Self::from_reader(path, Box::new(file))).with_option("links").class(ErrorClass::Input)
    }

    pub fn from_reader(path: &Path, bytes: Box<dyn Read + Send>) -> Result<Self> {
        let shown: Arc<str> = path.display().to_string().into();
        let (compression, _) = Compression::from_path(path);
        let lines = Lines::new(0, Arc::clone(&shown), bytes, compression, Arc::default());
        let mut lines = lines.cannot("read the links", &shown)?;
        let mut file = Self { path: shown, digest: NamedDigest::new(path, String::new()), ..Self::default() };
        let mut reader = RowReader::default();
        let header = lines.next()?.map(LinkColumns::new).transpose().at_line(&file.path, 1)?;
        let mut number: u32 = 1;
        while let Some(line) = lines.next()? {
            number = number.saturating_add(1);
            if let Some(header) = header.as_ref().filter(|_| !line.trim().is_empty()) {
                let row = header.row(line);
                let added = row.and_then(|row| reader.add(&mut file, row.each_ref().map(|field| &**field), number));
                added.at_line(&file.path, number.into())?;
            }
        }
        let no_link = || anyhow!("`{}` has no link", file.path).with_file(&file.path);
        ensure!(reader.count > 0, no_link().hint(format!("{HEADER_HINT}, and each other line a link")));
        file.digest.sha256 = lines.into_sha256()?;
        Ok(file)
    }

    /// Link types that occur in a single line, possibly by a typing slip; empty if the file has only one type.
    pub fn types_with_one_link(&self) -> Vec<&str> {
        let mut lines = vec![0_u64; self.types.len()];
        self.links.iter().flatten().for_each(|row| lines[usize::from(row.type_index)] += 1);
        let single = self.types.iter().zip(lines).filter(|(_, lines)| *lines == 1);
        if self.types.len() < 2 { Vec::new() } else { single.map(|(kind, _)| &**kind).collect() }
    }

    /// Line number, counted from 1, of the first link in a sentence, given the sentence's index into `links`. 1 for a sentence
    /// without links.
    pub(super) fn first_line_number(&self, sentence: usize) -> u64 {
        self.links[sentence].first().map_or(1, |row| row.line.into())
    }
}

/// State of the reader of a file of links.
#[derive(Default)]
struct RowReader {
    types: LinkTypes,
    /// Index into [`LinkFile::types`] of each type, by its name.
    type_indices: HashMap<Box<str>, u8>,
    /// Number of links read so far.
    count: usize,
}

impl RowReader {
    fn add(&mut self, file: &mut LinkFile, [sentence, from, to, kind]: [&str; 4], line: u32) -> Result<()> {
        self.count += 1;
        let too_many = || anyhow!("the file has more than {MAX_FILE_LINKS} links");
        let way_out = "split it and the corpus, or write links into JSON lines";
        ensure!(self.count <= MAX_FILE_LINKS, too_many().hint(way_out));
        let kind = if let Some(index) = self.type_indices.get(kind) {
            *index
        } else {
            let index = u8::try_from(file.types.len()).context("there are fewer types")?;
            file.types.push(self.types.get_by_name(kind)?.name.clone());
            *self.type_indices.entry(kind.into()).or_insert(index)
        };
        let next = file.links.len();
        let name = if let Some(number) = parse_sentence_number(sentence) {
            *file.index_by_number.entry(number).or_insert(next)
        } else {
            let length = sentence.len();
            let no_id = || anyhow!("`sentence` has {length} bytes: an id has 1 to {MAX_ID_BYTES}").with_value(sentence);
            ensure!((1..=MAX_ID_BYTES).contains(&length), no_id());
            match file.index_by_id.get(sentence) {
                Some(known) => *known,
                None => *file.index_by_id.entry(sentence.into()).or_insert(next),
            }
        };
        if name == next {
            file.links.push(Vec::new());
        }
        let [from, to] = [("from", from), ("to", to)].map(|(column, text)| word_number(column, text));
        let links = &mut file.links[name];
        links.push(LinkRow { from: from?, to: to?, line, type_index: kind });
        let too_many = || anyhow!("sentence `{}` has more than {MAX_LINKS} links", excerpt(sentence));
        ensure!(links.len() <= MAX_LINKS, too_many().hint("split the sentence"));
        Ok(())
    }
}

/// Parses a sentence number, `#5`; `None` if `sentence` is an id.
pub(super) fn parse_sentence_number(sentence: &str) -> Option<u64> {
    let digits = sentence.strip_prefix('#')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Parses the number of a word, counted from 1; errors name the `column`.
fn word_number(column: &str, text: &str) -> Result<u32> {
    let wrong = || anyhow!("`{column}` is `{}`: expected the number of a word, counted from 1", excerpt(text));
    text.trim().parse().ok().filter(|&number| number > 0).ok_or_else(wrong).with_value(text)
}

/// Hint on a first line that does not name the columns.
const HEADER_HINT: &str = "the first line names the columns sentence, from, to and type, separated by tabs or commas";

/// The columns of a file of links, from its first line.
struct LinkColumns {
    separator: char,
    /// Position in a line of each of [`COLUMNS`].
    column_indices: [usize; COLUMNS.len()],
}

impl LinkColumns {
    fn new(line: &str) -> Result<Self> {
        let separator = if line.contains('\t') { '\t' } else { ',' };
        let names = fields(line, separator)?;
        let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
        let place = |column: &str| {
            let missing = || anyhow!("there is no column `{column}`: `{}`", excerpt(line)).hint(HEADER_HINT);
            names.iter().position(|name| *name == column).ok_or_else(missing)
        };
        let [sentence, from, to, kind] = COLUMNS.map(place);
        let places = [sentence?, from?, to?, kind?];
        if let Some(other) = names.iter().enumerate().find(|(place, _)| !places.contains(place)).map(|(_, name)| name) {
            let error = if COLUMNS.contains(other) {
                anyhow!("column `{other}` is given twice")
            } else {
                anyhow!("column `{}` is none of {}", excerpt(other), COLUMNS.join(", "))
            };
            return Err(error.with_value(other).hint("leave it out"));
        }
        Ok(Self { separator, column_indices: places })
    }

    /// Splits a line into its fields, in the order of [`COLUMNS`]. Fails if the line has too few or too many fields.
    fn row<'a>(&self, line: &'a str) -> Result<[Cow<'a, str>; COLUMNS.len()]> {
        let mut fields = fields(line, self.separator)?;
        let count = fields.len();
        let expected = COLUMNS.len();
        ensure!(count == expected, "the line has {count} fields, and the first line {expected}: `{}`", excerpt(line));
        Ok(self.column_indices.map(|place| std::mem::take(&mut fields[place])))
    }
}

/// Splits a line into fields. Quotes enclose CSV fields (RFC 4180); between tabs they are ordinary characters.
fn fields(line: &str, separator: char) -> Result<Vec<Cow<'_, str>>> {
    if separator == '\t' || !line.contains('"') {
        return Ok(line.split(separator).map(Cow::Borrowed).collect());
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let record = reader.records().next().context("the line has a quote and no field")??;
    Ok(record.iter().map(|field| Cow::Owned(field.to_owned())).collect())
}
