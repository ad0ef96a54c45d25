"""The peer of the study `gradient`: torch's derivatives of the loss by gates on the contexts."""

import torch


def gradient(heads, data):
    with torch.no_grad():
        heads.pass_with_means(data, heads.run)
    found, tokens = [], []
    for batch in data:
        heads.gates = torch.ones(len(batch.ids), heads.layers, heads.heads, requires_grad=True)
        found.append(torch.autograd.grad(heads.loss(batch), heads.gates)[0].flatten(1))
        tokens.append(torch.bincount(batch.rows, minlength=len(batch.ids)))
    heads.gates = None
    found, tokens = torch.cat(found), torch.cat(tokens)[:, None]
    return {
        "first_order_effect": (-found.sum(0) / tokens.sum()).tolist(),
        "gradient_importance": (found.abs() / tokens).mean(0).tolist(),
    }
