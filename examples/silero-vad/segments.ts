// From probabilities of speech to spoken segments, by the rules of Silero and whisper.cpp: speech begins at the threshold
// and ends once it has stayed below a lower one for long enough; what then lies close together is one segment.

/** What counts as speech. */
export interface SegmentOptions {
  /** probability from which a window is speech, 0.5 when absent; it ends 0.15 below */
  readonly threshold?: number;
  /** shorter speech is dropped, 250 when absent */
  readonly minSpeechMs?: number;
  /** silence that ends speech, 100 when absent */
  readonly minSilenceMs?: number;
  /** segments with less than this between them are one, 200 when absent */
  readonly mergeMs?: number;
}

/** A stretch of speech, in samples. */
export interface Segment {
  readonly start: number;
  readonly end: number;
}

const RATE = 16000;

const samplesOf = (ms: number): number => (ms * RATE) / 1000;

/** Segments of a recording of `nSamples`, from the probabilities of windows of `window` samples. */
export function segmentsOf(
  probabilities: ArrayLike<number>,
  window: number,
  nSamples: number,
  { threshold = 0.5, minSpeechMs = 250, minSilenceMs = 100, mergeMs = 200 }: SegmentOptions = {},
): Segment[] {
  const segments: Segment[] = [];
  const push = (start: number, end: number): void => {
    if (end - start <= samplesOf(minSpeechMs)) return;
    const last = segments.at(-1);
    if (last === undefined || start - last.end >= samplesOf(mergeMs)) segments.push({ start, end });
    else segments.splice(-1, 1, { start: last.start, end });
  };
  const low = Math.max(0.01, threshold - 0.15);
  let start = -1;
  let quiet = -1;
  for (let i = 0; i < probabilities.length; i++) {
    const p = probabilities[i]!;
    const at = i * window;
    if (p >= threshold) {
      if (start < 0) start = at;
      quiet = -1;
    } else if (p < low && start >= 0) {
      if (quiet < 0) quiet = at;
      if (at - quiet < samplesOf(minSilenceMs)) continue;
      push(start, quiet);
      start = quiet = -1;
    }
  }
  if (start >= 0) push(start, nSamples);
  return segments;
}
