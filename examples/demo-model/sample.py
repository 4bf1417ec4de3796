#!/usr/bin/env python3
"""Reads the GGUF file with numpy alone and continues a text, the likeliest token each time (or --temp).

    python3 sample.py slackwater-stories.gguf "Once upon a time"
    python3 sample.py FILE --reference reference.json     writes the reference runs
"""
import argparse
import json
import struct

import numpy as np

PROMPTS = ['Once upon a time', 'One sunny day, a little fox', 'Lily and Tom were best friends.']


class File:
    """keys: dict; tensors: name -> float32 array, slowest dimension first."""

    def __init__(self, path):
        self.data, self.at = open(path, 'rb').read(), 0
        magic, version, tensors, keys = self.take('<4sIqq')
        assert magic == b'GGUF' and version == 3
        self.keys = {}
        for _ in range(keys):
            name = self.text()
            self.keys[name] = self.value(self.take('<i')[0])
        infos = []
        for _ in range(tensors):
            name = self.text()
            ne = self.take('<%dq' % self.take('<I')[0])
            infos.append((name, ne) + self.take('<iQ'))
        start = self.at + -self.at % 32
        self.tensors, end = {}, 0
        for name, ne, kind, offset in infos:
            assert offset == end and offset % 32 == 0
            count = int(np.prod(ne))
            size = count * 4 if kind == 0 else count // 32 * 34
            raw = np.frombuffer(self.data, np.uint8, size, start + offset)
            if kind == 0:
                x = raw.view('<f4')
            else:
                assert kind == 8 and ne[0] % 32 == 0
                b = raw.reshape(-1, 34)
                x = b[:, :2].copy().view('<f2').astype(np.float32) * b[:, 2:].copy().view(np.int8)
            self.tensors[name] = x.astype(np.float32).reshape(ne[::-1])
            end = offset + size + -size % 32
        assert start + end == len(self.data)

    def take(self, fmt):
        v = struct.unpack_from(fmt, self.data, self.at)
        self.at += struct.calcsize(fmt)
        return v

    def text(self):
        n = self.take('<Q')[0]
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind, n = self.take('<iQ')
            return [self.value(kind) for _ in range(n)]
        return self.take({4: '<I', 5: '<i', 6: '<f', 7: '<?'}[kind])[0]


class Tokenizer:
    def __init__(self, keys):
        self.tokens, self.scores = keys['tokenizer.ggml.tokens'], keys['tokenizer.ggml.scores']
        self.types = keys['tokenizer.ggml.token_type']
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.bos, self.eos = keys['tokenizer.ggml.bos_token_id'], keys['tokenizer.ggml.eos_token_id']

    def encode(self, text):
        s = list((' ' + text).replace(' ', '\u2581'))
        while True:
            joins = [(self.scores[self.ids[s[i] + s[i + 1]]], -i) for i in range(len(s) - 1) if s[i] + s[i + 1] in self.ids]
            if not joins:
                break
            i = -max(joins)[1]
            s[i:i + 2] = [s[i] + s[i + 1]]
        out = [self.bos]
        for t in s:
            out += [self.ids[t]] if t in self.ids else [self.ids['<0x%02X>' % b] for b in t.encode()]
        return out

    def decode(self, ids):
        out = b''
        for i in ids:
            if self.types[i] == 6:
                out += bytes([int(self.tokens[i][3:5], 16)])
            elif self.types[i] == 1:
                out += self.tokens[i].replace('\u2581', ' ').encode()
        return out.decode('utf-8', 'replace')


class Llama:
    def __init__(self, f):
        k = lambda name: f.keys['llama.' + name]
        self.w = f.tensors
        self.layers, self.heads, self.kv = k('block_count'), k('attention.head_count'), k('attention.head_count_kv')
        self.dim, self.eps = k('rope.dimension_count'), k('attention.layer_norm_rms_epsilon')
        self.freq = k('rope.freq_base') ** (-np.arange(0, self.dim, 2) / self.dim)
        self.past = [([], []) for _ in range(self.layers)]
        self.pos = 0

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean() + self.eps) * self.w[name + '.weight']

    def rope(self, x):
        c, s = np.cos(self.pos * self.freq), np.sin(self.pos * self.freq)
        out = np.empty_like(x)
        out[:, 0::2] = x[:, 0::2] * c - x[:, 1::2] * s
        out[:, 1::2] = x[:, 0::2] * s + x[:, 1::2] * c
        return out

    def step(self, token):
        x = self.w['token_embd.weight'][token]
        for n in range(self.layers):
            m = lambda name, v: self.w['blk.%d.%s.weight' % (n, name)] @ v
            y = self.norm(x, 'blk.%d.attn_norm' % n)
            q = self.rope(m('attn_q', y).reshape(self.heads, self.dim))
            keys, values = self.past[n]
            keys.append(self.rope(m('attn_k', y).reshape(self.kv, self.dim)))
            values.append(m('attn_v', y).reshape(self.kv, self.dim))
            K, V = np.stack(keys), np.stack(values)
            heads = []
            for h in range(self.heads):
                g = h * self.kv // self.heads
                s = K[:, g] @ q[h] / np.sqrt(self.dim)
                p = np.exp(s - s.max())
                heads.append(p @ V[:, g] / p.sum())
            x = x + m('attn_output', np.concatenate(heads))
            y = self.norm(x, 'blk.%d.ffn_norm' % n)
            g = m('ffn_gate', y)
            x = x + m('ffn_down', g / (1 + np.exp(-g)) * m('ffn_up', y))
        self.pos += 1
        return self.w['token_embd.weight'] @ self.norm(x, 'output_norm')


def generate(f, prompt, count, temp=0.0, seed=0):
    tok, model, rng = Tokenizer(f.keys), Llama(f), np.random.RandomState(seed)
    start = tok.encode(prompt)
    for t in start:
        logits = model.step(t)
    out, gap = [], 1e9
    while len(out) < count:
        if temp > 0:
            p = np.exp((logits - logits.max()) / temp)
            t = int(rng.choice(len(p), p=p / p.sum()))
        else:
            t = int(logits.argmax())
            two = np.sort(logits)[-2:]
            gap = min(gap, float(two[1] - two[0]))
        out.append(t)
        if t == tok.eos:
            break
        logits = model.step(t)
    return start, out, tok.decode(out), gap


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('file')
    ap.add_argument('prompt', nargs='?', default=PROMPTS[0])
    ap.add_argument('--count', type=int, default=400)
    ap.add_argument('--temp', type=float, default=0.0)
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--reference')
    a = ap.parse_args()
    f = File(a.file)
    if a.reference:
        runs = []
        for p in PROMPTS:
            start, out, text, gap = generate(f, p, 40)
            print(repr(p), 'least distance between the two likeliest logits: %.3f' % gap)
            runs.append({'prompt': p, 'promptTokens': start, 'tokens': out, 'text': text})
        with open(a.reference, 'w') as o:
            o.write('[\n' + ',\n'.join(json.dumps(r) for r in runs) + '\n]\n')
        return
    _, out, text, _ = generate(f, a.prompt, a.count, a.temp, a.seed)
    print(a.prompt + text)
    print('[%d tokens, %s]' % (len(out), 'ended by itself' if out[-1] == 2 else 'cut'))


if __name__ == '__main__':
    main()
