"""Writes GGUF v3 with F32 and Q8_0 tensors."""
import struct

import numpy as np

F32, Q8_0 = 0, 8


def to_q8_0(x):
    """Blocks of 32 values: f16 scale, 32 int8."""
    x = np.ascontiguousarray(x, dtype=np.float32).reshape(-1, 32)
    d = (np.abs(x).max(1, keepdims=True) / np.float32(127)).astype(np.float32)
    with np.errstate(divide='ignore'):
        inv = np.where(d > 0, np.float32(1) / d, np.float32(0)).astype(np.float32)
    y = x * inv
    q = np.trunc(y + np.copysign(np.float32(0.5), y)).astype(np.int8)  # half away from zero
    out = np.empty((len(x), 34), dtype=np.uint8)
    out[:, :2] = d.astype('<f2').view(np.uint8).reshape(-1, 2)
    out[:, 2:] = q.view(np.uint8)
    return out.tobytes()


def from_q8_0(data, shape):
    b = np.frombuffer(data, dtype=np.uint8).reshape(-1, 34)
    d = b[:, :2].copy().view('<f2').astype(np.float32)
    return (d * b[:, 2:].copy().view(np.int8).astype(np.float32)).reshape(tuple(shape))


def text(s):
    b = s.encode()
    return struct.pack('<Q', len(b)) + b


class Writer:
    def __init__(self, alignment=32):
        self.keys, self.tensors, self.alignment = [], [], alignment

    def key(self, name, kind, data):
        self.keys.append(text(name) + struct.pack('<i', kind) + data)

    def u32(self, name, v):
        self.key(name, 4, struct.pack('<I', v))

    def f32(self, name, v):
        self.key(name, 6, struct.pack('<f', v))

    def bool(self, name, v):
        self.key(name, 7, struct.pack('<B', v))

    def string(self, name, v):
        self.key(name, 8, text(v))

    def array(self, name, kind, items):
        self.key(name, 9, struct.pack('<iQ', kind, len(items)) + b''.join(items))

    def strings(self, name, v):
        self.array(name, 8, [text(s) for s in v])

    def f32s(self, name, v):
        self.array(name, 6, [struct.pack('<f', x) for x in v])

    def i32s(self, name, v):
        self.array(name, 5, [struct.pack('<i', x) for x in v])

    def tensor(self, name, array):
        """Matrices become Q8_0, vectors stay F32. The file lists the fastest dimension first."""
        kind = Q8_0 if array.ndim == 2 else F32
        data = to_q8_0(array) if kind == Q8_0 else np.ascontiguousarray(array, dtype='<f4').tobytes()
        self.tensors.append((name, array.shape[::-1], kind, data))

    def pad(self, n):
        return -n % self.alignment

    def write(self, path):
        head = b'GGUF' + struct.pack('<Iqq', 3, len(self.tensors), len(self.keys)) + b''.join(self.keys)
        offset = 0
        for name, ne, kind, data in self.tensors:
            head += text(name) + struct.pack('<I', len(ne)) + struct.pack('<%dq' % len(ne), *ne) + struct.pack('<iQ', kind, offset)
            offset += len(data) + self.pad(len(data))
        head += bytes(self.pad(len(head)))
        with open(path, 'wb') as f:
            f.write(head)
            for _, _, _, data in self.tensors:
                f.write(data + bytes(self.pad(len(data))))
        return len(head) + offset
