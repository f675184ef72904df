// The documents of the API, as documents.py and columns.py in src/windlass/web define them.
// GPUs are thousandths, times are seconds; columns are lists of equal length.
import type { Change } from "./wire";

export interface Stamp {
  run: string;
  version: number;
  cycle: number;
  now: number;
  played: boolean;
}

/** What makes a document of the one that is there already; `wire.ts` applies it. */
export interface Changes {
  since: string;
  changes: Change[];
}

export interface ClusterDocument {
  stamp: Stamp;
  queues: string[];
  models: string[];
  users: string[];
  namespaces: string[];
  domains: string[];
  racks: { name: string[]; block: string[] };
  nodes: {
    name: string[];
    rack: number[];
    model: number[];
    domain: number[];
    first: number[];
    gpus: number[];
    state: number[];
  };
  gangs: {
    name: string[];
    job: string[];
    queue: number[];
    user: number[];
    namespace: number[];
    priority: number[];
  };
  tasks: { name: string[]; gang: number[]; started: number[]; leaving: number[] };
  given: {
    gpu: number[];
    count: number[];
    task: number[];
    milli: number[];
    left: number[];
    width: number[];
  };
  held: { gpu: number[]; count: number[]; gang: number[]; milli: number[]; later: number[] };
  unhealthy: number[];
  utilisation: number[];
}

export interface QueueRow {
  name: string;
  parent: string;
  depth: number;
  guarantee: number;
  share: number;
  allocated: number;
  borrowed: number;
  lent: number;
  limit: number | null;
  weight: number;
  waiting_gangs: number;
  waiting: number;
  usage: number;
}

export interface QueuesDocument {
  stamp: Stamp;
  capacity: number;
  free: number;
  queues: QueueRow[];
  flows: { lender: string; borrower: string; milli: number }[];
  past: {
    at: number[];
    allocated: Record<string, number[]>;
    share: Record<string, number[]>;
    /** Gangs; nothing for who may not list all of them. */
    waiting: number[];
    running: number[];
  };
}

export interface Reason {
  why: string;
  sentence: string;
}

export interface Eta {
  at: number;
  early: number;
  late: number;
}

export interface WaitingJob {
  gang: string;
  job: string;
  queue: string;
  user: string;
  namespace: string;
  priority: number;
  position: number;
  asks: string;
  tasks: number;
  milli: number;
  since: number;
  starts_at: number | null;
  eta: Eta | null;
  reasons: Reason[];
}

export interface RunningJob {
  gang: string;
  job: string;
  queue: string;
  user: string;
  namespace: string;
  priority: number;
  tasks: number;
  milli: number;
  models: string[];
  nodes: string[];
  since: number;
}

export interface FinishedJob {
  gang: string;
  job: string;
  queue: string;
  user: string;
  namespace: string;
  submitted: number;
  started: number | null;
  ended: number;
}

export interface JobsDocument {
  stamp: Stamp;
  waiting_in_all: number;
  running_in_all: number;
  finished_in_all: number;
  waiting_first: number;
  running_first: number;
  finished_first: number;
  waiting: WaitingJob[];
  running: RunningJob[];
  finished: FinishedJob[];
  asked: number;
  given: number;
  median_wait: number | null;
  longest_wait: number | null;
  promised: number;
}

export interface JobDocument {
  stamp: Stamp;
  waiting: WaitingJob | null;
  running: RunningJob | null;
  finished: FinishedJob | null;
  places: { task: string; node: string; devices: number[]; milli: number; state: string; started: number | null }[];
  /** Nothing for who may not list all that wait. */
  waiting_in_all: number | null;
}

export interface RoomDocument {
  gang: string;
  cycle: number;
  sentences: string[];
  /** What is not allowed stands last. */
  starts: { kind: string; sentence: string; allowed: boolean }[];
  notes: string[];
}

export interface CycleDocument {
  cycle: number;
  at: number;
  placed: {
    gang: string;
    queue: string;
    verdict: string;
    tasks: number;
    milli: number;
    nodes: string[];
  }[];
  evicted: {
    gang: string;
    queue: string;
    tasks: number;
    milli: number;
    rule: string;
    gainer: string;
    moves_to: string[];
    reasons: Reason[];
  }[];
  held: { gang: string; queue: string; milli: number; nodes: string[]; starts_at: number | null }[];
  waiting: { why: string; gangs: number }[];
  shares: { queue: string; before: number; after: number; share: number }[];
  changed: {
    node: string;
    gpus: number;
    cells: { device: number; milli: number; what: string; gang: string; queue: string }[];
  }[];
  changed_in_all: number;
}

export interface DecisionsDocument {
  stamp: Stamp;
  cycles: {
    cycle: number[];
    at: number[];
    bound: number[];
    evicted: number[];
    held: number[];
    waiting: number[];
    /** The first three that it did something with. */
    gangs: string[][];
  };
  is_recorded: boolean;
}

export interface RecordedDocument {
  began: number;
  until: number;
  cycles: {
    key: string[];
    at: number[];
    bound: number[];
    evicted: number[];
    waiting: number[];
  };
}
