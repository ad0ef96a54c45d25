//! Encodes items for a model: token ids, predicted positions, and the reasons why items cannot be scored.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use itertools::Itertools as _;

use super::file::{ClozeText, CorruptedText, Item, ItemContent, TaskFile};
use super::{
    ExchangedPositions, InterchangeInfo, ItemSkip, ItemTexts, RUN_WITH_CORRUPTED_TEXT, SkippedItem, Task, TaskInfo,
    TaskKind, describe_skips,
};
use crate::corpus::{Content, Origin, Sentence, SentenceGroup};
use crate::model::files::Pooling;
use crate::model::forward::batch::ContextExchange;
use crate::model::parameters::ClassLabels;
use crate::model::tokenizer::ModelTokenizer;
use crate::sequences::derived::corrupted::with_next_token_predictions;
use crate::sequences::frame::Frame;
use crate::sequences::sequence::{
    InputToken, ItemPart, PredictedToken, ScoreRule, Sequence, TextCorruption, TripleRole,
};
use crate::sequences::tally::SkipReason;
use crate::sequences::tokenize::SentenceTokenizer;
use crate::system::errors::{ErrorClass, ErrorExt};

/// Encodes the items of a task file for one model.
pub struct TaskReader<'a> {
    pub tokenizer: &'a ModelTokenizer,
    pub max_tokens: usize,
    /// Id of the mask token that the model fills in; `None` if the model predicts the next token.
    pub mask: Option<u32>,
    /// Labels of the model's classification layer; `None` if the model has no such layer.
    pub labels: Option<&'a ClassLabels>,
    /// How the model pools the states of a text into one vector; an error says why that is unknown.
    pub pooling: &'a Result<Pooling, String>,
    /// Number of segment ids that the model has.
    pub segments: usize,
    /// Whether an item that cannot be scored is an error.
    pub strict: bool,
    /// Positions at which heads exchange contexts between a text and its corrupted text; `None` if no contexts are
    /// exchanged.
    pub exchanged_positions: Option<ExchangedPositions>,
}

impl TaskReader<'_> {
    /// Encodes all items of a file. Fails if no item can be scored, or under `strict` if one cannot.
    pub fn read(&self, file: &TaskFile) -> Result<Task> {
        let pooling = (file.kind == TaskKind::Triple).then(|| self.pooling.clone().map_err(Error::msg)).transpose();
        let pooling = pooling.context("it is not known how the model makes one vector of a text");
        let pooling = pooling.with_option("task").class(ErrorClass::Model)?;
        let texts = self.encode_items(file, None, pooling)?;
        let interchanged =
            self.exchanged_positions.map(|positions| self.encode_items(file, Some(positions), pooling)).transpose()?;
        let interchanged = interchanged.unwrap_or_default();
        let TaskFile { name, sha256, kind, .. } = file;
        let info = TaskInfo {
            name: name.clone(),
            sha256: sha256.clone(),
            kind: *kind,
            pooling,
            items: file.items.len() as u64,
            skipped: count_by_reason(&texts.skipped),
            interchange: self
                .exchanged_positions
                .map(|positions| InterchangeInfo { positions, skipped: count_by_reason(&interchanged.skipped) }),
        };
        let mask = self.mask.filter(|_| *kind == TaskKind::Pair);
        Ok(Task { info, texts: ItemTexts { mask, ..texts }, interchanged })
    }

    /// Encodes the texts of each item, with the corrupted texts if contexts are exchanged. Items that cannot be scored are
    /// skipped and listed.
    fn encode_items(
        &self,
        file: &TaskFile,
        exchanged: Option<ExchangedPositions>,
        pooling: Option<Pooling>,
    ) -> Result<ItemTexts> {
        let mut items: Vec<Vec<Sequence>> = Vec::new();
        let mut skipped: Vec<SkippedItem> = Vec::new();
        let mut units = HashSet::new();
        for item in &file.items {
            let family = SentenceGroup { number: item.unit, is_first: !units.contains(&item.unit) };
            let reading = ItemReader { task: self, item, index: items.len() as u64, family, path: &file.path, pooling };
            let texts = match exchanged {
                None => reading.encode_item(),
                Some(positions) => reading.encode_interchanged(positions),
            };
            match texts {
                Ok(sequences) => {
                    units.insert(item.unit);
                    items.push(sequences);
                }
                Err(error) => {
                    // A skip must get no facts before this downcast, which would not find it.
                    let reason = error.downcast::<ItemSkip>().class(ErrorClass::Input)?;
                    let label = self.unknown_label(&item.content).filter(|_| reason == ItemSkip::UnknownLabel);
                    let item = SkippedItem { reason, line: item.line, unknown_label: label.map(str::to_owned) };
                    if self.strict {
                        let named =
                            item.unknown_label.as_ref().map_or_else(String::new, |label| format!(" (`{label}`)"));
                        let error = anyhow!("an item {reason}{named} would be skipped, and --strict skips none");
                        return Err(self.skipped_item_error(error, &item, file));
                    }
                    skipped.push(item);
                }
            }
        }
        if let Some(first) = skipped.first().filter(|_| items.is_empty()) {
            let done = exchanged.map_or("scored", |_| RUN_WITH_CORRUPTED_TEXT);
            let error = anyhow!("no item of the task can be {done}: {}", describe_skips(&skipped));
            return Err(self.skipped_item_error(error, first, file));
        }
        Ok(ItemTexts { items, mask: None, skipped })
    }

    /// First label or foil of an item that the model lacks; `None` if it has them all.
    fn unknown_label<'b>(&self, content: &'b ItemContent) -> Option<&'b str> {
        let labels = self.labels?;
        let is_unknown = |name: &&String| labels.class_number(name).is_none();
        let unknown = match content {
            ItemContent::Classify { label, foil, .. } => [label].into_iter().chain(foil).find(is_unknown),
            ItemContent::Tag { labels, foils, .. } => labels.iter().chain(foils).flatten().find(is_unknown),
            ItemContent::Triple { .. } | ItemContent::Cloze { .. } | ItemContent::Pair { .. } => None,
        };
        unknown.map(String::as_str)
    }

    /// Completes the error about a skipped item with the item's location, a repair hint, the option `--task` and the
    /// error class.
    fn skipped_item_error(&self, error: Error, item: &SkippedItem, file: &TaskFile) -> Error {
        let mask = self.mask.and_then(|mask| self.tokenizer.token(mask));
        error
            .hint(item.reason.repair_hint(mask.as_deref(), self.labels))
            .at_line(&file.path, item.line)
            .with_option("task")
            .class(ErrorClass::Input)
    }

    /// Returns the token id. Fails with the reason if it is the id of the unknown token.
    fn ensure_known(&self, id: u32) -> Result<u32> {
        if Some(id) == self.tokenizer.unknown { Err(ItemSkip::UnknownToken.into()) } else { Ok(id) }
    }
}

fn count_by_reason(skipped: &[SkippedItem]) -> BTreeMap<ItemSkip, u64> {
    let mut counts = BTreeMap::new();
    skipped.iter().for_each(|item| *counts.entry(item.reason).or_default() += 1);
    counts
}

/// Encodes one item of a task file.
struct ItemReader<'a> {
    task: &'a TaskReader<'a>,
    item: &'a Item,
    /// Number of the item among the items that could be scored, counted from 0.
    index: u64,
    family: SentenceGroup,
    path: &'a str,
    pooling: Option<Pooling>,
}

impl ItemReader<'_> {
    /// Encodes the texts of the item, one or several sequences that are scored together.
    fn encode_item(&self) -> Result<Vec<Sequence>> {
        match &self.item.content {
            ItemContent::Classify { text, pair, label, foil } => {
                let labels = self.task.labels.context("a task of classes needs a head that classifies")?;
                let label = labels.class_number(label).ok_or(ItemSkip::UnknownLabel)?;
                let foil = foil.as_ref().map(|foil| foil_class(labels, label, foil)).transpose()?;
                let sequence = self.encode_classified(text, pair.as_deref())?;
                let position = if labels.is_at_last_token { sequence.ids.len() - 1 } else { 0 };
                let predicted = PredictedToken { position, word: 0, input: InputToken::Original, truth: Some(label) };
                let sequence = Sequence { predictions: vec![predicted], ..sequence };
                let foils = foil.into_iter().collect();
                Ok(vec![self.as_item_part(sequence, ScoreRule::Class, Some(label), foils)])
            }
            ItemContent::Tag { words, labels, foils } => Ok(vec![self.encode_tagged(words, labels, foils)?]),
            ItemContent::Triple { texts: [anchor, positive, negative] } => {
                let pooling = self.pooling.context("texts are compared by their vectors, and nothing says by which")?;
                let [positive, negative] = [self.encode_text(positive)?, self.encode_text(negative)?];
                ensure!(positive.ids != negative.ids, ItemSkip::NothingDiffers);
                let texts = [self.encode_text(anchor)?, positive, negative];
                let roles = [TripleRole::Anchor, TripleRole::Positive, TripleRole::Negative];
                let embeds =
                    |(text, role)| self.as_item_part(text, ScoreRule::Embedding(role, pooling), None, Vec::new());
                Ok(texts.into_iter().zip(roles).map(embeds).collect())
            }
            ItemContent::Cloze { text, answer, foil, .. } => Ok(vec![self.encode_cloze(text, [answer, foil])?]),
            ItemContent::Pair { good, bad } => {
                let [good, bad] = self.finish_pair([self.encode_text(good)?, self.encode_text(bad)?])?;
                let sides = [(good, ScoreRule::GoodText), (bad, ScoreRule::BadText)];
                Ok(sides.into_iter().map(|(side, rule)| self.as_item_part(side, rule, None, Vec::new())).collect())
            }
        }
    }

    /// Marks a sequence as part of the item, scored by `rule` with this answer and these foils.
    fn as_item_part(&self, sequence: Sequence, rule: ScoreRule, answer: Option<u32>, foils: Vec<u32>) -> Sequence {
        let part = ItemPart { rule, answer, foils, group: self.item.group.clone(), corruption: None };
        Sequence { item: Some(part), ..sequence }
    }

    /// Encodes a tagging item. Each labelled word is scored at its first token.
    fn encode_tagged(&self, words: &Content, labels: &[Option<String>], foils: &[Option<String>]) -> Result<Sequence> {
        let known = self.task.labels.context("a task of tags needs a head that classifies tokens")?;
        let sequence = self.encode_content(words.clone())?;
        let (mut predictions, mut foil_classes): (Vec<PredictedToken>, Vec<u32>) = (Vec::new(), Vec::new());
        for (word, (label, span)) in labels.iter().zip(&sequence.words).enumerate() {
            let Some(label) = label else { continue };
            let truth = known.class_number(label).ok_or(ItemSkip::UnknownLabel)?;
            // A token that two words share counts for the first word.
            let position = span.start();
            if predictions.last().is_none_or(|last| last.position < position) {
                predictions.push(PredictedToken { position, word, input: InputToken::Original, truth: Some(truth) });
                if let Some(foil) = foils.get(word).and_then(Option::as_ref) {
                    foil_classes.push(foil_class(known, truth, foil)?);
                }
            }
        }
        ensure!(!predictions.is_empty(), ItemSkip::NoLabels);
        Ok(self.as_item_part(Sequence { predictions, ..sequence }, ScoreRule::Class, None, foil_classes))
    }

    /// Encodes a cloze item, a text with a mask or a prompt; `sides` are the answer and the foil.
    fn encode_cloze(&self, ClozeText { text, is_prompt }: &ClozeText, sides: [&str; 2]) -> Result<Sequence> {
        let encoded = if *is_prompt { self.encode_prompt(text, sides) } else { self.encode_masked(text, sides) };
        let (sequence, answer, foil) = encoded?;
        let sequence = Sequence { compared_tokens: vec![answer, foil], ..sequence };
        Ok(self.as_item_part(sequence, ScoreRule::VersusFoil(foil), Some(answer), Vec::new()))
    }

    /// Encodes the text of a cloze item and its corrupted text, between which heads exchange contexts (activation
    /// patching). Fails with the reason unless both agree in length, predicted position, answer and foil.
    fn encode_interchanged(&self, positions: ExchangedPositions) -> Result<Vec<Sequence>> {
        let ItemContent::Cloze { text: clean, answer, foil, corrupted: Some(corrupted) } = &self.item.content else {
            bail!(ItemSkip::NotCorrupted)
        };
        let CorruptedText { text, name } = corrupted;
        let corrupted = ClozeText { text: text.clone(), ..*clean };
        let [mut clean, corrupted] =
            [self.encode_cloze(clean, [answer, foil])?, self.encode_cloze(&corrupted, [answer, foil])?];
        ensure!(clean.ids.len() == corrupted.ids.len(), ItemSkip::OtherLength);
        let place = clean.predictions[0].position;
        ensure!(corrupted.predictions[0].position == place, ItemSkip::OtherPlace);
        let sides = |text: &Sequence| (text.predictions[0].truth, text.item.as_ref().map(|part| part.rule));
        ensure!(sides(&clean) == sides(&corrupted), ItemSkip::OtherAnswer);
        let changed =
            clean.ids.iter().zip(&corrupted.ids).filter(|(clean, corrupted)| clean != corrupted).count() as u64;
        ensure!(changed != 0, ItemSkip::NothingDiffers);
        let exchange = match positions {
            ExchangedPositions::All => ContextExchange::Everywhere,
            ExchangedPositions::Answer => ContextExchange::At(place),
        };
        let part = clean.item.as_mut().expect("the text of an item");
        part.corruption = Some(TextCorruption { name: name.clone(), changed_tokens: changed, exchange });
        Ok(vec![clean, corrupted])
    }

    /// Encodes a text, or a pair of texts, that is to be classified.
    fn encode_classified(&self, text: &Content, pair: Option<&str>) -> Result<Sequence> {
        let first = self.encode_content(text.clone())?;
        let Some(pair) = pair else { return Ok(first) };
        let second = self.encode_text(pair)?;
        let frame = Frame::for_pair(self.task.tokenizer)?.ok_or(ItemSkip::NoPairs)?;
        let both = frame
            .with_segments(self.task.segments)
            .surround(&[&first, &second].map(|text| text.text_tokens().collect()));
        ensure!(both.ids.len() <= self.task.max_tokens, ItemSkip::TooManyTokens);
        Ok(Sequence { index: self.index, family: self.family, ..both })
    }

    /// Encodes a text with one mask, as `(sequence, answer id, foil id)`; `sides` are the answer and the foil.
    fn encode_masked(&self, text: &str, sides: [&str; 2]) -> Result<(Sequence, u32, u32)> {
        let mask = self.task.mask.ok_or(ItemSkip::NeedsPrompt)?;
        let shown = self.task.tokenizer.token(mask).unwrap_or_default();
        let masked = self.encode_text(text)?;
        let masks = (0..masked.ids.len()).filter(|&place| masked.ids[place] == mask);
        let place = masks.exactly_one().map_err(|_| ItemSkip::NotOneMask)?;
        let id = |side: &str| -> Result<u32> {
            let filled = self.encode_text(&text.replacen(&shown, side, 1))?.ids;
            let stays = |at: usize| at == place || filled[at] == masked.ids[at];
            let is_one = filled.len() == masked.ids.len() && (0..filled.len()).all(stays);
            if is_one { self.task.ensure_known(filled[place]) } else { Err(ItemSkip::NotOneToken.into()) }
        };
        let [answer, foil] = ensure_different(sides.map(id))?;
        let word = masked.words_by_token()[place].unwrap_or_default();
        let predictions = vec![PredictedToken::masked(place, word, Some(answer))];
        Ok((Sequence { predictions, ..masked }, answer, foil))
    }

    /// Encodes a prompt, as `(sequence, answer id, foil id)`; `sides` are the answer and the foil.
    fn encode_prompt(&self, prompt: &str, sides: [&str; 2]) -> Result<(Sequence, u32, u32)> {
        ensure!(self.task.mask.is_none(), ItemSkip::NeedsMask);
        let begun = self.encode_text(prompt)?;
        let last = begun.text_positions().last().ok_or(ItemSkip::NoTokens)?;
        let not_one = if prompt.ends_with(' ') { ItemSkip::SpaceAfterPrompt } else { ItemSkip::NotOneToken };
        let id = |side: &str| -> Result<u32> {
            // Without a space, prompt and answer are one word, even if both remain separate tokens.
            let is_of_word = |end: Option<char>| end.is_some_and(char::is_alphanumeric);
            let are_joined = is_of_word(prompt.chars().last()) && is_of_word(side.chars().next());
            ensure!(!are_joined, ItemSkip::JoinedToPrompt);
            let whole = self.encode_text(&format!("{prompt}{side}"))?;
            let is_one = whole.text_positions().last() == Some(last + 1) && whole.ids[..=last] == begun.ids[..=last];
            if is_one { self.task.ensure_known(whole.ids[last + 1]) } else { Err(not_one.into()) }
        };
        let [answer, foil] = ensure_different(sides.map(id))?;
        let word = begun.words_by_token()[last].unwrap_or_default();
        let input = InputToken::NoInput;
        let predictions = vec![PredictedToken { position: last, word, input, truth: Some(answer) }];
        Ok((Sequence { predictions, ..begun }, answer, foil))
    }

    /// Adds a prediction for each word token of both texts after the first token of the sequence, if the model predicts the
    /// next token. Fails if the texts are equal, contain the unknown token, or cannot be scored.
    fn finish_pair(&self, sides: [Sequence; 2]) -> Result<[Sequence; 2]> {
        let [good, bad] = &sides;
        ensure!(good.ids != bad.ids, ItemSkip::NothingDiffers);
        for token in sides.iter().flat_map(Sequence::text_tokens) {
            self.task.ensure_known(token.id)?;
        }
        if self.task.mask.is_some() {
            return Ok(sides);
        }
        ensure!(good.ids[0] == bad.ids[0], ItemSkip::FirstToken);
        let next = |side: &Sequence| with_next_token_predictions(side, None).ok_or(ItemSkip::NoTokens);
        Ok([next(good)?, next(bad)?])
    }

    fn encode_text(&self, text: &str) -> Result<Sequence> {
        self.encode_content(Content::Text(text.to_owned()))
    }

    /// Tokenises a text of the item. Fails with the reason if the item must be skipped.
    fn encode_content(&self, content: Content) -> Result<Sequence> {
        let origin = Origin { file: 0, path: self.path.into(), line: self.item.line };
        let single = Sentence::standalone(self.path, content);
        let sentence = Sentence { index: self.index, origin, family: self.family, ..single };
        let tokenized = SentenceTokenizer::new(self.task.tokenizer, self.task.max_tokens, false).encode(sentence)?;
        match tokenized {
            Ok(sequence) => Ok(Sequence { spellings: Vec::new(), ..sequence }),
            Err(SkipReason::TooManyTokens) => Err(ItemSkip::TooManyTokens.into()),
            Err(SkipReason::NoTokens | SkipReason::WordWithoutTokens) => Err(ItemSkip::NoTokens.into()),
        }
    }
}

/// Number of a foil's class. Fails if the model lacks the class, or if it is the class of the label.
fn foil_class(labels: &ClassLabels, label: u32, foil: &str) -> Result<u32> {
    let foil = labels.class_number(foil).ok_or(ItemSkip::UnknownLabel)?;
    ensure!(foil != label, ItemSkip::NothingDiffers);
    Ok(foil)
}

/// Returns the token ids of answer and foil. Fails if they are equal.
fn ensure_different([answer, foil]: [Result<u32>; 2]) -> Result<[u32; 2]> {
    let (answer, foil) = (answer?, foil?);
    if answer == foil { Err(ItemSkip::NothingDiffers.into()) } else { Ok([answer, foil]) }
}
