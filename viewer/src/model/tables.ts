/* The tables of a page: src/tool/view/tables.def describes them. Built by tools/build-viewer; do not edit. */
export const SCHEMA = {
  threads: {
    /** 0: unknown */
    tid: "u32",
    name: "strings",
    worker: "strings?",
    is_main: "u8",
    /** 0: unknown, or the recording has one process */
    pid: "u32",
    /** The name of its process, if there are several */
    process: "strings?",
    /** Place of its process among all, the busiest first */
    place: "u32",
  },
  code: {
    function: "strings",
    file: "strings?",
    /** 0: unknown */
    line: "u32",
    module: "strings?",
    /** 1: inlined into the frame around it */
    inlined: "u8",
    /** 1: in the C library or similar; skipped if the stack has a frame of the program itself to name */
    plumbing: "u8",
  },
  /** A node is a stack: its own frame and its parent's. Parents come before children. */
  nodes: {
    parent: "nodes?",
    code: "code",
  },
  samples: {
    at: "ns",
    thread: "threads",
    node: "nodes?",
    /** SAMPLE_CPU, SAMPLE_OFF or SAMPLE_PREEMPTED */
    kind: "u8",
    /** Time that the sample represents, or how long the thread was off the CPU (0: it did not return) */
    value: "length",
  },
  polls: {
    start: "ns",
    length: "length",
    thread: "threads",
    task: "tasks?",
    /** POLL_OPEN, POLL_NESTED */
    flags: "u8",
    /** 1 + the moment of the wake; 0: unknown */
    wake_at: "ns",
    waker_thread: "threads?",
    waker_task: "tasks?",
  },
  tasks: {
    name: "strings",
    place: "strings?",
    kind: "u8",
    polls: "u32",
    total: "ns",
    p50: "ns",
    p99: "ns",
    max: "ns",
    /** Share of its time on a CPU, 0 to 1; -1: unknown */
    on_cpu: "num",
  },
  parks: {
    start: "ns",
    length: "length",
    thread: "threads",
    kind: "u8",
  },
  queue_names: {
    name: "strings",
  },
  queues: {
    at: "ns",
    queue: "queue_names",
    depth: "num",
  },
  values: {
    at: "ns",
    name: "strings",
    value: "num",
  },
  marks: {
    at: "ns",
    thread: "threads?",
    name: "strings",
  },
  functions: {
    name: "strings",
    file: "strings?",
    line: "u32",
    calls: "num",
    self: "ns",
    /** total, p50, p99: -1 if unknown */
    total: "ns",
    p50: "ns",
    p99: "ns",
    alloc_count: "num",
    alloc_bytes: "num",
    free_count: "num",
    free_bytes: "num",
  },
  frames: {
    start: "ns",
    wall: "length",
    thread: "threads",
    root: "functions?",
    spike: "u8",
    alloc_count: "u32",
    alloc_bytes: "num",
    /** From 0; the page displays one more, as the tables of `piano report` do */
    number: "u32",
    /** From start to end by the clock of the samples: `wall` plus the time that measuring took */
    took: "length",
  },
  frame_functions: {
    frame: "frames",
    function: "functions",
    calls: "u32",
    self: "ns",
    alloc_count: "u32",
    alloc_bytes: "num",
  },
  sites: {
    node: "nodes",
    live_bytes: "num",
    live_objects: "num",
    allocated_bytes: "num",
    allocated_objects: "num",
    freed_bytes: "num",
    peak_bytes: "num",
    churn_bytes: "num",
    /** -1: nothing was freed */
    median_life: "ns",
    live_samples: "u32",
    samples: "u32",
    /** Birth of the oldest live block; -1: there is none */
    oldest: "ns",
    freed_samples: "u32",
    /** The frame of the stack that is the site, after skipping wrappers of malloc */
    site_node: "nodes",
    /** SITE_MMAP; 2: the stack is truncated */
    flags: "u8",
    /** The function that called the site, by the same rule */
    caller_node: "nodes?",
  },
  blocks_live: {
    at: "ns",
    size: "num",
    weight: "num",
    thread: "threads?",
    node: "nodes",
  },
  snapshots: {
    at: "ns",
    live_bytes: "num",
    allocated_bytes: "num",
    /** 0: unknown */
    resident: "num",
  },
  snapshot_sites: {
    snapshot: "snapshots",
    site: "sites",
    live_bytes: "num",
  },
  diff: {
    node: "nodes",
    a_cpu: "num",
    b_cpu: "num",
    a_alloc: "num",
    b_alloc: "num",
    a_live: "num",
    b_live: "num",
    /** For stacks with allocations, as in `sites` */
    site_node: "nodes",
  },
} as const;
