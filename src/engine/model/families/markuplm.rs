//! MarkupLM (Li et al. 2022) of text alone: BERT with positions counted from the padding index and an embedding of each
//! word's place in a tree of markup, which is that of no place.

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;

use super::{Family, Markup, Names, PlainText, TableRow, bert};
use crate::model::config::{Config, LARGEST_SIZE, fields};
use crate::system::errors::Facts;

pub(super) const MARKUPLM: Family = Family {
    model_type: "markuplm",
    class: "MarkupLM",
    prefix: "markuplm.",
    // A linear layer that transformers' class has and never calls.
    needless: &["xpath_unitseq2_embeddings"],
    read,
    ..bert::BERT
};

/// The keys that transformers' `MarkupLMConfig` has beside BERT's names, with its defaults.
#[derive(Deserialize)]
#[serde(default)]
struct MarkupLmConfig {
    pad_token_id: u32,
    max_depth: usize,
    xpath_unit_hidden_size: usize,
    max_xpath_tag_unit_embeddings: usize,
    max_xpath_subs_unit_embeddings: usize,
    tag_pad_id: usize,
    subs_pad_id: usize,
}

impl Default for MarkupLmConfig {
    fn default() -> Self {
        Self {
            pad_token_id: 0,
            max_depth: 50,
            xpath_unit_hidden_size: 32,
            max_xpath_tag_unit_embeddings: 256,
            max_xpath_subs_unit_embeddings: 1024,
            tag_pad_id: 216,
            subs_pad_id: 1001,
        }
    }
}

/// No tree of markup is that deep: the published models have 50 levels.
const DEEPEST: usize = 1 << 10;

fn read(text: &str) -> Result<(Config, Names)> {
    let found: MarkupLmConfig = fields(text)?;
    let config = Config { padding: Some(found.pad_token_id), ..Config::parse(text)? }.checked()?;
    let (depth, width) = (found.max_depth, found.xpath_unit_hidden_size);
    for (name, size, most) in [("max_depth", depth, DEEPEST), ("xpath_unit_hidden_size", width, LARGEST_SIZE)] {
        let other = || anyhow!("{name} is {size}: 1 to {most} are expected").of_value(size);
        ensure!((1..=most).contains(&size), other());
    }
    let row = |kind: &str, depth: usize, rows: usize, row: usize| {
        let table = format!("embeddings.xpath_embeddings.xpath_{kind}_sub_embeddings.{depth}");
        TableRow { table, rows, row }
    };
    let none = |depth: usize| {
        let tag = row("tag", depth, found.max_xpath_tag_unit_embeddings, found.tag_pad_id);
        let subscript = row("subs", depth, found.max_xpath_subs_unit_embeddings, found.subs_pad_id);
        [tag, subscript]
    };
    let markup = Markup {
        none: (0..depth).map(none).collect(),
        width,
        inner: "embeddings.xpath_embeddings.xpath_unitseq2_inner",
        // `XPathEmbeddings` has no other.
        inner_width: 4 * config.hidden_size,
        output: "embeddings.xpath_embeddings.inner2emb",
    };
    let names = Names::numbered(&bert::ABSOLUTE, "encoder.layer", &config);
    Ok((config, Names { plain_text: Some(PlainText::Markup(markup)), ..names }))
}
