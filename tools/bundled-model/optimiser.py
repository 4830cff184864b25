"""Muon for the matrices inside the layers, AdamW for the rest; train.py steps both.

Muon (Keller Jordan and others, 2024) replaces the momentum of a matrix by the nearest matrix with equal singular
values before it is applied; on few tokens it learns markedly more per token than AdamW.
"""

import torch
from torch import nn

# Quintic iteration that drives the singular values towards one.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


@torch.no_grad()
def orthogonalise(matrices: torch.Tensor, iterations: int = 5) -> torch.Tensor:
    """matrices [count, rows, columns], all of one shape -> the same with singular values near one."""
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16()
    is_tall = x.shape[1] > x.shape[2]
    if is_tall:
        x = x.transpose(1, 2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.transpose(1, 2) if is_tall else x).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters: list[nn.Parameter], lr: float, momentum: float = 0.95, weight_decay: float = 0.05):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for parameter in group["params"]:
                by_shape.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in by_shape.items():
                update = orthogonalise(torch.stack([self.momentum_of(p, group["momentum"]) for p in parameters]))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, direction in zip(parameters, update, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(direction, alpha=-scale)

    def momentum_of(self, parameter: nn.Parameter, momentum: float) -> torch.Tensor:
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(state["momentum"], momentum)


def build_optimisers(model: nn.Module, muon_lr: float, adam_lr: float) -> list[torch.optim.Optimizer]:
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    return [
        Muon(matrices, lr=muon_lr),
        torch.optim.AdamW(others, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]
