// Every bound of the GGUF layer, with its reason. A file beyond one is refused before anything of its size is allocated.

/**
 * A declared length, count or byte size from here on that does not fit in the rest of the file is `limit` (nobody
 * meant it); a smaller one is `truncated` (the file was cut short).
 */
export const ABSURD: number = 2 ** 30;

/** Bytes before the tensor data. The largest vocabularies take about 25 MB; more is no header. */
export const MAX_HEADER_BYTES: number = 2 ** 29;

/** Metadata keys. Models have less than a hundred, and a key costs more memory than its 13 bytes in the file. */
export const MAX_KEYS: number = 2 ** 16;

/** Tensors. The largest models have a few thousand, some ten thousands with every expert apart. */
export const MAX_TENSORS: number = 2 ** 17;

/** Bytes of a metadata key: the format's own bound. */
export const MAX_KEY_BYTES: number = 65535;

/** Bytes of a tensor name: the format's own bound ("at most 64"). */
export const MAX_NAME_BYTES: number = 64;

/** Dimensions of a tensor: ggml's bound, and ours. */
export const MAX_DIMS: number = 4;

/** Arrays inside arrays: the format allows any depth, no known file uses a second. */
export const MAX_NESTING: number = 4;

/** Arrays inside arrays, in the whole file: each is an object of its own, where the file needs 12 bytes. */
export const MAX_NESTED_ARRAYS: number = 2 ** 16;

/** Element counts and byte sizes from here on are `overflow`: ggml counts in signed 64 bits. */
export const OVERFLOW: bigint = 2n ** 63n;

/** The data section's alignment is a power of two and, as the format demands, a multiple of 8. */
export const MIN_ALIGNMENT: number = 8;

/** Alignment where the file names none. */
export const DEFAULT_ALIGNMENT: number = 32;

/** Least bytes of a key with its value: length 8, value type 4, value 1. */
export const MIN_KEY_BYTES: number = 13;

/** Least bytes of a tensor info: name length 8, n_dims 4, type 4, offset 8. */
export const MIN_TENSOR_BYTES: number = 24;

/** Bytes of the header read at once, more where a single value needs more. */
export const WINDOW_BYTES: number = 2 ** 20;

/** Tensor bytes read at once: small enough that progress and abort are prompt, large enough that calls cost nothing. */
export const PIECE_BYTES: number = 2 ** 23;
