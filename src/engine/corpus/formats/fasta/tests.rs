use super::*;
use crate::corpus::{Corpus, Format, Sentence};

fn read(text: &str) -> Result<Vec<Sentence>> {
    Corpus::from_bytes("test.fasta", text.as_bytes().to_vec(), Format::Fasta).collect()
}

/// The line, the id and the residues of each record.
fn records(text: &str) -> Vec<(u64, Option<String>, String)> {
    let record = |Sentence { origin, id, content, .. }| {
        let Content::Text(residues) = content else { panic!("a protein is no words") };
        (origin.line, id.as_deref().map(str::to_owned), residues)
    };
    read(text).unwrap().into_iter().map(record).collect()
}

fn record(line: u64, id: &str, residues: &str) -> (u64, Option<String>, String) {
    (line, Some(id.to_owned()).filter(|id| !id.is_empty()), residues.to_owned())
}

fn error(text: &str) -> String {
    format!("{:#}", read(text).unwrap_err())
}

#[test]
fn lines_of_a_record_are_one_sequence() {
    let text = "\u{feff}; made by hand\n\n>sp|P1|A first protein\nMKTA\r\n YIA K\n\nQR\n>b\nGG\n; between\nGG\n>c\nW";
    assert_eq!(records(text), [record(3, "sp|P1|A", "MKTAYIAKQR"), record(8, "b", "GGGG"), record(12, "c", "W")]);
    assert_eq!(records("; nothing\n\n"), []);
}

#[test]
fn gaps_and_stops_are_no_residues_and_lower_case_is_no_other_letter() {
    let text = ">aligned\n--MKta..yi-\n-A\n>translated\nMKX*\n>twice\nMK*\n*\n>U\nMUOBZJ\n";
    let expected = [record(1, "aligned", "MKTAYIA"), record(4, "translated", "MKX"), record(6, "twice", "MK")];
    assert_eq!(records(text), [&expected[..], &[record(9, "U", "MUOBZJ")]].concat());
}

#[test]
fn a_record_may_be_empty_and_without_a_name() {
    let long = "x".repeat(MAX_ID_BYTES + 1);
    let text = format!(">\n>none\n>gaps\n---\n>{long} y\nM\n> spaced\nM\n");
    let expected = [record(1, "", ""), record(2, "none", ""), record(3, "gaps", "")];
    assert_eq!(records(&text), [&expected[..], &[record(5, "", "M"), record(7, "spaced", "M")]].concat());
}

#[test]
fn what_is_no_protein_is_refused_at_its_place() {
    let letters = "a sequence has letters, gaps (`-`, `.`), and a stop (`*`) at its end";
    for (text, expected) in [
        (
            "MKT\n",
            "test.fasta:1: a sequence without a header: `MKT`: a record begins with a line `>id description`; a text with a \
             sentence a line is read by --format text"
                .to_owned(),
        ),
        (">a\nMK\n1 MK\n", format!("test.fasta:3: `1` at column 1 is no residue: {letters}")),
        (">a\nM\u{b7}K\n", format!("test.fasta:2: `\u{b7}` at column 2 is no residue: {letters}")),
        (">a\nMK\n >b\n", format!("test.fasta:3: `>` at column 2 is no residue: {letters}")),
        (
            ">a\nMK*\nTA\n",
            "test.fasta:3: `T` at column 1 comes after a stop (`*`), where a protein ends: leave out the stop and what \
             follows it, or make a record of each part"
                .to_owned(),
        ),
    ] {
        assert_eq!(error(text), expected);
    }
    let long = format!(">a\n{}\nM\n", "A".repeat(MAX_SENTENCE_BYTES));
    assert_eq!(
        error(&long),
        "test.fasta:3: the protein has more than 1048576 residues: no encoder takes that much: split it into records"
    );
}
