use super::*;
use std::collections::BTreeSet;
use std::path::Path;

use crate::corpus::{AnnotationOptions, Corpus, CorpusScope, Format, Input, Sentence};

fn read(text: &str) -> Result<Vec<Sentence>> {
    Corpus::from_bytes("test.rxn", text.as_bytes().to_vec(), Format::Rxn).collect()
}

fn one(text: &str) -> Sentence {
    let [sentence] = read(text).unwrap().try_into().expect("one reaction");
    sentence
}

fn forms(sentence: &Sentence) -> String {
    let Content::Words(words) = &sentence.content else { panic!("a reaction has words") };
    words.iter().map(|word| &word.form).join(" ")
}

/// The links, words counted from 1, and the candidates.
fn maps(sentence: &Sentence) -> (Vec<(usize, Vec<usize>)>, Vec<usize>) {
    let [maps] = &sentence.links[..] else { panic!("one type of links") };
    let from_1 = |words: &BTreeSet<usize>| words.iter().map(|word| word + 1).collect::<Vec<_>>();
    let links = maps.targets.iter().map(|(from, to)| (from + 1, from_1(to))).collect();
    (links, from_1(maps.candidates.as_ref().unwrap()))
}

#[test]
fn a_reaction_by_hand() {
    // Methanol and a chloride give an ether; sodium stands by.
    let reaction = one("[CH3:1][OH:2].[Cl:3][CH2:4][CH3:5]>[Na+]>[CH3:1][O:2][CH2:4]C made up\n");
    assert_eq!(forms(&reaction), "C O . Cl C C . [Na+] >> C O C C");
    assert_eq!(reaction.id.as_deref(), Some("made up"));
    assert_eq!(reaction.written.as_ref().unwrap().text, "CO.ClCC.[Na+]>>COCC");
    // The last carbon has no number, and sodium is a candidate.
    assert_eq!(maps(&reaction), (vec![(10, vec![1]), (11, vec![2]), (12, vec![5])], vec![1, 2, 4, 5, 6, 8]));
    let Content::Words(words) = &reaction.content else { panic!("a reaction has words") };
    let classes: Vec<_> = words.iter().map(|word| word.annotation.class.as_deref().map(|class| &*class.name)).collect();
    assert_eq!(classes[..4], [Some("C"), Some("O"), None, Some("Cl")]);
    assert_eq!(classes[7..10], [Some("Na"), None, Some("C")]);
}

#[test]
fn equivalent_atoms_are_all_right() {
    // Both ortho and both meta carbons of a phenyl ring, and both molecules of methane.
    let reaction = one(
        "[cH:1]1[cH:2][cH:3][cH:4][cH:5][c:6]1[OH:7].C.[CH4:8]>>[cH:1]1[cH:2][cH:3][cH:4][cH:5][c:6]1[OH:7].[CH4:8]",
    );
    let (links, _) = maps(&reaction);
    let targets: Vec<Vec<usize>> = links.into_iter().map(|(_, targets)| targets).collect();
    assert_eq!(targets, [vec![1, 6], vec![3, 5], vec![4], vec![3, 5], vec![1, 6], vec![7], vec![9], vec![11, 13]]);
    // A neighbour four bonds away tells the methyl groups apart.
    let (links, _) = maps(&one("[CH3:1]CCC[CH3:2]>>[CH3:1]"));
    assert_eq!(links[0].1, [1, 5]);
    let (links, _) = maps(&one("[CH3:1]CC(Cl)[CH3:2]>>[CH3:1]"));
    assert_eq!(links[0].1, [1]);
}

#[test]
fn brackets_go_only_with_nothing_else_in_them() {
    for (numbered, plain) in [
        ("[CH3:1][C:2]([OH:3])=[O:4]", "C C ( O ) = O"),
        ("[CH2:1]=[CH:2][C:3]#[N:4]", "C = C C # N"),
        ("[O:1]=[N:2](=[O:3])[S:4](=[O:5])(=[O:6])[F:7]", "O = N ( = O ) S ( = O ) ( = O ) F"),
        ("[nH:1]1[cH:2][cH:3][n:4][c:5]1[Br:6]", "[nH] 1 c c n c 1 Br"),
        ("[CH3:1][n:2]1[cH:3][cH:4][s:5]1", "C n 1 c c s 1"),
        // A radical, a charge, an isotope, a centre, an element without plain atoms, and atoms without numbers.
        ("[CH2:1][CH2:2].[OH-:3].[2H:4][13CH3:5]", "[CH2] [CH2] . [OH-] . [2H] [13CH3]"),
        ("[CH3:1][C@@H:2]([F:3])[C@TH1:4]([Cl:5])([Br:6])[SiH3:7]", "C [C@@H] ( F ) [C@TH1] ( Cl ) ( Br ) [SiH3]"),
        ("[CH3][CH2:1]%12.[se:2]%12.[NH4+].[Cu+2:3].[*:4]", "[CH3] C %12 . [se] %12 . [NH4+] . [Cu+2] . [*]"),
        (r"[F:1]/[CH:2]=[CH:3]\[F:4].[Fe++:5]", r"F / C = C \ F . [Fe++]"),
    ] {
        let expected = format!("{plain} >> C");
        assert_eq!(forms(&one(&format!("{numbered}>>C"))), expected);
    }
}

/// As `OpenSMILES` has it: `[CH3:0]` is `[CH3]`.
#[test]
fn a_number_of_0_is_none() {
    let reaction = one("[CH3:0][CH2:0][OH:2]>>[CH3:0][CH2:0][OH:2]");
    assert_eq!(forms(&reaction), "C C O >> C C O");
    assert_eq!(maps(&reaction).0, [(7, vec![3])]);
}

#[test]
fn what_is_no_reaction_is_refused() {
    let errors = [
        "$RXN",
        "$RDFILE 1",
        "CCO",
        "C>C>C>C",
        ">>C",
        "C>>",
        "[CH3:1][CH3:1]>>C",
        "[CH4:1]>[OH2:1]>C",
        "C>>[CH3:7][CH3:7]",
        "[CH4:1]>>[NH3:1]",
        "[CH4:1>>C",
        "C>>C(C",
        "C>>CC)",
        "C1CC>>C",
        "C11>>C",
        "C%1>>C",
        "[C:x]>>C",
        "[CH3:1:2]>>C",
        "[:1]>>C",
        "C=>>C",
        "C=.C>>C",
        "C(=)C>>C",
        "=C>>C",
        "CX>>C",
        "é>>C",
        "C>>[é:1]",
    ]
    .map(|line| format!("{:#}", read(&format!("C>>C\n{line}\n")).unwrap_err()));
    insta::assert_snapshot!(errors.join("\n"), @"
    test.rxn:2: this is an MDL file (`$RXN`), which is not read: write each reaction as SMILES with atom numbers, a line each, for example by RDKit's ReactionToSmiles
    test.rxn:2: this is an MDL file (`$RDFILE`), which is not read: write each reaction as SMILES with atom numbers, a line each, for example by RDKit's ReactionToSmiles
    test.rxn:2: a reaction has two `>`, and `CCO` has 0: write it as REACTANTS>>PRODUCTS or REACTANTS>AGENTS>PRODUCTS
    test.rxn:2: a reaction has two `>`, and `C>C>C>C` has 3: write it as REACTANTS>>PRODUCTS or REACTANTS>AGENTS>PRODUCTS
    test.rxn:2: there are no reactants: `>>C`
    test.rxn:2: there are no products: `C>>`
    test.rxn:2: two atoms of the reactants have the number 1: give each atom of a side a number of its own, or none
    test.rxn:2: two atoms of the reactants have the number 1: give each atom of a side a number of its own, or none
    test.rxn:2: two atoms of the products have the number 7: give each atom of a side a number of its own, or none
    test.rxn:2: atom 1 is C in the reactants and N in the products
    test.rxn:2: `[` at character 1 has no `]`
    test.rxn:2: `(` at character 5 has no `)`
    test.rxn:2: `)` at character 6 has no `(`
    test.rxn:2: ring 1, which begins at character 2, is not closed
    test.rxn:2: ring 1 at character 3 has one atom
    test.rxn:2: `%` at character 2 has not two digits after it
    test.rxn:2: `[C:x]` at character 1 is no atom
    test.rxn:2: `[CH3:1:2]` at character 1 is no atom
    test.rxn:2: `[:1]` at character 1 is no atom
    test.rxn:2: `=` at character 2 leads nowhere
    test.rxn:2: `.` at character 3 follows no atom
    test.rxn:2: the bond before `)` at character 4 leads nowhere
    test.rxn:2: `=` at character 1 follows no atom
    test.rxn:2: `X` at character 2 is no part of a SMILES
    test.rxn:2: `é` at character 1 is no part of a SMILES
    test.rxn:2: `[é:1]` at character 4 is no atom
    ");
    // 400 molecules of methane are equivalent: 400 times 400 links.
    let alike: Vec<String> = (1..=400).map(|number| format!("[CH4:{number}]")).collect();
    let alike = alike.join(".");
    let long = format!("{}>>C", "C".repeat(molecule::MAX_ATOMS + 1));
    let errors = [format!("{alike}>>{alike}"), long].map(|line| format!("{:#}", read(&line).unwrap_err()));
    insta::assert_snapshot!(errors.join("\n"), @"
    test.rxn:1: more than 100000 links lead to equivalent atoms of the reactants: leave out copies of a molecule
    test.rxn:1: there are more than 4096 atoms on one side: no encoder takes that much
    ");
}

#[test]
fn ids_and_extensions_stand_behind_a_reaction() {
    let text = "C>>C\n\nC>>C |f:0.1|\tUS1\t2001\r\nC>>C\t\tb\nC>>C |$;_AP1$,f:0.1| made up\nC>>C |f:0.1|\n";
    let reactions = read(text).unwrap();
    let ids: Vec<_> = reactions.iter().map(|reaction| reaction.id.as_deref()).collect();
    assert_eq!(ids, [None, Some("US1"), Some("b"), Some("made up"), None]);
    assert!(reactions.iter().all(|reaction| reaction.links.is_empty()));
}

#[test]
fn reactions_by_number_have_the_links_of_json() {
    let corpus = |name: &str| -> Vec<Sentence> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/corpus/").to_owned() + name;
        let input = Input::parse(Path::new(&path), None).unwrap();
        let corpus =
            Corpus::open_with(&[input], &CorpusScope::all_sentences(), AnnotationOptions::default(), None).unwrap();
        corpus.collect::<Result<_>>().unwrap()
    };
    let (json, smiles) = (corpus("reactions.jsonl"), corpus("reactions.rxn"));
    assert_eq!((json.len(), smiles.len()), (240, 240));
    for (json, smiles) in json.iter().zip(&smiles) {
        assert_eq!((&json.content, &json.links), (&smiles.content, &smiles.links), "{}", smiles.origin);
    }
}
