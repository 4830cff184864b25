"""The Llama architecture in plain PyTorch, small enough to read at once; train.py trains it, export.py saves it."""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

# Score of what a token must not see: its share becomes zero.
NEVER = -1e4


@dataclass(frozen=True)
class ModelConfig:
    vocab_size: int = 3072
    hidden_size: int = 256
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    intermediate_size: int = 512
    max_position_embeddings: int = 1024
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5

    def as_dict(self) -> dict:
        return asdict(self)


def rope_tables(config: ModelConfig, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, each [length, head_dim], the two halves of a head alike (the layout of Hugging Face)."""
    exponent = torch.arange(0, config.head_dim, 2).float() / config.head_dim
    angles = torch.outer(torch.arange(length).float(), config.rope_theta**-exponent)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [batch, heads, tokens, head_dim] turned by its positions."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class RmsNorm(nn.Module):
    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.eps)


class Attention(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        q_size = config.num_attention_heads * config.head_dim
        kv_size = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, q_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        """visible [batch, tokens, tokens]: whether a token (row) sees another (column).

        Plain products and a softmax: compiled, they are twice as fast backwards on a CPU as the fused attention.
        """
        batch, tokens, _ = x.shape
        kv_heads, size = self.config.num_key_value_heads, self.config.head_dim
        groups = self.config.num_attention_heads // kv_heads

        def heads(projected: torch.Tensor) -> torch.Tensor:
            return projected.view(batch, tokens, -1, size).transpose(1, 2)

        q = rotate(heads(self.q_proj(x)), cos, sin).reshape(batch, kv_heads, groups * tokens, size)
        k = rotate(heads(self.k_proj(x)), cos, sin) * size**-0.5
        scores = (q @ k.transpose(2, 3)).view(batch, kv_heads, groups, tokens, tokens)
        scores = scores.masked_fill(~visible[:, None, None], NEVER)
        shares = scores.float().softmax(dim=-1).to(x.dtype).view(batch, kv_heads, groups * tokens, tokens)
        out = (shares @ heads(self.v_proj(x))).view(batch, kv_heads * groups, tokens, size)
        return self.o_proj(out.transpose(1, 2).reshape(batch, tokens, -1))


class Mlp(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.input_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = Mlp(config)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, visible)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Token ids [batch, tokens] -> hidden states [batch, tokens, hidden_size]; loss() turns those into a number."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        cos, sin = rope_tables(config, config.max_position_embeddings)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.apply(initialise)

    def forward(self, ids: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
        """documents [batch, tokens] numbers the document of each token: a token sees only its own, up to itself."""
        tokens = ids.shape[1]
        x = self.embed_tokens(ids)
        cos, sin = self.cos[:tokens].to(x.dtype), self.sin[:tokens].to(x.dtype)
        earlier = torch.ones(tokens, tokens, dtype=torch.bool, device=ids.device).tril()
        visible = earlier & (documents[:, :, None] == documents[:, None, :])
        for layer in self.layers:
            x = layer(x, cos, sin, visible)
        return self.norm(x)

    def loss(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Mean cross entropy over the labels that are not -100; labels[i] is what follows the token of hidden[i]."""
        counted = labels.reshape(-1) != -100
        logits = hidden.reshape(-1, hidden.shape[-1])[counted] @ self.embed_tokens.weight.t()
        return F.cross_entropy(logits.float(), labels.reshape(-1)[counted])


def initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=module.in_features**-0.5 * 0.6)
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
