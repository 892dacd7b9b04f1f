// Conversations: turns of lines, bounded, and as text to be kept. Pure.
//
// What the browser keeps is bounded in number and size; the oldest goes. What was kept may have been written by another
// version or by hand, so it is checked, and what does not fit is left out.

import { line } from "./lines.js";

export const MOST_CONVERSATIONS = 50;
export const MOST_TURNS = 200;
export const MOST_LINES = 256;
export const MOST_CHARACTERS = 1_500_000;
const VERSION = 1;
const TITLE_CHARACTERS = 80;

/** Make an empty conversation. */
export function conversation(id, now_ms) {
  return { id, changed_at: now_ms, turns: [] };
}

/** Add a turn of these texts and return it; the oldest turn makes room. */
export function add_turn(one, texts, now_ms) {
  const turn = { at: now_ms, sent: null, lines: texts.slice(0, MOST_LINES).map(line) };
  one.turns.push(turn);
  if (one.turns.length > MOST_TURNS) one.turns.shift();
  one.changed_at = now_ms;
  return turn;
}

/** All lines of a conversation. */
export function lines(one) {
  return one.turns.flatMap((turn) => turn.lines);
}

/** What a conversation is called: its first line. */
export function title(one) {
  const text = one.turns[0]?.lines[0]?.text.trim() ?? "";
  if (text === "") return "New conversation";
  const characters = [...text.slice(0, 2 * TITLE_CHARACTERS + 1)];
  return characters.length > TITLE_CHARACTERS ? `${characters.slice(0, TITLE_CHARACTERS).join("")}…` : text;
}

/** Write a conversation; its oldest turns are left out when it is longer than may be kept. */
export function write(one, most = MOST_CHARACTERS) {
  for (let from = 0; ; from += Math.max(1, Math.ceil((one.turns.length - from) / 4))) {
    const text = JSON.stringify({ version: VERSION, ...one, turns: one.turns.slice(from) });
    if (text.length <= most || from >= one.turns.length) return text;
  }
}

/** Read a conversation; null when it is none. */
export function read(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    return null;
  }
  if (found?.version !== VERSION || typeof found.id !== "string" || !Number.isFinite(found.changed_at)) return null;
  if (!Array.isArray(found.turns)) return null;
  const turns = found.turns.filter((turn) => Array.isArray(turn?.lines) && Number.isFinite(turn.at));
  return {
    id: found.id,
    changed_at: found.changed_at,
    turns: turns.slice(-MOST_TURNS).map(as_turn),
  };
}

/**
 * Take over into a conversation what another tab has kept of it: turns that are not known here, and what is newer of the
 * lines that are. Says whether there was any. What is the same stays the same object.
 */
export function merge(one, other) {
  let news = false;
  const known = new Map(one.turns.map((turn) => [turn.at, turn]));
  const oldest = one.turns.length >= MOST_TURNS ? one.turns[0].at : -Infinity;
  for (const turn of other.turns) {
    const mine = known.get(turn.at);
    if (mine) {
      mine.sent ??= turn.sent;
      mine.lines.forEach((here, index) => (news = advance(here, turn.lines[index]) || news));
    } else if (turn.at > oldest) {
      one.turns.push(turn);
      news = true;
    }
  }
  one.turns.sort((a, b) => a.at - b.at);
  one.turns.splice(0, one.turns.length - MOST_TURNS);
  one.changed_at = Math.max(one.changed_at, other.changed_at);
  return news;
}

/** The ids of those to forget, so that as many are left as may be; the longest unchanged go. */
export function surplus(all, most = MOST_CONVERSATIONS) {
  return [...all].sort((a, b) => b.changed_at - a.changed_at).slice(most).map((one) => one.id);
}

/** Take over what another tab knows more of a line; says whether it does. */
function advance(here, there) {
  if (there?.text !== here.text) return false;
  const accepted = here.job_id === null && there.job_id !== null;
  const newer = here.job_id === there.job_id && (there.record?.seq ?? 0) > (here.record?.seq ?? 0);
  if (accepted || newer) Object.assign(here, there);
  return accepted || newer;
}

function as_turn(found) {
  const whole = found.lines.every(is_line) && found.lines.length <= MOST_LINES;
  const { once, indexes } = found.sent ?? {};
  const sent = whole && typeof once === "string" && Array.isArray(indexes) ? { once, indexes } : null;
  return { at: found.at, sent, lines: found.lines.filter(is_line).slice(0, MOST_LINES).map(as_line) };
}

function is_line(found) {
  return typeof found?.text === "string" && (found.job_id === null || /^[0-9a-f]{32}$/.test(found.job_id));
}

function as_line(found) {
  const record = typeof found.record?.status === "string" && Number.isFinite(found.record.seq) ? found.record : null;
  const problem = typeof found.problem?.code === "string" ? { ...found.problem, waits: false } : null;
  const time = (value) => (Number.isFinite(value) ? value : null);
  return { ...line(found.text), job_id: found.job_id, record, problem, gone: found.gone === true, sent_at: time(found.sent_at), arrived_at: time(found.arrived_at) };
}
