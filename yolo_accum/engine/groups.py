"""Parameter groups and optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from yolo_accum.engine.ramp import Hyperparameters
from yolo_accum.errors import UserError


def freeze(model: nn.Module, prefixes: Sequence[str]) -> list[str]:
    """Switch off the gradients of all parameters below the named modules.

    Returns:
        names of the frozen parameters.
    Raises:
        UserError: a prefix that matches nothing, or nothing left to train.
    """
    frozen: list[str] = []
    names = [name for name, _ in model.named_parameters()]
    for prefix in prefixes:
        matches = [name for name in names if name == prefix or name.startswith(prefix + ".")]
        if not matches:
            parts = sorted({".".join(name.split(".")[:2]) for name in names})
            raise UserError(f"--freeze {prefix}: no part of the model has that name; parts are {', '.join(parts)}")
        frozen += matches
    for name, parameter in model.named_parameters():
        if name in frozen:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError(f"--freeze {','.join(prefixes)} leaves nothing to train")
    return frozen


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups by name: "decay" (weights of convolutions and linear layers) and "no_decay" (norms, biases)."""
    decay: list[nn.Parameter] = []
    decay_ids = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, nn.modules.conv._ConvNd | nn.Linear)  # the common base of all convolutions
    }
    no_decay: list[nn.Parameter] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (decay if id(parameter) in decay_ids else no_decay).append(parameter)
    groups = [
        {"name": "decay", "params": decay, "weight_decay": weight_decay},
        {"name": "no_decay", "params": no_decay, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def build_optimizer(
    model: nn.Module, name: str, lr: float, momentum: float, weight_decay: float
) -> torch.optim.Optimizer:
    """An optimizer over `parameter_groups`; ``momentum`` is beta1 of adam and adamw.

    All of them step in torch's one call for all weights, on every device: a quarter of the time of one weight after
    another, which is torch's own choice on a CPU.
    """
    groups = parameter_groups(model, weight_decay)
    if name == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=momentum > 0, fused=True)
    kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
    return kind(groups, lr=lr, betas=(momentum, 0.999), fused=True)


def set_hyperparameters(optimizer: torch.optim.Optimizer, values: Hyperparameters) -> None:
    """Write learning rate and momentum into every group."""
    for group in optimizer.param_groups:
        group["lr"] = values.lr
        if "betas" in group:
            group["betas"] = (values.momentum, group["betas"][1])
        else:
            group["momentum"] = values.momentum
