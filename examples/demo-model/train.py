#!/usr/bin/env python3
"""Trains the story model and writes it as GGUF. See README.md.

    python3 train.py --seed 1 --out stage1.gguf
"""
import argparse
import collections
import math
import random
import re
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import gguf
from sample import File
from stories import BOYS, GIRLS, stories

BLANK = '\u2581'
NAME = 'slackwater stories'
BOS, EOS = 1, 2

# ---- tokenizer: SentencePiece style pieces, made by byte-pair merges


def split(text):
    """Units that no piece may cross: a word, or a run of signs, each with the blank before it."""
    return re.findall(BLANK + '?[A-Za-z]+|' + BLANK + '?[^A-Za-z' + BLANK + ']+|' + BLANK, text)


def prepare(text):
    return (' ' + text).replace(' ', BLANK)


def build_vocab(texts, size):
    units = collections.Counter(u for t in texts for u in split(prepare(t)))
    chars = sorted({c for u in units for c in u} | {BLANK})
    words = [[list(u), n] for u, n in sorted(units.items())]
    pieces = []
    while 259 + len(pieces) + len(chars) < size:
        pairs = collections.Counter()
        for w, n in words:
            for a, b in zip(w, w[1:]):
                pairs[a, b] += n
        (a, b), _ = min(pairs.items(), key=lambda kv: (-kv[1], kv[0]))
        if a + b not in pieces:
            pieces.append(a + b)
        for entry in words:
            w = entry[0]
            if a in w and b in w:
                new, i = [], 0
                while i < len(w):
                    if i + 1 < len(w) and w[i] == a and w[i + 1] == b:
                        new.append(a + b)
                        i += 2
                    else:
                        new.append(w[i])
                        i += 1
                entry[0] = new
    tokens = ['<unk>', '<s>', '</s>'] + ['<0x%02X>' % i for i in range(256)] + pieces + chars
    scores = [0.0] * 259 + [-float(i) for i in range(len(pieces) + len(chars))]
    types = [2, 3, 3] + [6] * 256 + [1] * (len(pieces) + len(chars))
    return tokens, scores, types


class Encoder:
    def __init__(self, tokens, scores):
        self.ids = {t: i for i, t in enumerate(tokens)}
        self.scores = scores
        self.cache = {}

    def unit(self, text):
        """The rule of SPM: of all neighbours that form a piece, join those with the highest score, leftmost first."""
        syms = list(text)
        while True:
            best = None
            for i in range(len(syms) - 1):
                t = self.ids.get(syms[i] + syms[i + 1])
                if t is not None and (best is None or self.scores[t] > best[0]):
                    best = (self.scores[t], i)
            if best is None:
                break
            i = best[1]
            syms[i:i + 2] = [syms[i] + syms[i + 1]]
        out = []
        for s in syms:
            out += [self.ids[s]] if s in self.ids else [3 + b for b in s.encode()]
        return out

    def __call__(self, text):
        out = [BOS]
        for u in split(prepare(text)):
            if u not in self.cache:
                self.cache[u] = self.unit(u)
            out += self.cache[u]
        return out


# ---- model


class Config:
    vocab, ctx, embd, layers, heads, kv_heads, ff, eps, base = 1280, 512, 96, 5, 6, 2, 256, 1e-5, 10000.0


class Norm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rope(x, cos, sin):  # x: batch, heads, time, dims; pairs (2i, 2i+1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = c.embd // c.heads
        self.c, self.d = c, d
        self.attn_norm, self.ffn_norm = Norm(c.embd, c.eps), Norm(c.embd, c.eps)
        self.attn_q = nn.Linear(c.embd, c.heads * d, bias=False)
        self.attn_k = nn.Linear(c.embd, c.kv_heads * d, bias=False)
        self.attn_v = nn.Linear(c.embd, c.kv_heads * d, bias=False)
        self.attn_output = nn.Linear(c.heads * d, c.embd, bias=False)
        self.ffn_gate = nn.Linear(c.embd, c.ff, bias=False)
        self.ffn_up = nn.Linear(c.embd, c.ff, bias=False)
        self.ffn_down = nn.Linear(c.ff, c.embd, bias=False)

    def forward(self, x, cos, sin, mask):
        c, d = self.c, self.d
        B, T, _ = x.shape
        y = self.attn_norm(x)
        q = rope(self.attn_q(y).view(B, T, c.heads, d).transpose(1, 2), cos, sin)
        k = rope(self.attn_k(y).view(B, T, c.kv_heads, d).transpose(1, 2), cos, sin)
        v = self.attn_v(y).view(B, T, c.kv_heads, d).transpose(1, 2)
        g = c.heads // c.kv_heads  # query heads that share one key head lie next to each other
        q = (q * d ** -0.5).reshape(B, c.kv_heads, g * T, d)
        s = (q @ k.transpose(-1, -2)).view(B, c.kv_heads, g, T, T) + mask
        y = (s.softmax(-1).view(B, c.kv_heads, g * T, T) @ v).view(B, c.heads, T, d)
        x = x + self.attn_output(y.transpose(1, 2).reshape(B, T, c.heads * d))
        y = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.token_embd = nn.Embedding(c.vocab, c.embd)
        self.blk = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.output_norm = Norm(c.embd, c.eps)
        d = c.embd // c.heads
        angle = torch.arange(c.ctx)[:, None] * c.base ** (-torch.arange(0, d, 2) / d)
        self.cos, self.sin = angle.cos(), angle.sin()
        self.mask = torch.full((c.ctx, c.ctx), -1e9).triu(1)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                std = 0.05 if 'token_embd' in name else p.shape[1] ** -0.5
                if 'output' in name or 'down' in name:
                    std /= math.sqrt(2 * c.layers)
                nn.init.normal_(p, std=std)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.token_embd(ids)
        for b in self.blk:
            x = b(x, self.cos[:T], self.sin[:T], self.mask[:T, :T])
        return self.output_norm(x)

    def loss(self, ids, targets, weight=None):  # targets: -1 = no loss here
        x = self(ids).flatten(0, 1)
        keep = targets.flatten() >= 0
        return F.cross_entropy(x[keep] @ self.token_embd.weight.t(), targets.flatten()[keep], weight)


class Muon(torch.optim.Optimizer):
    """Momentum whose step is the nearest orthogonal matrix (five Newton-Schulz rounds)."""

    def __init__(self, params, lr):
        super().__init__(params, {'lr': lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group['params']:
                m = self.state[p].setdefault('m', torch.zeros_like(p))
                m.mul_(0.95).add_(p.grad)
                g = p.grad + 0.95 * m
                tall = g.shape[0] > g.shape[1]
                x = g.t() if tall else g
                x = x / (x.norm() + 1e-7)
                for _ in range(5):
                    s = x @ x.t()
                    x = 3.4445 * x + (-4.775 * s + 2.0315 * s @ s) @ x
                p.mul_(1 - group['lr'] * 0.02).add_(x.t() if tall else x, alpha=-group['lr'] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


# ---- data


def rows(seqs, width):
    ids = np.zeros((len(seqs), width), dtype=np.int64)
    for i, s in enumerate(seqs):
        ids[i, :len(s)] = s
    lens = np.array([len(s) for s in seqs])[:, None]
    targets = np.where(np.arange(1, width)[None] < lens, ids[:, 1:], -1)
    return torch.from_numpy(ids[:, :-1].copy()), torch.from_numpy(targets)


def batches(rng, encode, tokens_per_batch, ctx, seed):
    """Endless fresh stories, batched by length; one batch in ten has stories in a row up to the full context."""
    while True:
        seqs = [encode(t) + [EOS] for t in stories(seed, 4000)]
        seed += 1
        long, rest = seqs[:400], seqs[400:]
        out, row, group = [], [], []
        for s in long:
            if len(row) + len(s) > ctx + 1:
                group.append(row)
                row = []
                if len(group) * ctx >= tokens_per_batch:
                    out.append(rows(group, ctx + 1))
                    group = []
            row = row + s[:ctx + 1]
        rest.sort(key=len)
        i = 0
        while i < len(rest):
            n = max(1, tokens_per_batch // len(rest[i]))
            out.append(rows(rest[i:i + n], max(map(len, rest[i:i + n]))))
            i += n
        rng.shuffle(out)
        yield from out


@torch.no_grad()
def evaluate(model, seqs):
    total = count = 0
    seqs = sorted(seqs, key=len)
    for i in range(0, len(seqs), 20):
        ids, targets = rows(seqs[i:i + 20], max(map(len, seqs[i:i + 20])))
        n = int((targets >= 0).sum())
        total += model.loss(ids, targets).item() * n
        count += n
    return total / count


def round_q8(model):
    """The model with its matrices rounded as the file stores them."""
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2:
                p.copy_(torch.from_numpy(gguf.from_q8_0(gguf.to_q8_0(p.numpy()), p.shape)))


def export(path, model, c, vocab):
    tokens, scores, types = vocab
    w = gguf.Writer()
    w.string('general.architecture', 'llama')
    w.string('general.name', NAME)
    w.string('general.license', 'MIT')
    w.string('general.description', 'Small stories for children. Trained on text from its own story grammar.')
    w.u32('general.file_type', 7)
    w.u32('general.quantization_version', 2)
    w.f32('general.sampling.temp', 0.4)  # the model is small: at 0.8 it mixes its characters up
    w.u32('llama.context_length', c.ctx)
    w.u32('llama.embedding_length', c.embd)
    w.u32('llama.block_count', c.layers)
    w.u32('llama.feed_forward_length', c.ff)
    w.u32('llama.attention.head_count', c.heads)
    w.u32('llama.attention.head_count_kv', c.kv_heads)
    w.f32('llama.attention.layer_norm_rms_epsilon', c.eps)
    w.u32('llama.rope.dimension_count', c.embd // c.heads)
    w.f32('llama.rope.freq_base', c.base)
    w.u32('llama.vocab_size', c.vocab)
    w.string('tokenizer.ggml.model', 'llama')
    w.strings('tokenizer.ggml.tokens', tokens)
    w.f32s('tokenizer.ggml.scores', scores)
    w.i32s('tokenizer.ggml.token_type', types)
    w.u32('tokenizer.ggml.bos_token_id', BOS)
    w.u32('tokenizer.ggml.eos_token_id', EOS)
    w.u32('tokenizer.ggml.unknown_token_id', 0)
    w.bool('tokenizer.ggml.add_bos_token', True)
    w.bool('tokenizer.ggml.add_eos_token', False)
    w.bool('tokenizer.ggml.add_space_prefix', True)
    for name, p in model.named_parameters():
        w.tensor(name, p.detach().numpy())  # the module names are the GGUF names
    return w.write(path)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--out', default='slackwater-stories.gguf')
    ap.add_argument('--steps', type=int, default=6000)
    ap.add_argument('--batch', type=int, default=4096, help='tokens per step')
    ap.add_argument('--lr', type=float, default=4e-3, help='for the embedding and the norms')
    ap.add_argument('--muon-lr', type=float, default=0.02)
    ap.add_argument('--minutes', type=float, default=1e6, help='end the schedule early when the time is up')
    ap.add_argument('--start', help='a GGUF file to go on from')
    ap.add_argument('--spread', type=float, default=0.0, help='draw the embeddings of the names apart by this norm')
    ap.add_argument('--name-weight', type=float, default=0.0, help='extra weight of names in the loss, fading out at half time')
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--threads', type=int, default=1)
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    rng = random.Random(a.seed)
    c = Config()

    t0 = time.time()
    vocab = build_vocab(stories(1000, 20000), c.vocab)
    encode = Encoder(vocab[0], vocab[1])
    valid = [encode(t) + [EOS] for t in stories(2000, 400)]
    lens = [len(s) for s in valid]
    print('vocabulary', len(vocab[0]), 'tokens per story', min(lens), sum(lens) / len(lens), max(lens), 'seconds', round(time.time() - t0))

    model = Model(c)
    names = torch.tensor([encode.ids[BLANK + n] for n in GIRLS + BOYS if BLANK + n in encode.ids])
    if a.start:
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(torch.from_numpy(File(a.start).tensors[name]))
    if a.spread:
        # Names stand in the same places, so their embeddings grow alike and a name is hard to copy: draw them apart.
        with torch.no_grad():
            e = model.token_embd.weight
            e[names] = e[names].mean(0) + torch.randn(len(names), c.embd) * a.spread / math.sqrt(c.embd)
    print('parameters', sum(p.numel() for p in model.parameters()))
    inner = [p for n, p in model.named_parameters() if p.dim() == 2 and n.startswith('blk.')]
    outer = [p for n, p in model.named_parameters() if p.dim() == 1 or not n.startswith('blk.')]
    adam = torch.optim.AdamW(outer, lr=a.lr, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.01)
    muon = Muon(inner, lr=a.muon_lr)
    t0, mean, seen = time.time(), None, 0
    for step, (ids, targets) in enumerate(batches(rng, encode, a.batch, c.ctx, 10000 * a.seed)):
        progress = max(step / a.steps, (time.time() - t0) / 60 / a.minutes)
        if progress >= 1:
            break
        rate = min(1, (step + 1) / 50) * (0.5 + 0.5 * math.cos(math.pi * progress))
        weight = torch.ones(c.vocab)
        weight[names] += a.name_weight * max(0, 1 - 2 * progress)  # back to 1 at half time
        loss = model.loss(ids, targets, weight)
        model.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt, lr in ((adam, a.lr), (muon, a.muon_lr)):
            opt.param_groups[0]['lr'] = lr * rate
            opt.step()
        seen += ids.numel()
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step % 50 == 49:
            print('step', step + 1, 'loss %.4f' % mean, 'valid %.4f' % evaluate(model, valid[:100]) if step % 500 == 499 else '',
                  'tokens', seen, 'seconds', round(time.time() - t0), flush=True)

    print('train loss (mean of the last steps) %.4f' % mean)
    print('valid loss, float %.4f' % evaluate(model, valid))
    size = export(a.out, model, c, vocab)
    round_q8(model)
    print('valid loss, Q8_0  %.4f' % evaluate(model, valid))
    print('bytes', size)


if __name__ == '__main__':
    main()
