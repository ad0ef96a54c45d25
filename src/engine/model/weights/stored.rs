//! A tensor in a file of a checkpoint: its place, its shape, and how its values are read.

use std::ops::Range;

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};

use crate::model::files::ModelFile;

/// A tensor in a file: its location, value type and shape.
pub struct StoredTensor {
    /// Type of the values. For a type that this program cannot read: its name in the file.
    pub value_type: Result<DType, String>,
    pub shape: Vec<usize>,
    /// Number of stored values from one index to the next, for each dimension; `None` if the tensor is contiguous.
    pub strides: Option<Vec<usize>>,
    /// Range of bytes in the file, from the tensor's first value to the end of its storage.
    pub byte_range: Range<u64>,
}

/// Data types of tensor values that can be read.
pub const VALUE_TYPES: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

impl StoredTensor {
    /// Returns the size of a value in bytes. For types that cannot be read, returns 1: their values are only located.
    pub fn bytes_per_value(values: &Result<DType, String>) -> u64 {
        values.as_ref().map_or(1, |dtype| dtype.size_in_bytes() as u64)
    }

    /// Reads the values of the tensor in row-major order.
    pub fn read(&self, file: &ModelFile) -> Result<Vec<f32>> {
        let dtype = match &self.value_type {
            Ok(dtype) => *dtype,
            Err(name) => bail!("has type {name}: float64, float32, float16 and bfloat16 can be read"),
        };
        let (count, span) = self.extent()?;
        let values = self.read_span(file, dtype, span)?;
        Ok(match self.noncontiguous_strides() {
            Some(strides) => gather_strided(&values, &self.shape, strides, count),
            None => values,
        })
    }

    /// Returns (number of values, number of stored values from the first to the last of them). Fails if the stored values
    /// exceed the storage.
    fn extent(&self) -> Result<(usize, usize)> {
        let room = (self.byte_range.end - self.byte_range.start) / Self::bytes_per_value(&self.value_type);
        let count = self.shape.iter().try_fold(1_usize, |count, size| count.checked_mul(*size));
        let span = match &self.strides {
            Some(strides) if count != Some(0) => {
                let mut steps = self.shape.iter().zip(strides).map(|(size, stride)| (size - 1).checked_mul(*stride));
                steps.try_fold(1_usize, |span, step| span.checked_add(step?))
            }
            _ => count,
        };
        let fits = count.zip(span).filter(|(_, span)| *span as u64 <= room);
        fits.context("reaches beyond its storage: the file is damaged")
    }

    /// Returns the number of values in excess of those stored in the file. In an expanded tensor, several values share one
    /// location.
    pub fn expanded_value_count(&self) -> usize {
        let Some(strides) = &self.strides else { return 0 };
        let steps = self.shape.iter().zip(strides);
        let span = steps
            .fold(1_usize, |span, (size, stride)| span.saturating_add(size.saturating_sub(1).saturating_mul(*stride)));
        self.shape.iter().fold(1_usize, |count, size| count.saturating_mul(*size)).saturating_sub(span)
    }

    /// Returns the strides; `None` if the values are contiguous in the file.
    pub fn noncontiguous_strides(&self) -> Option<&[usize]> {
        let strides = self.strides.as_deref()?;
        let mut expected = 1;
        let is_contiguous = self.shape.iter().zip(strides).rev().all(|(size, stride)| {
            let fits = *size == 1 || *stride == expected;
            expected *= size;
            fits
        });
        (!is_contiguous).then_some(strides)
    }

    /// Reads the first `span` stored values as f32, in the order of the file.
    fn read_span(&self, file: &ModelFile, dtype: DType, span: usize) -> Result<Vec<f32>> {
        /// Number of values converted at a time, so that memory never holds the whole tensor in two types.
        const VALUES_AT_ONCE: usize = 1 << 18;
        if dtype == DType::F32 {
            let mut values = vec![0.0_f32; span];
            file.read_at(bytemuck::cast_slice_mut(&mut values), self.byte_range.start)?;
            if cfg!(target_endian = "big") {
                values.iter_mut().for_each(|value| *value = f32::from_bits(u32::from_le(value.to_bits())));
            }
            return Ok(values);
        }
        let mut values = Vec::with_capacity(span);
        let width = dtype.size_in_bytes();
        let mut bytes = vec![0; width * span.min(VALUES_AT_ONCE)];
        while values.len() < span {
            let count = VALUES_AT_ONCE.min(span - values.len());
            let piece = &mut bytes[..width * count];
            file.read_at(piece, self.byte_range.start + (width * values.len()) as u64)?;
            let piece = Tensor::from_raw_buffer(piece, dtype, &[count], &Device::Cpu)?;
            values.extend(piece.to_dtype(DType::F32)?.to_vec1::<f32>()?);
        }
        Ok(values)
    }
}

/// Arranges the stored values of a tensor with strides in row-major order.
fn gather_strided(values: &[f32], shape: &[usize], strides: &[usize], count: usize) -> Vec<f32> {
    let mut gathered = Vec::with_capacity(count);
    let mut index = vec![0; shape.len()];
    for _ in 0..count {
        gathered.push(values[index.iter().zip(strides).map(|(index, stride)| index * stride).sum::<usize>()]);
        for (index, size) in index.iter_mut().zip(shape).rev() {
            *index += 1;
            if *index < *size {
                break;
            }
            *index = 0;
        }
    }
    gathered
}
