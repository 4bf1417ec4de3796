// Regions of the arena: who owns which bytes of linear memory. First fit, so that what was disposed is used again.
//
// The table is a sorted array of {first, end, kind}, in units of 64 bytes so that 4 GiB fits 32 bits. Bytes cross the
// border to TypeScript as f64.

import {
  Region,
  REGION_BYTES,
  REGION_COUNT,
  REGION_HIGHEST,
  REGION_MAX,
  REGION_TABLE,
  REGION_UNIT,
} from "./abi";


@unmanaged
class Entry {
  first: u32;
  end: u32;
  kind: i32;
}

if (offsetof<Entry>() != REGION_BYTES) ERROR("abi.ts: REGION_BYTES");

function at(i: i32): Entry {
  return changetype<Entry>(<usize>REGION_TABLE + <usize>i * <usize>REGION_BYTES);
}

function count(): i32 {
  return load<i32>(REGION_COUNT);
}

function units(bytes: f64): u32 {
  return <u32>Math.ceil(bytes / REGION_UNIT);
}

// Units of memory there are now.
function limit(): u32 {
  return <u32>memory.size() * (65536 / REGION_UNIT);
}

function insert(i: i32, first: u32, end: u32, kind: i32): void {
  const p = changetype<usize>(at(i));
  memory.copy(p + REGION_BYTES, p, <usize>(count() - i) * REGION_BYTES);
  const e = at(i);
  e.first = first;
  e.end = end;
  e.kind = kind;
  store<u32>(REGION_HIGHEST, max<u32>(load<u32>(REGION_HIGHEST), end));
  store<i32>(REGION_COUNT, count() + 1);
}

/** Marks everything below the heap as control. Called once, by the first instance. */
export function regionInit(): void {
  store<i32>(REGION_COUNT, 0);
  insert(0, 0, units(<f64>__heap_base), Region.CONTROL);
}

/** Takes `bytes` for `kind`; returns the address, or -1 when no gap is large enough or the table is full. */
export function regionAlloc(bytes: f64, kind: i32): f64 {
  const need = max<u32>(units(bytes), 1);
  const n = count();
  if (n >= REGION_MAX || !(bytes >= 0) || bytes > 4294967296) return -1;
  for (let i = 0; i < n; i++) {
    const gap = at(i).end;
    const next = i + 1 < n ? at(i + 1).first : limit();
    if (next - gap < need) continue;
    insert(i + 1, gap, gap + need, kind);
    return <f64>gap * REGION_UNIT;
  }
  return -1;
}

/** Gives back the region that starts at `address`; false when there is none. */
export function regionFree(address: f64): bool {
  const first = <u32>(address / REGION_UNIT);
  const n = count();
  for (let i = 1; i < n; i++) {
    if (at(i).first != first) continue;
    const p = changetype<usize>(at(i));
    memory.copy(p, p + REGION_BYTES, <usize>(n - 1 - i) * REGION_BYTES);
    store<i32>(REGION_COUNT, n - 1);
    return true;
  }
  return false;
}

/** Bytes held by `kind`; for Region.FREE the bytes held by nobody. */
export function regionBytes(kind: i32): f64 {
  let sum: f64 = 0;
  for (let i = 0, n = count(); i < n; i++) {
    const e = at(i);
    if (kind == Region.FREE || e.kind == kind) sum += <f64>(e.end - e.first);
  }
  return (kind == Region.FREE ? <f64>limit() - sum : sum) * REGION_UNIT;
}

/** Bytes by which memory must grow so that `bytes` fit in one piece; 0 when they fit now. */
export function regionShortfall(bytes: f64): f64 {
  const need = max<u32>(units(bytes), 1);
  const n = count();
  for (let i = 0; i < n; i++) {
    const next = i + 1 < n ? at(i + 1).first : limit();
    if (next - at(i).end >= need) return 0;
  }
  return (<f64>need - <f64>(limit() - at(n - 1).end)) * REGION_UNIT;
}
