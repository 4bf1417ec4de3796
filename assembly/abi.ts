// The contract between the two languages: ids and layouts, read by asc, tsc and esbuild alike.
//
// Only numeric enums and integer constants may stand here, without type annotations: that is the subset on which
// all three compilers agree. Object literals, arrays and functions belong to ts/ or to another file of assembly/.

/** Element types. Values are GGUF's; ids not listed here are dead or unknown. */
export enum Type {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q8_1 = 9,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  Q8_K = 15,
  IQ2_XXS = 16,
  IQ2_XS = 17,
  IQ3_XXS = 18,
  IQ1_S = 19,
  IQ4_NL = 20,
  IQ3_S = 21,
  IQ2_S = 22,
  IQ4_XS = 23,
  I8 = 24,
  I16 = 25,
  I32 = 26,
  I64 = 27,
  F64 = 28,
  IQ1_M = 29,
  BF16 = 30,
  TQ1_0 = 34,
  TQ2_0 = 35,
  MXFP4 = 39,
  NVFP4 = 40,
  Q1_0 = 41,
  Q2_0 = 42,
  COUNT = 43,
}

/** Operators. Values are ours alone and may be renumbered. The first five compute nothing. */
export enum Op {
  NONE,
  RESHAPE,
  VIEW,
  PERMUTE,
  TRANSPOSE,
  DUP,
  CONT,
  CPY,
  ADD,
  SUB,
  MUL,
  DIV,
  SQR,
  SQRT,
  LOG,
  SIN,
  COS,
  SCALE,
  CLAMP,
  LEAKY_RELU,
  FILL,
  UNARY,
  GLU,
  SUM,
  SUM_ROWS,
  MEAN,
  CUMSUM,
  ARGMAX,
  ARGSORT,
  TOP_K,
  REPEAT,
  CONCAT,
  NORM,
  RMS_NORM,
  L2_NORM,
  MUL_MAT,
  GET_ROWS,
  SET_ROWS,
  DIAG_MASK_INF,
  SOFT_MAX,
  ROPE,
  FLASH_ATTN_EXT,
  ADD1,
  ACC,
  SET,
  GROUP_NORM,
  IM2COL,
  CONV_2D,
  CONV_2D_DW,
  CONV_TRANSPOSE_1D,
  CONV_TRANSPOSE_2D,
  POOL_1D,
  POOL_2D,
  UPSCALE,
  PAD,
  PAD_REFLECT_1D,
  ROLL,
  ARANGE,
  TIMESTEP_EMBEDDING,
  DIAG_MASK_ZERO,
  TRI,
  DIAG,
  SSM_CONV,
  MUL_MAT_ID,
  ADD_ID,
  COUNT,
}

/** Parameter slots of ROPE, ggml's. SECTIONS takes four. */
export enum RopeParam {
  N_DIMS = 1,
  MODE = 2,
  CTX_ORIG = 4,
  FREQ_BASE = 5,
  FREQ_SCALE = 6,
  EXT_FACTOR = 7,
  ATTN_FACTOR = 8,
  BETA_FAST = 9,
  BETA_SLOW = 10,
  SECTIONS = 11,
  OFFSET = 15,
}

/** Modes of ROPE that the kernels ask for. MULTI_AXIS is a bit of the others. */
export enum RopeMode {
  MULTI_AXIS = 8,
  VISION = 24,
  INTERLEAVED = 40,
}

/** Parameter slots of FLASH_ATTN_EXT; the first three are ggml's. */
export enum AttnParam {
  SCALE = 0,
  MAX_BIAS = 1,
  SOFTCAP = 2,
  WINDOW = 4,
  TWO_SIDED = 5,
}

/** Function of an {@link Op.UNARY} node, in its parameter slot 0. */
export enum Unary {
  ABS,
  SGN,
  NEG,
  STEP,
  TANH,
  ELU,
  RELU,
  SIGMOID,
  GELU,
  GELU_QUICK,
  SILU,
  HARDSWISH,
  HARDSIGMOID,
  EXP,
  EXPM1,
  SOFTPLUS,
  GELU_ERF,
  XIELU,
  FLOOR,
  CEIL,
  ROUND,
  TRUNC,
  COUNT,
}

/** Function of an {@link Op.GLU} node, in its parameter slot 0. */
export enum Glu {
  REGLU,
  GEGLU,
  SWIGLU,
  SWIGLU_OAI,
  GEGLU_ERF,
  GEGLU_QUICK,
  COUNT,
}

/** Bits of a record's `flags`. */
export enum Flag {
  /** written by the user before a run: has its memory from step 0 on */
  INPUT = 1,
  /** read by the user after a run: keeps its memory to the end */
  OUTPUT = 2,
  /** memory is not the planner's (weights, KV cache) */
  EXTERNAL = 4,
  /** every kernel of the op reads an element (or row) before overwriting it: the result may take over a source's memory */
  INPLACE = 8,
  /** rows lie in quads (assembly/quants/quads.ts), not in file order: read by MUL_MAT, MUL_MAT_ID and GET_ROWS only */
  QUADS = 16,
  /** the threads meet before this node: it touches bytes that one since their last meeting wrote, or writes what it read */
  MEET = 32,
  /** so small that thread 0 computes it alone */
  SOLO = 64,
  /** runs at the same time as the node before it: what that one uses stays until both are done */
  BESIDE = 128,
}

/** What a run, or one thread of it, came to. */
export enum Status {
  OK,
  /** a thread trapped: see the error cells */
  TRAP,
  /** left because of the abort cell */
  ABORTED,
  /** a worker did not report in time */
  TIMEOUT,
}

/** What a region of the arena holds. */
export enum Region {
  FREE,
  CONTROL,
  RECORDS,
  WEIGHTS,
  KV,
  COMPUTE,
  /** planner workspace and other short-lived blocks */
  SCRATCH,
  COUNT,
}

export const MAX_DIMS = 4;
export const MAX_SRC = 10;
export const MAX_PARAMS = 16;
export const MAX_THREADS = 64;
/** Source slot of the optional I32 scalar that says how many columns (outermost dimension) of a batch are live. */
export const SRC_LIVE = 9;
/** Alignment of planned tensors on the CPU, bytes. ggml's. */
export const CPU_ALIGN = 32;

// Node record. Addresses are bytes of linear memory; 0 is "none". Records stand one after another, leafs first, then
// nodes in execution order, so a record's index is (address - base) / NODE_BYTES.
//
//   0 op | 4 type | 8 flags | 12 buffer | 16 ne[4] | 32 nb[4] | 48 src[10] | 88 view_src | 92 data
//   96 view_offs f64 | 104 size f64 | 112 offs f64 | 120 scratch f64 | 128 scratch_offs f64
//   136 scratch_data | 140 parent | 144 params[16] | 208

export const NODE_OP = 0;
export const NODE_TYPE = 4;
export const NODE_FLAGS = 8;
/** index of the backend buffer the tensor is planned into */
export const NODE_BUFFER = 12;
/** elements per dimension, i32 */
export const NODE_NE = 16;
/** bytes between neighbours per dimension, u32 */
export const NODE_NB = NODE_NE + 4 * MAX_DIMS;
/** addresses of source records, u32 */
export const NODE_SRC = NODE_NB + 4 * MAX_DIMS;
/** address of the root record a view looks into, u32 */
export const NODE_VIEW_SRC = NODE_SRC + 4 * MAX_SRC;
/** address of the data, u32; written by bind */
export const NODE_DATA = NODE_VIEW_SRC + 4;
/** byte offset of a view in its root, f64 */
export const NODE_VIEW_OFFS = NODE_DATA + 4;
/** bytes, unpadded, f64 */
export const NODE_SIZE = NODE_VIEW_OFFS + 8;
/** planned offset in the buffer, f64; -1 = not placed */
export const NODE_OFFS = NODE_SIZE + 8;
/** scratch bytes for all threads together, f64 */
export const NODE_SCRATCH = NODE_OFFS + 8;
/** planned offset of the scratch, f64; -1 = none */
export const NODE_SCRATCH_OFFS = NODE_SCRATCH + 8;
/** address of the scratch, u32; written by bind */
export const NODE_SCRATCH_DATA = NODE_SCRATCH_OFFS + 8;
/** index of the record whose memory was taken over in place, i32; -1 = none */
export const NODE_PARENT = NODE_SCRATCH_DATA + 4;
/** operator parameters, i32 or the bits of f32 */
export const NODE_PARAMS = NODE_PARENT + 4;
export const NODE_BYTES = NODE_PARAMS + 4 * MAX_PARAMS;

// Control block: the only mutable shared state beside the arena. Below the static data (memoryBase 32768), zero at start.

export const CTRL = 1024;
/** number of the job handed out to workers last: they wait for it to change */
export const CTRL_JOB = CTRL;
/** 1 = compute, 2 = leave, 3 = touch pages FIRST to LAST */
export const CTRL_KIND = CTRL + 4;
export const CTRL_RECORDS = CTRL + 8;
export const CTRL_FIRST = CTRL + 12;
export const CTRL_LAST = CTRL + 16;
export const CTRL_NTH = CTRL + 20;
/** 256 where the engine is taken to pack two operations on neighbouring vectors into one, else 0 */
export const CTRL_VECTORS = CTRL + 24;
/** threads that sleep, or are about to: nobody else need be woken */
export const CTRL_SLEEPERS = CTRL + 28;
/** Status of the run; the first thread to fail writes it */
export const CTRL_ERROR = CTRL + 32;
/** index of the failing node */
export const CTRL_ERROR_NODE = CTRL + 36;
/** set by anyone to end the run after the current node */
export const CTRL_ABORT = CTRL + 40;
/** workers that have finished the job */
export const CTRL_DONE = CTRL + 44;
/** workers that have come: they wait for jobs */
export const CTRL_READY = CTRL + 48;
/** spins before a thread sleeps at a barrier */
export const CTRL_SPIN = CTRL + 52;
/** naps of 100 ms that thread 0 grants the workers after its own part is done */
export const CTRL_PATIENCE = CTRL + 56;
/** how the relaxed dot takes bytes beyond 0..127: WIDE_NONE, WIDE_UNSIGNED or WIDE_SIGNED (assembly/selftest.ts) */
export const CTRL_WIDE = CTRL + 60;
/** arrivals at the barrier since the job was handed out; a cache line of its own, for whoever waits reads it over and over */
export const CTRL_PHASE = CTRL + 128;

/** current node index of each thread, each in a cache line of its own */
export const CTRL_NODE = 20480;
export const CTRL_NODE_SHIFT = 6;

/** Nodes between two meetings of threads at most. */
export const GROUP_MAX = 64;
/** two banks of GROUP_MAX claims, each in a cache line of its own (assembly/share.ts) */
export const CTRL_CLAIMS = 24576;
export const CTRL_CLAIM_SHIFT = 6;

// Region table: {first, end, kind} per region in use, sorted by first; addresses in units of REGION_UNIT bytes.

export const REGION_UNIT = 64;
export const REGION_COUNT = 4096;
/** end of all regions there ever were, in units: memory from here on is zero */
export const REGION_HIGHEST = REGION_COUNT + 4;
export const REGION_TABLE = REGION_COUNT + 64;
export const REGION_MAX = 1024;
export const REGION_BYTES = 12;

// Header of a planner's workspace: what is asked for and what it came to. The host fills it in (0 where it says nothing),
// lays out the arrays and calls planLive() or planPlace(); everything is checked before, the planner trusts what stands here.

/** f64: bytes of the best plan so far; Infinity: none yet */
export const PLAN_PEAK = 0;
/** f64: most bytes alive at once, no placement is smaller. On entry what is known already, or Infinity */
export const PLAN_LOWER_BOUND = 8;
/** f64: work done, in buffers looked at */
export const PLAN_WORK = 16;
/** f64: the lower bound or more, when a complete search found nothing below */
export const PLAN_PROVED = 24;
/** f64: every offset is a multiple of it, sizes are padded to it; at least 1 */
export const PLAN_ALIGN = 32;
/** f64: most work */
export const PLAN_BUDGET = 40;
/** f64: no buffer crosses a multiple of it; Infinity: no chunks */
export const PLAN_CHUNK = 48;
/** i32: entries of the list */
export const PLAN_COUNT = 56;
/** i32: no pre-placed buffers, one alignment, one chunk */
export const PLAN_PLAIN = 60;
/** i32: pre-placed buffers that have a size and a lifetime */
export const PLAN_FIXED_COUNT = 64;
/** address of the node records, and how many leafs and nodes; 0 for a bare list */
export const PLAN_RECORDS = 68;
export const PLAN_LEAFS = 72;
export const PLAN_NODES = 76;
/** i32: index of the backend buffer planned; tensors elsewhere are not ours */
export const PLAN_BUFFER = 80;
/** u32: state of the random numbers, never 0 */
export const PLAN_SEED = 84;
/** i32: buffers to place, those with a size and a lifetime */
export const PLAN_FREE_COUNT = 88;
/** addresses of the arrays, in the order of PlanArray */
export const PLAN_ARRAYS = 96;
/** i32: leaves of the tree, a power of two; TREE_LEAF buffers each */
export const PLAN_LEAVES = 228;
/** f64: bytes to aim at when larger than the lower bound */
export const PLAN_CAPACITY = 256;
/** f64: highest end of a pre-placed buffer */
export const PLAN_FLOOR = 264;
/** f64: for the search, what all sizes and possible offsets are multiples of */
export const PLAN_UNIT = 272;
/** f64: padded bytes of all tensors without any re-use, scratch not counted */
export const PLAN_SUM = 280;
export const PLAN_HEADER_BYTES = 360;

/** Arrays of a workspace, laid out by ts/runtime/plan_space.ts. "buffer": an entry of the list with a size and a lifetime. */
export enum PlanArray {
  /** i32 per buffer: its entry. On entry the buffers to place, then the pre-placed by ascending offset */
  ID,
  /** a record of 32 bytes per buffer */
  BUFFERS,
  /** f64 per entry: the result, and where the pre-placed are; -1 for the others, and for entry -1 */
  OFFSET,
  /** f64 per section: trouble seen so far */
  WEIGHT,
  /** i32 per entry: alive in [lower, upper) */
  LOWER,
  UPPER,
  /** f64 per entry, padded */
  BYTES,
  /** records: per record, LIFE_BYTES */
  LIVES,
  /** f64 per entry, multiples of `align`; address 0: all have `align` */
  ALIGNS,
  /** records: f64 per entry, bytes of its present owner */
  NOW,
  /** records: i32 per entry, the record, or ~record for its scratch */
  OWNER,
  /** f64 per buffer */
  BEST_OFF,
  LOAD_MET,
  /** f64 per section, and twice as many */
  LOAD,
  MAX_TREE,
  /** tree of the unplaced, and a stack for walks through it */
  TREE,
  STACK,
  /** the skyline */
  SEGMENTS,
  HEAP,
  /** sorting */
  SORT_A,
  SORT_B,
  SORT_C,
  COUNTS,
  /** free blocks of best fit */
  BLOCKS,
  /** the search; address 0: the list is too long for it */
  SEARCH,
  ITEMS,
  SECTIONS,
  DIRTY,
  OPEN,
  TRAIL,
  LISTS,
  FRAMES,
  ROWS,
  /** how many arrays */
  LENGTH,
}

// What a pass over records found out about one, i32 each; -1: none.

/** list entry that its bytes lie in, record whose memory it took over, list entry of its scratch */
export const LIFE_ENTRY = 8;
export const LIFE_PARENT = 16;
export const LIFE_SCRATCH = 20;
export const LIFE_BYTES = 24;

// Bytes of what the arrays hold, and how many of it.

export const BUFFER_BYTES = 32;
export const SEGMENT_BYTES = 32;
/** buffers under a leaf of the tree */
export const TREE_LEAF = 8;
/** counts of a sort's digit */
export const SORT_COUNTS = 2049;
/** longest list that is searched */
export const SEARCH_MAX = 4096;
export const SEARCH_BYTES = 112;
export const ITEM_BYTES = 48;
export const SECTION_BYTES = 32;
export const FRAME_BYTES = 24;
/** a run of the search that needs more gives up */
export const TRAIL_PER_BUFFER = 512;
export const LISTS_PER_BUFFER = 32;

// What products and attention take at a time. ts/ops counts their scratch with the same numbers.

/** columns from which weights are unpacked in panels */
export const PANEL_COLUMNS = 4;
/** columns of a list of MUL_MAT_ID */
export const LIST_COLUMNS = 64;
/** columns spread out together: at least, at most, and as many as have so many elements; of weights in blocks */
export const BLOCK_COLUMNS = 64;
export const BLOCK_COLUMNS_MAX = 256;
export const BLOCK_ELEMENTS = 1 << 20;
/** the same of floats */
export const FLOAT_COLUMNS = 16;
export const FLOAT_COLUMNS_MAX = 256;
export const FLOAT_ELEMENTS = 1 << 18;
/** bytes of the sixteen partial tiles of two panels of floats times six columns */
export const FLOAT_PARTIAL_BYTES = 16 * 2 * 192;
/** rows of attention that go together, and cells that are converted together */
export const ATTN_ROWS = 64;
export const ATTN_CELLS = 32;
/** bytes of a cell in a tile, unless one head needs more */
export const ATTN_CELL_BYTES = 2048;
/** bytes of what all rows share, of the weights of a row, and of the partial sums of rows that go together */
export const ATTN_WORK_BYTES = 128;
export const ATTN_WEIGHT_BYTES = 4 * 136;
export const ATTN_PARTIAL_BYTES = 3 * 1024;
