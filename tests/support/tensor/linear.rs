//! Linear layers whose weights are constants.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp1, Layout, Module, Shape, Storage, Tensor, bail};

/// A linear layer whose weights are constant in the backward pass. candle's own product would keep a gradient of every
/// weight.
pub(super) struct LinearLayer {
    /// `[outputs, inputs]`
    weight: Tensor,
    /// `[outputs]`
    bias: Tensor,
}

impl LinearLayer {
    pub fn new(weight: Tensor, bias: Tensor) -> Self {
        Self { weight, bias }
    }

    /// `[outputs, inputs]`
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// `[outputs]`
    pub fn bias(&self) -> &Tensor {
        &self.bias
    }
}

impl Module for LinearLayer {
    /// `[rows, inputs]` to `[rows, outputs]`.
    fn forward(&self, rows: &Tensor) -> candle_core::Result<Tensor> {
        rows.apply_op1(TimesConstant(self.weight.t()?))?.broadcast_add(&self.bias)
    }
}

/// The product of a matrix with a constant matrix, `[inputs, outputs]`.
struct TimesConstant(Tensor);

impl CustomOp1 for TimesConstant {
    fn name(&self) -> &'static str {
        "times-constant"
    }

    fn cpu_fwd(&self, rows: &CpuStorage, layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let ((count, inputs), (_, outputs)) = (layout.shape().dims2()?, self.0.dims2()?);
        let (constant, constant_layout) = self.0.storage_and_layout();
        let Storage::Cpu(constant) = &*constant else { bail!("the weights are on another device") };
        let product = rows.matmul(constant, (1, count, outputs, inputs), layout, constant_layout)?;
        Ok((product, (count, outputs).into()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> candle_core::Result<Option<Tensor>> {
        gradient.matmul(&self.0.t()?).map(Some)
    }
}
