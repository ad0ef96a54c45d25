//! The bytes of a pickle, taken from its beginning.

use anyhow::{Context, Result, ensure};

use crate::system::errors::Facts;

/// The longest text that has a place in a state dict; names of tensors are the longest, with about 100 bytes.
pub(super) const LONGEST_TEXT: u32 = 1000;

#[derive(Default)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().context("it is cut short").hint("download it again")?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(super) fn slice(&mut self, length: u32) -> Result<&'a [u8]> {
        let parts = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (bytes, rest) = parts.context("it is cut short").hint("download it again")?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A text that its length stands before.
    pub(super) fn text(&mut self) -> Result<&'a str> {
        let length = u32::from_le_bytes(self.take()?);
        ensure!(length <= LONGEST_TEXT, "a text of {length} bytes has no place in a state dict");
        std::str::from_utf8(self.slice(length)?).context("a name that is not UTF-8")
    }

    /// A line of text, without its end.
    pub(super) fn line(&mut self) -> Result<&'a str> {
        let line = &self.0[..self.0.len().min(LONGEST_TEXT as usize)];
        let length = line.iter().position(|byte| *byte == b'\n').context("a name that does not end")?;
        let (line, rest) = self.0.split_at(length);
        self.0 = &rest[1..];
        std::str::from_utf8(line).context("a name that is not UTF-8")
    }

    pub(super) fn number(&mut self, length: u8, signed: bool) -> Result<i64> {
        let bytes = self.slice(length.into())?;
        ensure!(bytes.len() <= 8, "a number of {length} bytes");
        let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut value = [if negative { 0xff } else { 0 }; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(value))
    }

    /// The place of a remembered object, in one byte or in four.
    pub(super) fn place(&mut self, wide: bool) -> Result<u32> {
        if wide {
            return Ok(u32::from_le_bytes(self.take()?));
        }
        let [place] = self.take()?;
        Ok(place.into())
    }
}
