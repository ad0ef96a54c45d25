//! Items whose text is run beside its corrupted text: activation patching over heads exchanges contexts between the two, so that
//! both have as many tokens and predict at one place.

use super::encode::{ItemReader, Scored};
use super::file::{ClozeContext, CorruptedContext, ItemContent};
use super::{ExchangedPositions, ItemSkip};
use crate::model::forward::batch::Exchange;
use crate::sequences::sequence::{Corruption, Sequence};

impl ItemReader<'_> {
    /// The text of a cloze item and its corrupted text, which have the same answer and foil.
    pub(super) fn interchanged(&self, positions: ExchangedPositions) -> Scored<Vec<Sequence>> {
        let ItemContent::Cloze { context, answer, foil, corrupted } = &self.item.content else {
            return Err(ItemSkip::NotCorrupted.into());
        };
        let CorruptedContext { text, name } = corrupted.as_ref().ok_or(ItemSkip::NotCorrupted)?;
        let corrupted = match context {
            ClozeContext::Masked(_) => ClozeContext::Masked(text.clone()),
            ClozeContext::Prompt(_) => ClozeContext::Prompt(text.clone()),
        };
        let [mut clean, corrupted] = [self.cloze(context, [answer, foil])?, self.cloze(&corrupted, [answer, foil])?];
        if clean.ids.len() != corrupted.ids.len() {
            return Err(ItemSkip::OtherLength.into());
        }
        let place = clean.predictions[0].position;
        if corrupted.predictions[0].position != place {
            return Err(ItemSkip::OtherPlace.into());
        }
        let sides = |text: &Sequence| (text.predictions[0].truth, text.item.as_ref().map(|part| part.rule));
        if sides(&clean) != sides(&corrupted) {
            return Err(ItemSkip::OtherAnswer.into());
        }
        let changed =
            clean.ids.iter().zip(&corrupted.ids).filter(|(clean, corrupted)| clean != corrupted).count() as u64;
        if changed == 0 {
            return Err(ItemSkip::NothingDiffers.into());
        }
        let exchange = match positions {
            ExchangedPositions::All => Exchange::Everywhere,
            ExchangedPositions::Answer => Exchange::At(place),
        };
        let part = clean.item.as_mut().expect("the text of an item");
        part.corruption = Some(Corruption { name: name.clone(), changed, exchange });
        Ok(vec![clean, corrupted])
    }
}
