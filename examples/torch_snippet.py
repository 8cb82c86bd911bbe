"""Written for torch: an attention mask that looks free until someone makes it contiguous."""

import torch

padding = torch.zeros(64, 64)
mask = padding.expand(6, 16, 64, 64)  # 96 times the same bytes
scores = mask.contiguous()  # and now 96 times as many
