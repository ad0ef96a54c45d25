//! Reaction SMILES with atom numbers, `REACTANTS>AGENTS>PRODUCTS`, one reaction a line: `[CH3:1][OH:2].[Na+]>>[CH3:1][O-:2] id`.
//!
//! Agents are read as reactants, as models of reactions do. Words are the tokens of Schwaller et al. 2019 (arXiv:1811.02633),
//! without atom numbers, and without brackets that only repeat what bonds imply. Atom numbers become links of type `maps`, from
//! each product atom to the reactant atom with its number and to all atoms equivalent to that one. Candidates are all reactant
//! atoms. The class of an atom is its element.

mod molecule;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use itertools::Itertools as _;

use super::reader::{ParsedSentence, ReaderContext, next_line};
use crate::corpus::annotation::{Annotation, WordClass};
use crate::corpus::bounds::{MAX_ID_BYTES, MAX_LINKS, SentenceSize};
use crate::corpus::lines::Lines;
use crate::corpus::sentence::links::{LinkSet, LinkTypes};
use crate::corpus::sentence::written_text::{SurfaceToken, WrittenText};
use crate::corpus::sentence::{Content, Sentence, TreeHead, Word};
use crate::system::errors::ErrorExt;
use crate::system::printable::excerpt;
use molecule::{Atom, Molecule, SmilesToken};

#[cfg(test)]
mod tests;

pub(super) fn next(lines: &mut Lines, context: &mut ReaderContext) -> Result<Option<ParsedSentence>> {
    next_line(lines, |line| {
        let (smiles, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let id = reaction_name(rest).filter(|id| id.len() <= MAX_ID_BYTES).map(Arc::from);
        ensure_no_table(line)?;
        let (words, links) = words_and_links(parse_sides(smiles)?, &mut context.link_types)?;
        let forms: Vec<&str> = words.iter().map(|word| &*word.form).collect();
        let written = WrittenText::join(&forms, &vec![SurfaceToken::single_word(false); forms.len()]);
        Ok(Sentence { id, links, written: Some(written), ..Sentence::new(Content::Words(words)) }.into())
    })
}

/// Name of the reaction in the `rest` of its line: the first field that is not empty after any CXSMILES extension
/// (`|...|`).
fn reaction_name(rest: &str) -> Option<&str> {
    let rest = rest.trim_start();
    let extended = rest.strip_prefix('|').and_then(|rest| rest.split_once('|'));
    let names = extended.map_or(rest, |(_, after)| after);
    names.split('\t').map(str::trim).find(|field| !field.is_empty())
}

/// Fails if the line begins an MDL file, a table of atoms and bonds that also has the extension `.rxn`.
fn ensure_no_table(line: &str) -> Result<()> {
    let begins = line.trim_start();
    let sign = ["$RXN", "$RDFILE"].into_iter().find(|sign| begins.starts_with(sign));
    let error = |sign| anyhow!("this is an MDL file (`{sign}`), which is not read").with_value(sign);
    let way_out =
        "write each reaction as SMILES with atom numbers, a line each, for example by RDKit's ReactionToSmiles";
    sign.map_or(Ok(()), |sign| Err(error(sign).hint(way_out)))
}

/// Parses a reaction into `[reactants with agents, products]`.
fn parse_sides(smiles: &str) -> Result<[Molecule; 2]> {
    let sides: Vec<&str> = smiles.split('>').collect();
    let [reactants, agents, products] = sides[..] else {
        let error = anyhow!("a reaction has two `>`, and `{}` has {}", excerpt(smiles), sides.len() - 1);
        return Err(error.with_value(smiles).hint("write it as REACTANTS>>PRODUCTS or REACTANTS>AGENTS>PRODUCTS"));
    };
    for (name, side) in [("reactants", reactants), ("products", products)] {
        ensure!(!side.is_empty(), "there are no {name}: `{}`", excerpt(smiles));
    }
    let (mut left, mut right) = (Molecule::default(), Molecule::default());
    left.add_smiles(reactants, 0)?;
    if !agents.is_empty() {
        left.tokens.push(SmilesToken::without_atom("."));
        left.add_smiles(agents, reactants.len() + 1)?;
    }
    right.add_smiles(products, smiles.len() - products.len())?;
    left.ensure_distinct_numbers("reactants")?;
    right.ensure_distinct_numbers("products")?;
    Ok([left, right])
}

/// Words of a reaction, and the links from each product atom to the reactant atoms that it may come from.
fn words_and_links([reactants, products]: [Molecule; 2], types: &mut LinkTypes) -> Result<(Vec<Word>, Vec<LinkSet>)> {
    let first_product_word = reactants.tokens.len() + 1;
    let positions = reactants.atom_positions();
    let numbered: HashMap<u32, usize> =
        reactants.atoms.iter().zip(0..).filter_map(|(atom, index)| Some((atom.map_number()?, index))).collect();
    let classes = reactants.equivalence_classes();
    let equivalent = classes.iter().zip(&positions).into_group_map();
    let (mut maps, mut count) = (LinkSet::new(types.get_by_name("maps")?), 0);
    for (atom, position) in products.atoms.iter().zip(products.atom_positions()) {
        let Some((number, &source)) = atom.map_number().and_then(|number| Some((number, numbered.get(&number)?)))
        else {
            continue;
        };
        let (before, after) = (&reactants.atoms[source].element, &atom.element);
        let changed = || anyhow!("atom {number} is {before} in the reactants and {after} in the products");
        ensure!(before == after, changed().with_value(number));
        let targets = &equivalent[&classes[source]];
        count += targets.len();
        let too_many = || anyhow!("more than {MAX_LINKS} links lead to equivalent atoms of the reactants");
        ensure!(count <= MAX_LINKS, too_many().hint("leave out copies of a molecule"));
        targets.iter().for_each(|&&to| maps.add(first_product_word + position, to));
    }
    maps.candidates = Some(positions.into_iter().collect());
    let links = if maps.targets.is_empty() { Vec::new() } else { vec![maps] };
    let (mut words, mut size) = (Vec::new(), SentenceSize::default());
    for word in reactants.into_words().chain([new_word(">>".to_owned(), None)]).chain(products.into_words()) {
        size.add([&*word.form, word.annotation.class.as_deref().map_or("", |class| &class.name)])?;
        words.push(word);
    }
    Ok((words, links))
}

impl Molecule {
    /// Index among the tokens of each atom's token, `[atoms]`.
    fn atom_positions(&self) -> Vec<usize> {
        (0..self.tokens.len()).filter(|&token| self.tokens[token].atom.is_some()).collect()
    }

    /// Fails if two atoms on one `side` of the reaction have one number.
    fn ensure_distinct_numbers(&self, side: &str) -> Result<()> {
        let twice = self.atoms.iter().filter_map(Atom::map_number).duplicates().next();
        let Some(number) = twice else { return Ok(()) };
        let error = anyhow!("two atoms of the {side} have the number {number}").with_value(number);
        Err(error.hint("give each atom of a side a number of its own, or none"))
    }

    fn into_words(self) -> impl Iterator<Item = Word> + use<> {
        let Self { tokens, atoms, .. } = self;
        tokens
            .into_iter()
            .map(move |SmilesToken { text, atom }| new_word(text, atom.map(|atom| atoms[atom].element.clone())))
    }
}

fn new_word(form: String, element: Option<Box<str>>) -> Word {
    let class = element.map(|name| Arc::new(WordClass { key: "element".into(), name }));
    let annotation = Annotation { class, ..Annotation::default() };
    Word { form, head: TreeHead::Unknown, relation: "_".to_owned(), annotation }
}
