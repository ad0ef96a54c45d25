//! Parses SMILES (`OpenSMILES` 1.0, <http://opensmiles.org/opensmiles.html>) into tokens, atoms and bonds.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Result, anyhow, bail, ensure};

use crate::system::errors::ErrorExt;
use crate::system::printable::excerpt;

/// Maximum number of atoms on each side of a reaction. Colour refinement takes up to one round per atom of the longest
/// chain, so its time is quadratic: half a second for a chain of 4,096. The largest reactions of patents have some hundred.
pub(super) const MAX_ATOMS: usize = 4096;

/// The organic subset: elements that may be written without brackets, each with its normal valences, which imply the number
/// of hydrogens (`OpenSMILES`, 3.1.5).
const ORGANIC_VALENCES: [(&str, &[u32]); 10] = [
    ("B", &[3]),
    ("C", &[4]),
    ("N", &[3, 5]),
    ("O", &[2]),
    ("P", &[3, 5]),
    ("S", &[2, 4, 6]),
    ("F", &[1]),
    ("Cl", &[1]),
    ("Br", &[1]),
    ("I", &[1]),
];

/// Symbols of the aromatic atoms that may be written without brackets.
const AROMATIC_SYMBOLS: &str = "bcnops";

/// One molecule, or several separated by `.`.
#[derive(Default)]
pub(super) struct Molecule {
    pub tokens: Vec<SmilesToken>,
    pub atoms: Vec<Atom>,
    /// Bonds as `(atom, atom, bond)`, atoms by their indices.
    bonds: Vec<(usize, usize, Bond)>,
}

/// A token of a SMILES.
pub(super) struct SmilesToken {
    pub text: String,
    /// Index of the atom that the token writes; `None` for a bond, bracket or other sign.
    pub atom: Option<usize>,
}

impl SmilesToken {
    pub fn without_atom(text: impl Into<String>) -> Self {
        Self { text: text.into(), atom: None }
    }
}

/// An atom of a molecule, as its SMILES describes it.
#[derive(Default)]
pub(super) struct Atom {
    /// Element symbol, capitalised for aromatic atoms too (`C` for `c`).
    pub element: Box<str>,
    /// Atom number in the reaction's atom mapping; `None` or 0 for an unmapped atom.
    number: Option<u32>,
    is_aromatic: bool,
    charge: i32,
    /// Mass number that the brackets give; 0 if they give none.
    isotope: u32,
    /// Number of hydrogens that the brackets give; `None` for an atom without brackets, whose bonds imply it.
    hydrogens: Option<u32>,
    is_chiral: bool,
}

impl Atom {
    /// Atom number in the reaction's atom mapping; `None` for an unmapped atom.
    pub fn map_number(&self) -> Option<u32> {
        self.number.filter(|&number| number > 0)
    }
}

/// Order of a bond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Bond {
    Any,
    Single,
    Aromatic,
    Double,
    Triple,
    Quadruple,
}

impl Bond {
    /// Bond of a SMILES symbol, such as `=`; `None` for other characters.
    fn from_symbol(sign: char) -> Option<Self> {
        Some(match sign {
            '-' | '/' | '\\' => Self::Single,
            '=' => Self::Double,
            '#' => Self::Triple,
            '$' => Self::Quadruple,
            ':' => Self::Aromatic,
            '~' => Self::Any,
            _ => return None,
        })
    }

    /// Units of valence that the bond takes from each of its two atoms. An aromatic bond takes 1; [`implied_hydrogens`]
    /// adds the further unit of an aromatic atom.
    fn valence(self) -> u32 {
        match self {
            Self::Any => 0,
            Self::Single | Self::Aromatic => 1,
            Self::Double => 2,
            Self::Triple => 3,
            Self::Quadruple => 4,
        }
    }
}

/// Parser state within a SMILES.
#[derive(Default)]
struct ParserState {
    /// Index of the latest atom, to which the next atom is bound; `None` at the beginning and after a dot.
    last_atom: Option<usize>,
    /// Bond symbol read before the next atom; `None` if none was written.
    next_bond: Option<Bond>,
    /// Open branches: the atom before each, and the column of its `(`, counted from 1.
    open_branches: Vec<(Option<usize>, usize)>,
    /// Open rings by their number: the first atom, the written bond (`None` if unwritten), and the column, counted from 1.
    open_rings: BTreeMap<u32, (usize, Option<Bond>, usize)>,
}

impl Molecule {
    /// Parses a SMILES that begins after `before` bytes of the line, and adds its atoms. Fails if it is malformed; the
    /// error names the character, by its byte in the line, counted from 1.
    pub fn add_smiles(&mut self, smiles: &str, before: usize) -> Result<()> {
        let first = self.tokens.len();
        let mut read = ParserState::default();
        let mut at = 0;
        while let Some(next) = smiles[at..].chars().next() {
            let length = self.parse_token(&smiles[at..], &mut read, before + at)?;
            at += length.max(next.len_utf8());
        }
        if let Some((_, place)) = read.open_branches.last() {
            bail!(anyhow!("`(` at character {place} has no `)`"));
        }
        if let Some((ring, (_, _, place))) = read.open_rings.iter().next() {
            bail!(anyhow!("ring {ring}, which begins at character {place}, is not closed").with_value(ring));
        }
        let last = self.tokens.last().map_or("", |token| &token.text);
        let loose = || anyhow!("`{last}` at character {} leads nowhere", before + at).with_value(last);
        ensure!(read.last_atom.is_some() && read.next_bond.is_none(), loose());
        self.drop_needless_brackets(first);
        Ok(())
    }

    /// Parses the first token of `rest`, which is not empty and begins after `before` bytes of the line. Returns the length
    /// of the token in bytes.
    fn parse_token(&mut self, rest: &str, read: &mut ParserState, before: usize) -> Result<usize> {
        let place = before + 1;
        let sign = rest.chars().next().unwrap_or_default();
        let mut text = &rest[..sign.len_utf8()];
        if sign == '[' {
            let Some(end) = rest.find(']') else { bail!(anyhow!("`[` at character {place} has no `]`")) };
            text = &rest[..=end];
            let no_atom = || anyhow!("`{}` at character {place} is no atom", excerpt(text)).with_value(text);
            let (atom, shown) = bracket_atom(&text[1..end]).ok_or_else(no_atom)?;
            self.add_atom(atom, shown, read)?;
            return Ok(text.len());
        }
        if let Some(symbol) = organic_symbol(rest) {
            let element = capitalise(symbol);
            let is_aromatic = element != symbol;
            self.add_atom(Atom { element: element.into(), is_aromatic, ..Atom::default() }, symbol.to_owned(), read)?;
            return Ok(symbol.len());
        }
        let unbound = || anyhow!("`{sign}` at character {place} follows no atom").with_value(sign);
        if let Some(bond) = Bond::from_symbol(sign) {
            ensure!(read.last_atom.is_some() && read.next_bond.is_none(), unbound());
            read.next_bond = Some(bond);
        } else if sign == '(' {
            ensure!(read.last_atom.is_some() && read.next_bond.is_none(), unbound());
            read.open_branches.push((read.last_atom, place));
        } else if sign == ')' {
            let unopened = || anyhow!("`)` at character {place} has no `(`");
            (read.last_atom, _) = read.open_branches.pop().ok_or_else(unopened)?;
            ensure!(read.next_bond.take().is_none(), anyhow!("the bond before `)` at character {place} leads nowhere"));
        } else if sign == '.' {
            ensure!(read.last_atom.take().is_some() && read.next_bond.is_none(), unbound());
        } else if sign == '%' || sign.is_ascii_digit() {
            let digits = if sign == '%' { rest.get(1..3) } else { Some(text) };
            let ring = digits.filter(|digits| is_number(digits)).and_then(|digits| digits.parse().ok());
            let ring: u32 = ring.ok_or_else(|| anyhow!("`%` at character {place} has not two digits after it"))?;
            text = if sign == '%' { &rest[..3] } else { text };
            let atom = read.last_atom.ok_or_else(unbound)?;
            let bond = read.next_bond.take();
            match read.open_rings.remove(&ring) {
                Some((other, ..)) if other == atom => bail!(anyhow!("ring {ring} at character {place} has one atom")),
                Some((other, earlier, _)) => self.add_bond(other, atom, earlier.or(bond)),
                None => drop(read.open_rings.insert(ring, (atom, bond, place))),
            }
        } else {
            bail!(anyhow!("`{}` at character {place} is no part of a SMILES", sign.escape_debug()).with_value(sign));
        }
        self.tokens.push(SmilesToken::without_atom(text));
        Ok(text.len())
    }

    fn add_atom(&mut self, atom: Atom, text: String, read: &mut ParserState) -> Result<()> {
        let too_many = || anyhow!("there are more than {MAX_ATOMS} atoms on one side: no encoder takes that much");
        ensure!(self.atoms.len() < MAX_ATOMS, too_many());
        let place = self.atoms.len();
        self.atoms.push(atom);
        self.tokens.push(SmilesToken { text, atom: Some(place) });
        let bond = read.next_bond.take();
        if let Some(last) = read.last_atom.replace(place) {
            self.add_bond(last, place, bond);
        }
        Ok(())
    }

    /// Adds a bond between two atoms. An unwritten bond is aromatic between aromatic atoms, and single elsewhere.
    fn add_bond(&mut self, a: usize, b: usize, bond: Option<Bond>) {
        let are_aromatic = [a, b].iter().all(|&atom| self.atoms[atom].is_aromatic);
        let unwritten = if are_aromatic { Bond::Aromatic } else { Bond::Single };
        self.bonds.push((a, b, bond.unwrap_or(unwritten)));
    }

    /// Sum of the bond orders of each atom, `[atoms]`.
    fn valences(&self) -> Vec<u32> {
        let mut valences = vec![0; self.atoms.len()];
        for &(a, b, bond) in &self.bonds {
            valences[a] += bond.valence();
            valences[b] += bond.valence();
        }
        valences
    }

    /// Drops needless brackets of atoms with a map number, from token `first` on. Brackets are needless if they give
    /// nothing but that number and the hydrogens that the bonds imply.
    fn drop_needless_brackets(&mut self, first: usize) {
        let valences = self.valences();
        for token in &mut self.tokens[first..] {
            let Some(index) = token.atom else { continue };
            let Atom { ref element, number, is_aromatic, charge, isotope, hydrogens, is_chiral } = self.atoms[index];
            let symbol = if is_aromatic { element.to_lowercase() } else { element.to_string() };
            let implied = implied_hydrogens(element, is_aromatic, valences[index]);
            let is_implied = implied.is_some() && implied == hydrogens && organic_symbol(&symbol) == Some(&symbol);
            if is_implied && number.is_some() && (charge, isotope, is_chiral) == (0, 0, false) {
                token.text = symbol;
            }
        }
    }

    /// Equivalence class of each atom by colour refinement (Weisfeiler & Leman 1968), from elements, aromaticity, charges,
    /// isotopes, hydrogens and bonds. Stereochemistry is ignored.
    pub fn equivalence_classes(&self) -> Vec<usize> {
        let valences = self.valences();
        let own = |(atom, &valence): (&Atom, &u32)| {
            let hydrogens = || implied_hydrogens(&atom.element, atom.is_aromatic, valence).unwrap_or(0);
            let hydrogens = atom.hydrogens.unwrap_or_else(hydrogens);
            (atom.element.clone(), atom.is_aromatic, atom.charge, atom.isotope, hydrogens)
        };
        let (mut classes, mut count) = number_distinct(self.atoms.iter().zip(&valences).map(own));
        loop {
            let mut around: Vec<Vec<(Bond, usize)>> = vec![Vec::new(); classes.len()];
            for &(a, b, bond) in &self.bonds {
                around[a].push((bond, classes[b]));
                around[b].push((bond, classes[a]));
            }
            around.iter_mut().for_each(|around| around.sort_unstable());
            let (finer, more) = number_distinct(classes.iter().copied().zip(around));
            if more == count {
                return classes;
            }
            (classes, count) = (finer, more);
        }
    }
}

/// Numbers distinct values in the order of their first occurrence. Returns the number of each value, and the count of
/// distinct values.
fn number_distinct<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> (Vec<usize>, usize) {
    let mut numbers = HashMap::new();
    let numbered = values.map(|value| {
        let next = numbers.len();
        *numbers.entry(value).or_insert(next)
    });
    (numbered.collect(), numbers.len())
}

/// Number of hydrogens that an atom without brackets has if its bonds take `taken` units of valence. Hydrogens fill the
/// smallest sufficient valence. An aromatic atom takes one unit more, and only its first valence counts. `None` if the
/// element needs brackets.
fn implied_hydrogens(element: &str, is_aromatic: bool, taken: u32) -> Option<u32> {
    let (_, valences) = ORGANIC_VALENCES.iter().find(|(known, _)| *known == element)?;
    let taken = taken + u32::from(is_aromatic);
    let usable = if is_aromatic { &valences[..1] } else { valences };
    Some(usable.iter().find(|&&valence| valence >= taken).map_or(0, |valence| valence - taken))
}

/// Symbol at the beginning of `text` that needs no brackets: of the organic subset, aromatic, or `*`. `None` if there is
/// none.
fn organic_symbol(text: &str) -> Option<&str> {
    let is_aromatic = text.starts_with(|first: char| AROMATIC_SYMBOLS.contains(first));
    let symbols = ORGANIC_VALENCES.iter().map(|(symbol, _)| *symbol).filter(|symbol| text.starts_with(symbol));
    let length = symbols.map(str::len).max().or((is_aromatic || text.starts_with('*')).then_some(1));
    length.map(|length| &text[..length])
}

/// Capitalises a symbol: `C` for `c`, `Se` for `se`.
fn capitalise(symbol: &str) -> String {
    let (first, rest) = symbol.split_at(1.min(symbol.len()));
    first.to_uppercase() + rest
}

/// Parses the text within brackets into the atom and its token without the atom number (`[Na+]`). `None` if it is no atom.
fn bracket_atom(text: &str) -> Option<(Atom, String)> {
    if !text.is_ascii() {
        return None;
    }
    let (inner, number) = match text.split_once(':') {
        Some((inner, number)) => (inner, Some(number.parse().ok().filter(|_| is_number(number))?)),
        None => (text, None),
    };
    let (isotope, rest) = leading_digits(inner);
    let symbol = match rest.as_bytes() {
        [b'*', ..] | [b'A'..=b'Z'] => &rest[..1],
        [b'A'..=b'Z', b'a'..=b'z', ..] => &rest[..2],
        _ if ["se", "as", "te", "si"].iter().any(|symbol| rest.starts_with(symbol)) => &rest[..2],
        [b'A'..=b'Z', ..] => &rest[..1],
        [first, ..] if AROMATIC_SYMBOLS.contains(char::from(*first)) => &rest[..1],
        _ => return None,
    };
    let element = capitalise(symbol);
    let mut rest = &rest[symbol.len()..];
    let is_chiral = rest.starts_with('@');
    rest = rest.trim_start_matches('@');
    for class in ["TH", "AL", "SP", "TB", "OH"] {
        let (digits, after) = rest.strip_prefix(class).filter(|_| is_chiral).map_or(("", rest), leading_digits);
        rest = if digits.is_empty() { rest } else { after };
    }
    let mut hydrogens = 0;
    if let Some(after) = rest.strip_prefix('H') {
        let (digits, after) = leading_digits(after);
        hydrogens = if digits.is_empty() { 1 } else { digits.parse().ok()? };
        rest = after;
    }
    let mut charge = 0;
    if let Some(sign) = rest.chars().next().filter(|sign| "+-".contains(*sign)) {
        let (digits, after) = leading_digits(&rest[1..]);
        let signs = rest.chars().take_while(|next| *next == sign).count();
        rest = if digits.is_empty() { &rest[signs..] } else { after };
        let size = if digits.is_empty() { i32::try_from(signs).ok()? } else { digits.parse().ok()? };
        charge = if sign == '+' { size } else { -size };
    }
    let isotope = if isotope.is_empty() { 0 } else { isotope.parse().ok()? };
    let is_aromatic = element != symbol;
    let atom =
        Atom { element: element.into(), number, is_aromatic, charge, isotope, hydrogens: Some(hydrogens), is_chiral };
    rest.is_empty().then(|| (atom, format!("[{inner}]")))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits off the digits at the beginning of a text: `(digits, rest)`.
fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}
