// A plan as a picture: x = step, y = offset, one rectangle per buffer. One self-contained SVG, light and dark.

import {
  aliveBytes,
  type AlivePoint,
  formatBytes,
  formatExact,
  formatPlace,
  planReport,
  type ReportEntry,
  type ReportSource,
} from "./report.ts";

// The picture in user units; the plot lies inside the margins.
const WIDTH = 1200;
const HEIGHT = 680;
const LEFT = 84;
const RIGHT = 16;
const TOP = 56;
const BOTTOM = 48;
const PLOT_W = WIDTH - LEFT - RIGHT;
const PLOT_H = HEIGHT - TOP - BOTTOM;
/** Rectangles drawn at most: the largest areas. More would be smaller than a pixel and tens of megabytes. */
const RECTS_MAX = 20000;
// Fewer than this get outlines and, where it fits, their name.
const OUTLINED = 3000;
const COLOURS = 8;
/** Borders of buffers drawn at most, and the least height of a buffer that gets its name. */
const BORDERS_MAX = 256;
const NAMED_H = 64;

const STYLE = `
svg{color-scheme:light dark;font:12px system-ui,sans-serif;background:#fff}
text{fill:#222}.dim{fill:#666}.axis{stroke:#999;stroke-width:1}.grid{stroke:#e4e4e4;stroke-width:1}
.border{stroke:#555;stroke-width:1.2}.b{font-size:10px}
.o{stroke:#fff;stroke-width:.6}.c0{fill:#7aa6d6}.c1{fill:#8cc6a4}.c2{fill:#e3b27a}.c3{fill:#c79bd2}
.c4{fill:#9fb3c8}.c5{fill:#d99a9a}.c6{fill:#b8c27a}.c7{fill:#7cc3c9}.s{fill:#555}
.peak{stroke:#c0262d;stroke-width:1.5}.peakt{fill:#c0262d}.lb{stroke:#1a7f37;stroke-width:1.5;stroke-dasharray:6 4}
.lbt{fill:#1a7f37}.alive{fill:none;stroke:#111;stroke-width:1.2;stroke-opacity:.7}.n{font-size:10px;fill:#111;pointer-events:none}
rect:hover{stroke:#000;stroke-width:1.5}
@media (prefers-color-scheme:dark){svg{background:#15181c}text{fill:#ddd}.dim{fill:#9a9a9a}.axis{stroke:#777}
.grid{stroke:#2a2f36}.border{stroke:#aaa}.o{stroke:#15181c}.c0{fill:#3f6ea3}.c1{fill:#43825f}.c2{fill:#98703a}.c3{fill:#7f5590}
.c4{fill:#55697e}.c5{fill:#8f5151}.c6{fill:#727c36}.c7{fill:#37787e}.s{fill:#c8c8c8}.peak{stroke:#ff6b70}.peakt{fill:#ff6b70}
.lb{stroke:#57c46f}.lbt{fill:#57c46f}.alive{stroke:#fff}.n{fill:#eee}rect:hover{stroke:#fff}}`;

/** How steps and bytes become x and y. */
interface Scale {
  readonly first: number;
  readonly last: number;
  readonly bytes: number;
  x(step: number): number;
  y(offset: number): number;
}

function makeScale(entries: readonly ReportEntry[], peak: number): Scale {
  let first = Infinity;
  let last = -Infinity;
  for (const e of entries) {
    if (e.upper <= e.lower) continue;
    first = Math.min(first, e.lower);
    last = Math.max(last, e.upper);
  }
  if (!(last > first)) [first, last] = [0, 1];
  const bytes = peak > 0 ? peak : 1;
  return {
    first,
    last,
    bytes,
    x: (step) => LEFT + ((step - first) / (last - first)) * PLOT_W,
    y: (offset) => TOP + PLOT_H * (1 - offset / bytes),
  };
}

function round(v: number): string {
  return String(Math.round(v * 100) / 100);
}

// Also drops what XML 1.0 cannot hold.
function escapeXml(s: string): string {
  const named: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return s
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "")
    .replace(/[&<>"]/g, (c) => named[c] ?? c);
}

/** The plan as SVG text. Above 20,000 buffers only the largest are drawn, and the picture says so. */
export function planToSVG(source: ReportSource): string {
  const scale = makeScale(source.entries, source.peak);
  const shown = largest(source.entries);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img">`,
    `<title>${escapeXml(source.title ?? "memory plan")}</title>`,
    `<style>${STYLE}</style>`,
    heading(source, shown.length),
    axes(scale),
    rectangles(shown, scale),
    borders(source, scale),
    aliveLine(source.entries, scale),
    marks(source, scale),
    "</svg>",
    "",
  ].join("\n");
}

function largest(entries: readonly ReportEntry[]): ReportEntry[] {
  const drawn = entries.filter((e) => e.size > 0 && e.upper > e.lower);
  if (drawn.length <= RECTS_MAX) return drawn;
  const area = (e: ReportEntry): number => e.size * (e.upper - e.lower);
  return drawn.sort((a, b) => area(b) - area(a)).slice(0, RECTS_MAX);
}

function heading(s: ReportSource, shown: number): string {
  const n = s.entries.length;
  const count = shown < n ? `${n} buffers, the ${shown} largest drawn` : `${n} buffers`;
  const gap = s.optimal ? "no plan is smaller" : `lower bound ${formatBytes(s.lowerBound)}`;
  const figures = `peak ${formatExact(s.peak)} · ${gap} · without re-use ${formatBytes(s.sum)} · ${count}`;
  return [
    `<text x="${LEFT}" y="22" font-size="16" font-weight="600">${escapeXml(s.title ?? "memory plan")}</text>`,
    `<text x="${LEFT}" y="42" class="dim">${figures}</text>`,
  ].join("");
}

// Steps of 1, 2 or 5 times a power of `base` that cut `range` in at most `most` pieces.
function tickSize(range: number, most: number, base: number): number {
  let size = 1;
  for (;;) {
    for (const k of base === 10 ? [1, 2, 5] : [1, 2, 4, 8]) {
      if (range / (size * k) <= most) return size * k;
    }
    size *= base === 10 ? 10 : 16;
  }
}

function axes(s: Scale): string {
  const out: string[] = [];
  const dy = tickSize(s.bytes, 10, 16);
  for (let b = 0; b <= s.bytes; b += dy) {
    const y = round(s.y(b));
    out.push(`<path class="grid" d="M${LEFT} ${y}h${PLOT_W}"/>`);
    out.push(
      `<text x="${LEFT - 6}" y="${y}" dy=".35em" text-anchor="end" class="dim">${formatBytes(b)}</text>`,
    );
  }
  const dx = tickSize(s.last - s.first, 12, 10);
  for (let t = Math.ceil(s.first / dx) * dx; t <= s.last; t += dx) {
    const x = round(s.x(t));
    out.push(`<text x="${x}" y="${TOP + PLOT_H + 18}" text-anchor="middle" class="dim">${t}</text>`);
  }
  out.push(`<path class="axis" d="M${LEFT} ${TOP}v${PLOT_H}h${PLOT_W}" fill="none"/>`);
  out.push(`<text x="${LEFT + PLOT_W}" y="${HEIGHT - 12}" text-anchor="end" class="dim">step</text>`);
  return out.join("");
}

function rectangles(entries: readonly ReportEntry[], s: Scale): string {
  const outlined = entries.length < OUTLINED ? " o" : "";
  return entries.map((e, i) => rectangle(e, e.scratch ? "s" : `c${i % COLOURS}`, outlined, s)).join("\n");
}

function rectangle(e: ReportEntry, colour: string, outlined: string, s: Scale): string {
  const [x, y] = [s.x(e.lower), s.y(e.offset + e.size)];
  const [w, h] = [s.x(e.upper) - x, s.y(e.offset) - y];
  const tip = `${e.name}${e.scratch ? " (scratch)" : ""}\n${formatExact(e.size)} at ${formatPlace(e)}, steps [${e.lower}, ${e.upper})`;
  const place = e.inPlace?.length ? `\nin place: ${e.inPlace.join(", ")}` : "";
  const box = `x="${round(x)}" y="${round(y)}" width="${round(Math.max(w, 0.2))}" height="${round(Math.max(h, 0.2))}"`;
  const rect = `<rect class="${colour}${outlined}" ${box}><title>${escapeXml(tip + place)}</title></rect>`;
  const fits = outlined !== "" && h >= 12 && w >= e.name.length * 5.8 + 6;
  return fits
    ? `${rect}<text class="n" x="${round(x + 3)}" y="${round(y + 10)}">${escapeXml(e.name)}</text>`
    : rect;
}

// Lines between buffers that lie end to end, their names at the right edge.
function borders({ buffers = [] }: ReportSource, s: Scale): string {
  return buffers
    .slice(0, BORDERS_MAX)
    .map(({ name, from, nBytes }) => {
      const [top, bottom] = [s.y(from + nBytes), s.y(from)];
      const line = from > 0 ? `<path class="border" d="M${LEFT} ${round(bottom)}h${PLOT_W}"/>` : "";
      if (bottom - top < NAMED_H) return line;
      const at = `${WIDTH - 5} ${round((top + bottom) / 2)}`;
      return `${line}<text class="b dim" transform="translate(${at})rotate(-90)" text-anchor="middle">${escapeXml(name)}</text>`;
    })
    .join("");
}

// Bytes alive over time: the distance to the top of the picture is what no placement could use better. With more changes
// than the plot has columns, the most of each column.
function aliveLine(entries: readonly ReportEntry[], s: Scale): string {
  const points = aliveBytes(entries);
  if (points.length === 0) return "";
  const shown = points.length > 4 * PLOT_W ? byColumn(points, s) : points;
  const path = shown.map((a, i) => {
    const y = round(s.y(Math.min(a.bytes, s.bytes)));
    return i === 0 ? `M${round(s.x(a.step))} ${y}` : `H${round(s.x(a.step))}V${y}`;
  });
  return `<path class="alive" d="${path.join("")}"><title>bytes alive</title></path>`;
}

function byColumn(points: readonly AlivePoint[], s: Scale): AlivePoint[] {
  const most = new Map<number, AlivePoint>();
  for (const a of points) {
    const column = Math.round(s.x(a.step));
    if (a.bytes >= (most.get(column)?.bytes ?? 0)) most.set(column, a);
  }
  return [...most.values()];
}

function marks(source: ReportSource, s: Scale): string {
  if (source.entries.length === 0) return "";
  const { peakStep } = planReport(source, { top: 0 });
  const x = s.x(peakStep.step + 0.5);
  const right = x > LEFT + PLOT_W * 0.7;
  const label = `peak: step ${peakStep.step}${peakStep.name === "" ? "" : ` ${peakStep.name}`}`;
  const out = [
    `<path class="peak" d="M${round(x)} ${TOP}v${PLOT_H + 6}"/>`,
    `<text class="peakt" x="${round(x)}" y="${HEIGHT - 12}" text-anchor="${right ? "end" : "start"}">${escapeXml(label)}</text>`,
  ];
  if (source.lowerBound < source.peak) {
    const end = LEFT + PLOT_W;
    // The name stands beside the heading, with a piece of the line: inside the plot it would lie on those of buffers.
    out.push(`<path class="lb" d="M${LEFT} ${round(s.y(source.lowerBound))}h${PLOT_W}M${end - 28} 38h28"/>`);
    out.push(
      `<text class="lbt" x="${end - 34}" y="42" text-anchor="end">lower bound ${formatBytes(source.lowerBound)}</text>`,
    );
  }
  return out.join("");
}
