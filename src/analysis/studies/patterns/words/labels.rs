//! Labels of the study `words`: `tag:<UPOS>`, `same-tag`, `similar-words`, `same-token`.

use anstyle::AnsiColor;

use crate::corpus::Upos;
use crate::study::labels::content::{CONTENT_MASS, assess_content, thresholds};
use crate::study::labels::{Detector, LabelStyle, Parameter, Threshold, VerbPhrase};
use crate::study::metrics::explanation::Explanation;

const MIN_SIMILARITY_GAIN: Threshold = Threshold::rule(
    "similarity_gain",
    0.25,
    "`similarity_gain` above which a head is `similar-words`, in standard deviations of the likeness of its keys",
);

const MASS_THRESHOLDS: &[&Threshold] = &thresholds(&CONTENT_MASS);

/// Returns the UPOS tags with a label `tag:<UPOS>`. Punctuation is left out, since label `punctuation` covers it.
fn label_tags() -> impl Iterator<Item = &'static str> {
    Upos::ALL.into_iter().filter(|tag| *tag != Upos::Punct).map(Upos::tag)
}

pub(super) const TAG_DETECTOR: Detector = Detector {
    thresholds: MASS_THRESHOLDS,
    parameter: Parameter::OneOf("tag", || label_tags().map(str::to_owned).collect()),
    phrase: VerbPhrase::Fixed("attends to words of the class {}"),
    style: LabelStyle::new(None, AnsiColor::BrightMagenta),
    assess: |evidence, policy| {
        let label =
            |tag| assess_content(&format!("tag:{tag}"), "tag_mass", Some(tag), &CONTENT_MASS, (evidence, policy));
        label_tags().flat_map(label).collect()
    },
    ..Detector::new_role(Explanation {
        name: "tag:<UPOS>",
        measures: "The head attends to words of one universal part of speech.",
        formula: "tag_mass_over_chance[p] >= {content_mass} and tag_mass_over_position[p] >= 0, firm if q <= {label_q}",
        chance: "chance.tag_mass[p], and the head's own tag_mass_expected[p]: the score is what it is above the one that it is \
            less far above",
        source: "Heads by word class: Vig & Belinkov 2019, section 4.3.",
        caveats: "The class may be a by-product of something else that such words have in common, such as being rare. \
            Punctuation has a label of its own.",
    })
};

pub(super) const SAME_TAG_DETECTOR: Detector = Detector {
    thresholds: MASS_THRESHOLDS,
    phrase: VerbPhrase::Fixed("attends to words of the same class"),
    style: LabelStyle::new(None, AnsiColor::BrightMagenta),
    assess: |evidence, policy| assess_content("same-tag", "same_tag_mass", None, &CONTENT_MASS, (evidence, policy)),
    ..Detector::new_role(Explanation {
        name: "same-tag",
        measures: "The head attends from a word to others of its own part of speech.",
        formula: "same_tag_mass_over_chance >= {content_mass} and same_tag_mass_over_position >= 0, firm if q <= \
            {label_q}",
        chance: "chance.same_tag_mass, and the head's own same_tag_mass_expected",
        source: "Defined here.",
        caveats: "A head that goes to the same token, or to one frequent class, does this as well.",
    })
};

pub(super) const SIMILAR_WORDS_DETECTOR: Detector = Detector {
    thresholds: &thresholds(&MIN_SIMILARITY_GAIN),
    phrase: VerbPhrase::Fixed("attends to tokens with a like embedding"),
    style: LabelStyle::new(Some("similar"), AnsiColor::BrightMagenta),
    assess: |evidence, policy| {
        assess_content("similar-words", "similarity_gain", None, &MIN_SIMILARITY_GAIN, (evidence, policy))
    },
    ..Detector::new_role(Explanation {
        name: "similar-words",
        measures: "The head attends to tokens whose word embedding is like that of the query.",
        formula: "similarity_gain_over_chance >= {similarity_gain} and similarity_gain_over_position >= 0, \
            firm if q <= {label_q}",
        chance: "0, and the head's own similarity_gain_expected",
        source: "Defined here.",
        caveats: "Likeness is that of the model's own word embeddings, which are alike in spelling and frequency, too.",
    })
};

pub(super) const SAME_TOKEN_DETECTOR: Detector = Detector {
    thresholds: MASS_THRESHOLDS,
    phrase: VerbPhrase::Fixed("attends to other occurrences of the same token"),
    style: LabelStyle::new(None, AnsiColor::BrightMagenta),
    assess: |evidence, policy| assess_content("same-token", "same_token_mass", None, &CONTENT_MASS, (evidence, policy)),
    ..Detector::new_role(Explanation {
        name: "same-token",
        measures: "The head attends from a token to its other occurrences in the sentence.",
        formula: "same_token_mass_over_chance >= {content_mass} and same_token_mass_over_position >= 0, firm if q <= \
            {label_q}",
        chance: "chance.same_token_mass, and the head's own same_token_mass_expected",
        source: "On text, the duplicate-token heads of Wang et al. 2022, section 3.",
        caveats: "Most of what is there again is commas and articles: compare same_word_token_mass.",
    })
};
