//! The attention of a head over a sentence: blocks or numbers for a terminal, arcs for a figure or a page.

use std::fmt::Write as _;
use std::ops::Range;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use itertools::Itertools;
use minijinja::context;
use minijinja::value::{Serde, Value};
use textwrap::core::display_width;

use super::figures;
use super::page::{ShownSentence, fill_template};
use super::svg::{Medium, truncate_text};
use crate::model::grid::HeadPlace;
use crate::sequences::fold::words::WordAttention;
use crate::study::show::figure::{Arc, ArcMatch, ArcSentence, Arcs};
use crate::system::counts::plural;
use crate::system::printable::one_line;

/// Attention of one head over one sentence, between words and special tokens.
#[derive(Clone, Debug)]
pub struct SentenceAttention {
    pub head: HeadPlace,
    /// Index of the sentence, counted from 0.
    pub sentence: u64,
    pub id: Option<String>,
    /// Text of each unit (word or special token), `[units]`.
    pub unit_texts: Vec<String>,
    /// Whether each unit is a word and not a special token, `[units]`.
    pub is_word: Vec<bool>,
    /// Annotated arcs that are drawn beside the attention; `None` if the sentence has no annotation to compare.
    pub gold: Option<GoldArcs>,
    /// Range of units that each unit sees, `[units]`: in a decoder, the unit itself and all before it.
    pub visible_units: Vec<Range<usize>>,
    /// Attention from each unit to each unit, `[units, units]`; 0 to units outside `visible_units`.
    pub weights: WordAttention,
}

/// Arcs of annotation that are compared with attention: a dependency tree, a relation, or links.
#[derive(Clone, Debug)]
pub struct GoldArcs {
    /// Name of the relation, or of the link type; `None` for a complete tree.
    pub name: Option<String>,
    /// Noun for the end of an arc: `head` (a syntactic head), or `target` of a link.
    pub end_noun: &'static str,
    /// Arcs as `[from, to]` unit indices, ascending.
    pub arcs: Vec<[usize; 2]>,
}

impl GoldArcs {
    /// Legend of the mark `>` in a cell, which stands for an arc from the word of the row to the word of the column.
    fn legend(&self) -> String {
        let of = self.name.as_ref().map_or_else(|| "in the tree".to_owned(), |name| format!("by {}", one_line(name)));
        format!("> the {} {of}", self.end_noun)
    }
}

impl SentenceAttention {
    fn title(&self) -> String {
        let id = self.id.as_ref().map_or_else(String::new, |id| format!(" ({id})"));
        format!("{}, sentence {}{id}", self.head, self.sentence)
    }

    /// Whether the gold arcs have an arc from the unit `from` to the unit `to`.
    fn is_gold(&self, from: usize, to: usize) -> bool {
        self.gold.as_ref().is_some_and(|gold| gold.arcs.binary_search(&[from, to]).is_ok())
    }

    /// Counts of the words that have arcs to others: `[matched forward, matched backward, all]`.
    /// Forward: of the other words, the one to which the word attends most is a target of its arcs.
    /// Backward: of the other words, the one that attends most to the word is a target of its arcs.
    /// `None` for a complete tree, where each word has an arc, and for a sentence without annotation.
    fn match_counts(&self) -> Option<[usize; 3]> {
        let GoldArcs { name: Some(_), arcs, .. } = self.gold.as_ref()? else { return None };
        let sources: Vec<usize> = arcs.iter().map(|[from, _]| *from).dedup().collect();
        let finds = |weight: &dyn Fn(usize, usize) -> f64| {
            let is_found = |source: &&usize| {
                let others = (0..self.unit_texts.len()).filter(|&other| self.is_word[other] && other != **source);
                let best = others.map(|other| (other, weight(**source, other)));
                let best = best.reduce(|best, next| if next.1 > best.1 { next } else { best });
                best.is_some_and(|(other, _)| self.is_gold(**source, other))
            };
            sources.iter().filter(is_found).count()
        };
        let forward = finds(&|source, other| self.weights.get(source, other));
        Some([forward, finds(&|source, other| self.weights.get(other, source)), sources.len()])
    }

    /// Whether each unit sees only itself and earlier units.
    fn is_causal(&self) -> bool {
        self.visible_units.iter().enumerate().all(|(unit, seen)| seen.end == unit + 1)
    }

    /// Unit to which `unit` attends most, with the weight; the first unit wins a tie.
    fn most_attended(&self, unit: usize) -> (usize, f64) {
        let row = self.weights.row(unit).iter().copied().enumerate();
        row.reduce(|best, next| if next.1 > best.1 { next } else { best }).unwrap_or((unit, 0.0))
    }
}

/// Minimum attention weight for each block character, in descending order; lower weights are blank.
const BLOCK_CHARACTERS: [(f64, char); 4] = [(0.7, '█'), (0.4, '▓'), (0.2, '▒'), (0.05, '░')];
const ATTENTION_STYLE: Style = AnsiColor::Blue.on_default();
const GOLD_STYLE: Style = AnsiColor::Yellow.on_default().bold();

/// Label of the grid's two axes: the word of the row attends to the word of the column.
const AXES_LABEL: &str = "from\\to";
/// Maximum number of characters of a word in the grid; longer words are cut.
const MAX_WORD_CHARACTERS: usize = 16;

/// Draws attention as a text grid, in several parts if the terminal has no room for all columns.
pub fn text_grid(viewed: &SentenceAttention, numbers: bool, width: Option<usize>) -> String {
    let count = viewed.unit_texts.len();
    let texts: Vec<String> =
        viewed.unit_texts.iter().map(|text| truncate_text(&one_line(text), MAX_WORD_CHARACTERS)).collect();
    let widest = texts.iter().map(|text| display_width(text)).max().unwrap_or(0);
    let cell = if numbers { 5 } else { 3 };
    let left = count.to_string().len() + 1 + widest + 1;
    // `-> word 0.81` stands to the right of the last part.
    let right = 10 + widest;
    let room = width.map_or(count, |width| width.saturating_sub(left + right) / cell).clamp(1, count.max(1));
    let mut out = format!("{}\n", one_line(&viewed.title()));
    for start in (0..count).step_by(room) {
        let columns = start..(start + room).min(count);
        let _ = write!(out, "{:left$}", if left > AXES_LABEL.len() { AXES_LABEL } else { "" });
        columns.clone().for_each(|column| {
            let _ = write!(out, "{:>cell$}", column + 1);
        });
        out.push('\n');
        for (row, text) in texts.iter().enumerate() {
            let padding = widest - display_width(text);
            let _ = write!(out, "{:>1$} {text}{2:padding$} ", row + 1, count.to_string().len(), "");
            columns.clone().for_each(|column| out.push_str(&cell_text(viewed, [row, column], numbers)));
            let (to, weight) = viewed.most_attended(row);
            let _ = writeln!(out, "  -> {} {weight:.2}", texts[to]);
        }
    }
    let scale = BLOCK_CHARACTERS.iter().rev().map(|(least, block)| format!("{block} {least}")).join(", ");
    let scale = if numbers { String::new() } else { format!("{scale} and more") };
    let gold = viewed.gold.as_ref().map(GoldArcs::legend).unwrap_or_default();
    let legend = [scale, gold].iter().filter(|part| !part.is_empty()).join("; ");
    if !legend.is_empty() {
        let _ = writeln!(out, "{legend}");
    }
    if let Some(match_counts) = viewed.match_counts() {
        let _ = writeln!(out, "{}", match_count_sentence(viewed, match_counts));
    }
    out
}

/// Sentence on how many words the head matches with a target of their arcs, from the counts of
/// [`SentenceAttention::match_counts`].
fn match_count_sentence(viewed: &SentenceAttention, [forward, back, all]: [usize; 3]) -> String {
    let (name, end) = viewed.gold.as_ref().map_or((None, ""), |gold| (gold.name.as_deref(), gold.end_noun));
    let name = one_line(name.unwrap_or_default());
    match all {
        0 => format!("{name}: none in this sentence"),
        1 => {
            let [attends, is] = [(forward, ["attends", "does not attend"]), (back, ["is", "is not"])]
                .map(|(matches, [yes, no])| if matches > 0 { yes } else { no });
            format!("{name}: the only word {attends} most to its {end}, and {is} attended to most by it")
        }
        _ => {
            let number = |count: usize| if count == 0 { "none".to_owned() } else { count.to_string() };
            let attend = plural(&forward, "attends most to its", "attend most to their");
            let (is, [forward, back]) = (plural(&back, "is", "are"), [forward, back].map(number));
            format!("{name}: of {all} words {forward} {attend} {end}; {back} {is} attended to most by it")
        }
    }
}

/// Text of a grid cell: `>` for an arc or a blank, then the weight as two block characters or as a number.
/// A number is blank where the row's unit cannot see the column's unit.
fn cell_text(viewed: &SentenceAttention, [row, column]: [usize; 2], numbers: bool) -> String {
    let weight = viewed.weights.get(row, column);
    let is_gold = viewed.is_gold(row, column);
    let (mark, style) = if is_gold { ('>', GOLD_STYLE) } else { (' ', ATTENTION_STYLE) };
    let text = if numbers {
        if !viewed.visible_units[row].contains(&column) {
            return format!(" {mark}   ");
        }
        let text = format!("{weight:.2}");
        let short = text.strip_prefix('0').map_or_else(|| "1.0".to_owned(), str::to_owned);
        // A weight near 0 is not worth reading.
        format!(" {mark}{:>3}", if short == ".00" && !is_gold { "-" } else { &short })
    } else {
        let block = BLOCK_CHARACTERS.iter().find(|(least, _)| weight >= *least).map_or(' ', |(_, block)| *block);
        format!("{mark}{block}{block}")
    };
    if text.trim().is_empty() || (numbers && !is_gold) { text } else { format!("{style}{text}{style:#}") }
}

/// Drawing of attention: an arc from each word to the unit that it attends to most, above the arcs of the tree or links.
/// Returns the title, a guide to reading the drawing, and the arcs.
fn arc_drawing<'a>(viewed: impl Iterator<Item = &'a SentenceAttention> + Clone) -> (String, String, Arcs) {
    let heads = viewed.clone().map(|sentence| sentence.head.to_string()).unique().join(", ");
    let gold = viewed.clone().find_map(|sentence| sentence.gold.as_ref());
    let gold = gold.map_or_else(String::new, |gold| {
        let of = gold.name.as_deref().unwrap_or("the tree");
        format!(" Those of {of} are below; blue are those that are the same.")
    });
    let is_causal = viewed.clone().all(SentenceAttention::is_causal);
    let causal = if is_causal { " None goes to the right, for a word sees none after it." } else { "" };
    let title = format!("Attention of {heads}");
    let reading =
        format!("Arcs go from each word to where the head attends most, thicker with more attention.{causal}{gold}");
    (title, reading, Arcs { sentences: viewed.map(arc_sentence).collect() })
}

pub fn arcs_figure(seen: &[SentenceAttention]) -> String {
    let (title, reading, arcs) = arc_drawing(seen.iter());
    figures::sentences([&title, &reading], &arcs, Medium::StandaloneFile)
}

fn arc_sentence(viewed: &SentenceAttention) -> ArcSentence {
    let words = || (0..viewed.unit_texts.len()).filter(|&unit| viewed.is_word[unit]);
    let arc = |unit: usize| {
        let (to, weight) = viewed.most_attended(unit);
        let stand = if viewed.is_gold(unit, to) { ArcMatch::Right } else { ArcMatch::Neutral };
        Arc { from: unit, to, weight, outcome: stand }
    };
    ArcSentence {
        caption: viewed.title(),
        units: viewed.unit_texts.clone(),
        arcs: words().map(arc).collect(),
        gold: viewed.gold.as_ref().map(|gold| gold.arcs.clone()).unwrap_or_default(),
    }
}

/// Renders an interactive page of sentences, with a figure per head of `heads` (empty if all heads are shown as thumbnails).
pub fn attention_page(
    model: &str,
    sentences: &[ShownSentence],
    heads: &[HeadPlace],
    seen: &[SentenceAttention],
) -> Result<Vec<u8>> {
    let of_head = |head: &HeadPlace| {
        let (title, reading, arcs) = arc_drawing(seen.iter().filter(|viewed| viewed.head == *head));
        let (columns, rows) = figures::arc_table(&arcs);
        let svg = Value::from_safe_string(figures::sentences([&title, &reading], &arcs, Medium::Page));
        context! { title, reading, svg, columns, rows }
    };
    let page = context! {
        title => format!("Attention of {model}"),
        facts => [("Sentences", sentences.len().to_string())],
        thumbnails => Serde(sentences),
        heads => heads.iter().map(of_head).collect::<Value>(),
        footer => "Layers, heads and sentences are counted from 0.",
    };
    fill_template("attention", &page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forward::attention::AttentionView;
    use crate::sequences::fold::words::FromToken;
    use crate::sequences::span::WordSpan;

    /// `[CLS] a b [SEP]`: a to b, its head; b to the first token.
    fn viewed() -> SentenceAttention {
        let weights = [
            [1.0, 0.0, 0.0, 0.0], //
            [0.0, 0.25, 0.75, 0.0],
            [0.5, 0.1, 0.4, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ];
        let weights: Vec<f32> = weights.concat();
        let mut between = WordAttention::default();
        let spans = WordSpan::whole_words((0..4).map(|token| token..token + 1));
        between.fold(AttentionView::new(2, 8, 4, &weights), &spans, FromToken::Mean);
        SentenceAttention {
            head: HeadPlace { layer: 2, head: 8 },
            sentence: 7,
            id: Some("s-7".to_owned()),
            unit_texts: ["[CLS]", "a", "b", "[SEP]"].map(str::to_owned).to_vec(),
            is_word: vec![false, true, true, false],
            gold: Some(GoldArcs { name: None, end_noun: "head", arcs: vec![[1, 2]] }),
            visible_units: vec![0..4; 4],
            weights: between,
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn blocks_say_how_much_and_a_mark_where_the_tree_goes() {
        let text = plain(&text_grid(&viewed(), false, None));
        let expected = "\
L2H8, sentence 7 (s-7)
from\\to   1  2  3  4
1 [CLS]  ██           -> [CLS] 1.00
2 a         ▒▒>██     -> b 0.75
3 b      ▓▓ ░░ ▓▓     -> [CLS] 0.50
4 [SEP]           ██  -> [SEP] 1.00
░ 0.05, ▒ 0.2, ▓ 0.4, █ 0.7 and more; > the head in the tree
";
        assert_eq!(text, expected);
        let numbers = plain(&text_grid(&viewed(), true, None));
        insta::assert_snapshot!(numbers, @r"
        L2H8, sentence 7 (s-7)
        from\to     1    2    3    4
        1 [CLS]   1.0    -    -    -  -> [CLS] 1.00
        2 a         -  .25 >.75    -  -> b 0.75
        3 b       .50  .10  .40    -  -> [CLS] 0.50
        4 [SEP]     -    -    -  1.0  -> [SEP] 1.00
        > the head in the tree
        ");
    }

    #[test]
    fn links_of_a_type_are_marked_and_counted() {
        // b is linked to a, which has more of b than of any other word; b has more of a than a special token, which is no word.
        let gold = Some(GoldArcs { name: Some("maps".to_owned()), end_noun: "target", arcs: vec![[2, 1]] });
        let text = plain(&text_grid(&SentenceAttention { gold, ..viewed() }, false, None));
        insta::assert_snapshot!(text, @r"
        L2H8, sentence 7 (s-7)
        from\to   1  2  3  4
        1 [CLS]  ██           -> [CLS] 1.00
        2 a         ▒▒ ██     -> b 0.75
        3 b      ▓▓>░░ ▓▓     -> [CLS] 0.50
        4 [SEP]           ██  -> [SEP] 1.00
        ░ 0.05, ▒ 0.2, ▓ 0.4, █ 0.7 and more; > the target by maps
        maps: the only word attends most to its target, and is attended to most by it
        ");
        let wrong = Some(GoldArcs { name: Some("maps".to_owned()), end_noun: "target", arcs: vec![[1, 0]] });
        assert_eq!(SentenceAttention { gold: wrong, ..viewed() }.match_counts(), Some([0, 0, 1]));
        let gold = Some(GoldArcs { name: Some("maps".to_owned()), end_noun: "target", arcs: Vec::new() });
        let words = |counts| match_count_sentence(&SentenceAttention { gold: gold.clone(), ..viewed() }, counts);
        assert_eq!(words([0, 0, 0]), "maps: none in this sentence");
        assert_eq!(
            words([0, 1, 1]),
            "maps: the only word does not attend most to its target, and is attended to most by it"
        );
        assert_eq!(words([1, 0, 3]), "maps: of 3 words 1 attends most to its target; none are attended to most by it");
        assert_eq!(viewed().match_counts(), None);
    }

    #[test]
    fn what_is_not_seen_is_empty_and_not_0() {
        let seen = (0..4).map(|unit| 0..unit + 1).collect();
        let causal = SentenceAttention { visible_units: seen, ..viewed() };
        let numbers = plain(&text_grid(&causal, true, None));
        insta::assert_snapshot!(numbers, @r"
        L2H8, sentence 7 (s-7)
        from\to     1    2    3    4
        1 [CLS]   1.0                 -> [CLS] 1.00
        2 a         -  .25 >          -> b 0.75
        3 b       .50  .10  .40       -> [CLS] 0.50
        4 [SEP]     -    -    -  1.0  -> [SEP] 1.00
        > the head in the tree
        ");
        let reading = "None goes to the right, for a word sees none after it.";
        assert!(arcs_figure(&[causal]).contains(reading) && !arcs_figure(&[viewed()]).contains(reading));
    }

    #[test]
    fn columns_without_room_come_in_a_further_part() {
        let text = plain(&text_grid(&viewed(), false, Some(30)));
        insta::assert_snapshot!(text, @r"
        L2H8, sentence 7 (s-7)
        from\to   1  2
        1 [CLS]  ██     -> [CLS] 1.00
        2 a         ▒▒  -> b 0.75
        3 b      ▓▓ ░░  -> [CLS] 0.50
        4 [SEP]         -> [SEP] 1.00
        from\to   3  4
        1 [CLS]         -> [CLS] 1.00
        2 a     >██     -> b 0.75
        3 b      ▓▓     -> [CLS] 0.50
        4 [SEP]     ██  -> [SEP] 1.00
        ░ 0.05, ▒ 0.2, ▓ 0.4, █ 0.7 and more; > the head in the tree
        ");
        assert!(text.lines().take(11).all(|line| display_width(line) <= 30), "{text}");
        // However narrow it is, there is a column in each part.
        assert_eq!(plain(&text_grid(&viewed(), false, Some(1))).lines().count(), 2 + 4 * 5);
    }

    #[test]
    fn arcs_that_are_in_the_tree_stand_out() {
        let ArcSentence { arcs, gold, .. } = arc_sentence(&viewed());
        let ends: Vec<_> = arcs.iter().map(|arc| (arc.from, arc.to, arc.outcome)).collect();
        assert_eq!(ends, [(1, 2, ArcMatch::Right), (2, 0, ArcMatch::Neutral)]);
        assert_eq!(gold, [[1, 2]]);
        assert!(arcs_figure(&[viewed()]).contains("Those of the tree are below"));
    }

    #[test]
    fn a_page_escapes_what_it_shows() {
        let mut hostile = viewed();
        hostile.unit_texts[1] = "<script>\u{202e}".to_owned();
        let html = String::from_utf8(attention_page("<b>", &[], &[hostile.head], &[hostile]).unwrap()).unwrap();
        assert!(html.contains("&lt;script&gt;") && !html.contains('\u{202e}') && !html.contains("<b>"));
    }
}
