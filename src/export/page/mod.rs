//! The page: one self-contained HTML file, made from a report alone.
//!
//! Reading it needs no script. The page's content security policy has the script's digest, so that no other script runs, and
//! nothing is loaded from outside.

mod heads;
pub mod several;

use std::fmt::Write as _;

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use itertools::Itertools;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::palette::{HEAT_MAP_STEPS, Ink};
use super::svg::{Medium, escape_text};
use super::{figures, summary};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::report::{AttentionMaps, Caveat, Report, SentenceUnit, is_about_certainty};
use crate::system::counts::format_count;
use crate::system::printable::one_line;

/// Templates of pages by name; all others fill in the blocks of `base`.
const TEMPLATES: [(&str, &str); 6] = [
    ("base", include_str!("templates/base.html")),
    ("report", include_str!("templates/report.html")),
    ("several", include_str!("templates/several.html")),
    ("changes", include_str!("templates/changes.html")),
    ("attention", include_str!("templates/attention.html")),
    ("runs", include_str!("templates/runs.html")),
];
const STYLE_SHEET: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Instructions for the interactive attention of a sentence.
const INTERACTION_HELP: &str = "Tokens attend on the left and are attended to on the right, the stronger the darker. A token under the pointer has its \
    lines alone, and a click keeps it; arrow keys move, and Escape lets go.";

pub fn render(report: &Report) -> Result<Vec<u8>> {
    let studies = heads::study_sections(report);
    let of_studies = |caveat: &&Caveat| studies.iter().any(|study| study.caveats.iter().any(|one| one.id == caveat.id));
    // Caveats about the meaning of labels come before caveats about their certainty.
    let general = report.caveats.iter().filter(|caveat| !of_studies(caveat));
    let (certainty, meaning): (Vec<_>, Vec<_>) = general.partition(|caveat| is_about_certainty(&caveat.id));
    let (missing, beyond) = heads::missing_studies(report);
    let (first, why_first) = heads::first_card(report);
    let of_maps = |maps| ShownSentence::with_thumbnails(maps, report.model.grid());
    let thumbnails: Vec<ShownSentence> = report.attention_maps.iter().map(of_maps).collect();
    let page = context! {
        title => format!("Attention heads of {}", report.model.id),
        facts => page_facts(report),
        brief => if report.in_brief.is_empty() { vec![heads::firm_roles_sentence(report)] } else { report.in_brief.clone() },
        caveats => Serde([meaning, certainty].concat()),
        heads_across => (0..report.model.heads).collect::<Value>(),
        grid => heads::head_grid(report),
        families => heads::family_rows(report),
        chooses => report.heads.iter().any(|head| head.chooses.is_some()),
        first,
        why_first,
        cards => heads::head_cards(report),
        thumbnails => Serde(thumbnails),
        depth => Value::from_safe_string(figures::draw_named(report, figures::LAYERS_FIGURE, Medium::Page)?),
        studies => Serde(studies),
        controls => summary::controls_text(report),
        metrics => heads::metrics_by_study(report),
        missing,
        beyond => Serde(beyond),
        footer => footer(report),
    };
    fill_template("report", &page)
}

/// Fills a template. Every value is escaped as text, unless it is marked as safe HTML.
/// Fails if `content` lacks what the template shows.
pub fn fill_template(template: &str, content: &impl Serialize) -> Result<Vec<u8>> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    templates.set_formatter(|out, _, value| {
        let text = value.to_string();
        out.write_str(&if value.is_safe() { text } else { escape_text(&text) }).map_err(minijinja::Error::from)
    });
    templates.add_global("style", Value::from_safe_string(colour_css() + STYLE_SHEET));
    templates.add_global("script", Value::from_safe_string(SCRIPT.to_owned()));
    templates.add_global("script_hash", Value::from_safe_string(script_hash()));
    templates.add_global("play", INTERACTION_HELP);
    templates.add_filter("code", |text: String| Value::from_safe_string(code_spans_to_html(&text)));
    for (name, text) in TEMPLATES {
        templates.add_template(name, text)?;
    }
    Ok(templates.get_template(template)?.render(Value::from(Serde(content)))?.into_bytes())
}

/// Escapes a text as HTML; text between backticks becomes code.
fn code_spans_to_html(text: &str) -> String {
    let escaped = escape_text(text);
    let parts: Vec<&str> = escaped.split('`').collect();
    // A backtick without a partner is a backtick.
    if parts.len().is_multiple_of(2) {
        return escaped;
    }
    let part = |(place, part): (usize, &&str)| {
        if place % 2 == 1 { format!("<code>{part}</code>") } else { (*part).to_owned() }
    };
    parts.iter().enumerate().map(part).collect()
}

fn script_hash() -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(SCRIPT)))
}

/// CSS with the colours of both themes as variables, and with a class for each step of a heat map.
fn colour_css() -> String {
    let theme = |side: usize| Ink::all_inks().map(|ink| format!("--{}:{}", ink.name(), ink.colours()[side])).join(";");
    let [light, dark] = [0, 1].map(theme);
    let mut css = format!(
        ":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}@media print{{:root{{{light}}}}}"
    );
    for step in 0..HEAT_MAP_STEPS {
        write!(css, ".c{step}{{background:var(--s{step});color:var(--t{step})}}")
            .expect("writing to a string does not fail");
    }
    css
}

/// Facts that concern all numbers of the page, as (name, value): model, task, corpus, intervals.
fn page_facts(report: &Report) -> Vec<(&'static str, String)> {
    let (model, corpus) = (&report.model, &report.corpus);
    let [sentence, _] = model.text_units();
    let mut facts = vec![(
        "Model",
        format!(
            "{} ({}, {} of {})",
            model.id,
            model.family,
            format_count(model.layers, "layer"),
            format_count(model.heads, "head")
        ),
    )];
    if let Some(task) = &report.settings.protocol.task {
        facts.push(("Task", format!("{}: {}", task.name, format_count(task.items, "item"))));
    }
    if !report.analyses_corpus() {
        return facts;
    }
    let size = summary::corpus_size(model, corpus.sentences, corpus.words, corpus.tokens);
    facts.push(("Corpus", format!("{}: {size}", corpus.name)));
    for (about, remarks) in ["Of the model", "Of the corpus"].into_iter().zip(report.remarks()) {
        if !remarks.is_empty() {
            facts.push((about, remarks.join("; ")));
        }
    }
    let skipped: u64 = corpus.skipped.values().sum();
    if skipped > 0 {
        facts.push(("Left out", format_count(skipped, sentence)));
    }
    facts.push(("Intervals", format!("95 %, sampling over {}", report.unit_in_words())));
    facts
}

fn footer(report: &Report) -> String {
    let run = report.run.as_ref().map_or_else(String::new, |run| format!(", analysed {}", run.started_at));
    format!("{} {}{run}. Layers and heads are counted from 0.", report.tool.name, report.tool.version)
}

#[derive(Serialize)]
pub struct ShownSentence {
    /// Whether the sentence has thumbnails of all heads.
    has_thumbnails: bool,
    about: String,
    /// Data that the script draws, as attributes of an HTML element.
    data: Value,
}

impl ShownSentence {
    /// Shows the attention of all heads of a model over a sentence, with thumbnails.
    pub fn with_thumbnails(maps: &AttentionMaps, grid: HeadGrid) -> Self {
        Self::new(maps, &format!("data-heads={}", grid.heads))
    }

    pub fn for_heads(maps: &AttentionMaps, heads: &[HeadPlace]) -> Self {
        let names = heads.iter().join(" ");
        Self { has_thumbnails: false, ..Self::new(maps, &format!("data-heads=0 data-names=\"{names}\"")) }
    }

    fn new(maps: &AttentionMaps, heads: &str) -> Self {
        // Texts are put on one line before they become JSON, because the escapes of `one_line` are not JSON.
        let json = |value: &serde_json::Value| escape_text(&value.to_string());
        let tokens = json(&maps.tokens.iter().map(|token| one_line(token)).collect());
        let unit = |unit: &SentenceUnit| json!([one_line(&unit.text), unit.tokens[0], unit.tokens[1], unit.is_word]);
        let units = json(&maps.units.iter().map(unit).collect());
        let arcs = json(&maps.arcs.iter().map(|arc| json!([arc.from, arc.to, one_line(&arc.relation)])).collect());
        // Maps consist of letters that need no escape, and have no spaces.
        let maps_of_heads = maps.maps.join(" ");
        let data = format!(
            "{heads} data-tokens=\"{tokens}\" data-units=\"{units}\" data-arcs=\"{arcs}\" data-maps=\"{maps_of_heads}\""
        );
        Self { has_thumbnails: true, about: sentence_heading(maps), data: Value::from_safe_string(data) }
    }
}

fn sentence_heading(maps: &AttentionMaps) -> String {
    let words: Vec<&str> = maps.units.iter().filter(|unit| unit.is_word).map(|unit| unit.text.as_str()).collect();
    let text = if words.is_empty() { maps.tokens.join(" ") } else { words.join(" ") };
    match (maps.sentence, maps.example_of) {
        (Some(sentence), Some(head)) => format!(
            "Sentence {sentence} of the corpus: {text}. It is the typical example of {head}, and the longest of those of the eight heads \
             whose firm roles are the furthest above their thresholds."
        ),
        (Some(sentence), None) => format!("Sentence {sentence} of the corpus: {text}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SentenceArc;

    #[test]
    fn the_script_is_small_and_the_policy_knows_it() {
        assert!(SCRIPT.len() <= 30_000, "{}", SCRIPT.len());
        assert!(!SCRIPT.contains("</"), "a script that ends itself");
        assert!(script_hash().starts_with("sha256-") && script_hash().ends_with('='));
    }

    #[test]
    fn pairs_of_backticks_are_code_and_nothing_else_is_html() {
        assert_eq!(code_spans_to_html("a `b<c` d"), "a <code>b&lt;c</code> d");
        assert_eq!(code_spans_to_html("a ` <b>"), "a ` &lt;b&gt;");
    }

    #[test]
    fn nothing_is_loaded() {
        for text in TEMPLATES.map(|(_, text)| text).into_iter().chain([STYLE_SHEET, SCRIPT]) {
            for word in ["http:", "https:", "//cdn", "url(", "@import", "fetch(", "XMLHttpRequest", "src="] {
                assert!(!text.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn tokens_of_others_stay_in_their_attribute() {
        let tokens = vec!["\"><script>".to_owned(), "\u{202e}\n".to_owned()];
        let maps = AttentionMaps::new(tokens, &[1.0, 0.0, 0.5, 0.5]);
        let data = ShownSentence::with_thumbnails(&maps, HeadGrid { layers: 1, heads: 1 }).data.to_string();
        assert!(!data.contains(['<', '>', '\u{202e}', '\n']), "{data}");
        let json = data.split("data-tokens=\"").nth(1).unwrap().split('"').next().unwrap();
        let json = json.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
        let read: Vec<String> = serde_json::from_str(&json).unwrap();
        assert_eq!(read[0], "\"><script>");
        assert!(data.ends_with("data-maps=\"/Agg\""), "{data}");
        let unit = SentenceUnit { text: "\"><b>\n".to_owned(), tokens: [0, 1], is_word: true };
        let arcs = vec![SentenceArc { from: 0, to: 0, relation: "<i>".to_owned() }];
        let chosen = ShownSentence::for_heads(
            &AttentionMaps { units: vec![unit], arcs, ..maps },
            &[HeadPlace { layer: 0, head: 0 }],
        );
        let data = chosen.data.to_string();
        assert!(data.starts_with("data-heads=0 data-names=\"L0H0\" ") && !data.contains(['<', '>', '\n']), "{data}");
        assert!(data.contains("data-arcs=\"[[0,0,&quot;&lt;i&gt;&quot;]]\""), "{data}");
    }
}
