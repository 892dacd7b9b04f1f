// The chat: puts the parts together.

import { announce } from "./announcer.js";
import { ask } from "./asking.js";
import { fresh_id } from "./calls.js";
import { Composer } from "./composer.js";
import { add_turn, conversation, lines, title } from "./conversations.js";
import { at, put } from "./dom.js";
import { measure } from "./drawing.js";
import { show_examples } from "./examples.js";
import { Following } from "./following.js";
import { isolated, percent } from "./format.js";
import { key, key_dialog } from "./key.js";
import { shown, unfinished } from "./lines.js";
import * as place from "./place.js";
import { Push } from "./push.js";
import { show_refusal } from "./refusal.js";
import { Sending } from "./sending.js";
import { Shelf } from "./shelf.js";
import { Sidebar } from "./sidebar.js";
import { recall, retain } from "./tab.js";
import { TurnView } from "./turn.js";
import { fault } from "./words.js";

const KEEP_AFTER_MS = 200;
const OPEN = "inferq.open";

const shelf = new Shelf({
  full: (is) => notice("kept", is ? "This browser keeps no more: the conversation is lost when the page is closed." : ""),
  merged,
});
/** What there is to notice, by whom it concerns. */
const notices = new Map();
const sendings = new Map();
const unkept = new Set();
let keeping = null;
let current;
let views = new Map();
/** Which conversation a line that is followed belongs to. */
const owners = new WeakMap();

const push = new Push(place.push(), key, {
  frame: (job_id, record, arrived) => following.heard(job_id, record, arrived),
  missing: (job_id) => following.missing(job_id),
  state: show_link,
});
const following = new Following(push, { changed: line_changed, refused: key_refused });
const ask_key = key_dialog(() => {
  following.rekeyed({ none: !key() });
  connect();
  follow(current);
});
const sidebar = new Sidebar({ open, fresh, remove, remove_all });
const composer = new Composer(send);

function start() {
  if (place.answers === "tensors") show_refusal(composer);
  else show_examples(send);
  at("key-button").hidden = !place.keyed;
  at("key-button").addEventListener("click", () => ask_key());
  addEventListener("storage", kept_elsewhere);
  addEventListener("pagehide", keep_now);
  setInterval(() => views.forEach((view) => view.tick()), 500);
  const kept = recall(OPEN);
  connect();
  if (!kept || !open(kept)) fresh();
  if (place.keyed && !key()) ask_key();
}

// What the reader does.

function send(texts) {
  shelf.refresh(current.id);
  const turn = add_turn(current, texts, Date.now());
  shelf.keep(current);
  drop_old();
  views.forEach((view) => view.settle());
  show_turns();
  show_page();
  at("scroll").scrollTop = at("scroll").scrollHeight;
  composer.focus();
  sending_of(turn, current).send();
}

function sending_of(turn, one) {
  if (!sendings.has(turn)) {
    const sending = new Sending(turn, {
      changed: () => {
        views.get(turn)?.show();
        keep(one);
        if (!turn.lines.some((line) => line.problem) && !sending.busy) sendings.delete(turn);
      },
      accepted: (_, accepted) => {
        if (!shelf.has(one)) return;
        for (const line of accepted) owners.set(line, one);
        following.follow(accepted);
      },
      refused: (_, problem) => {
        announce(`Not accepted: ${fault(problem)}.`);
        key_refused(problem);
      },
    });
    sendings.set(turn, sending);
  }
  return sendings.get(turn);
}

function open(id) {
  const one = shelf.take(id);
  if (!one) return false;
  show(one);
  follow(one);
  return true;
}

function fresh() {
  if (current?.turns.length === 0) {
    show_sidebar();
    composer.focus();
    return;
  }
  const one = conversation(fresh_id(), Date.now());
  shelf.add(one);
  show(one);
  composer.focus();
}

async function remove(id) {
  const one = shelf.take(id);
  if (!one || !(await ask("Delete this conversation?", `“${isolated(title(one))}” is kept in this browser alone.`))) return;
  forget(one);
  if (one === current) fresh();
  show_sidebar();
  at("new-button").focus();
}

async function remove_all() {
  if (!(await ask("Delete all conversations?", "They are kept in this browser alone."))) return;
  for (const one of shelf.all()) forget(one);
  sidebar.close();
  fresh();
}

function forget(one) {
  for (const turn of one.turns) {
    sendings.get(turn)?.cancel();
    sendings.delete(turn);
  }
  following.leave(lines(one));
  shelf.forget(one.id);
  unkept.delete(one);
}

/** Another tab has kept, or deleted, a conversation (or all of them). */
function kept_elsewhere(event) {
  const id = Shelf.concerned(event);
  if (id === undefined) return;
  if (id !== null) shelf.refresh(id);
  show_sidebar();
}

/** A conversation has what another tab did to it. */
function merged(one) {
  if (one !== current) return;
  follow(one);
  views.forEach((view) => view.show());
  show_turns();
  show_page();
}

// What comes.

function connect() {
  if (!place.keyed || key()) push.connect();
  else {
    push.drop();
    show_link("refused", "no key", "");
  }
}

/** Follow what an earlier life of the page, or an earlier key, left unfinished. */
function follow(one) {
  for (const line of lines(one)) owners.set(line, one);
  if (!place.keyed || key()) following.follow(lines(one), { look_first: true });
}

function line_changed(line, arrived) {
  for (const [turn, view] of views) {
    if (!turn.lines.includes(line)) continue;
    view.show_line(line);
    if (arrived !== null) measure(arrived);
    if (!unfinished(line)) {
      const { label, score, figure } = shown(line, false);
      const more = score === undefined ? figure : percent(score);
      announce(`Line ${turn.lines.indexOf(line) + 1}: ${label}${more ? `, ${more}` : ""}.`);
    }
  }
  if (owners.has(line)) keep(owners.get(line));
}

function show_link(state, text, why, code) {
  at("link").dataset.state = state;
  put(at("link-text"), text);
  at("link").title = why;
  notice("link", why);
  if (code === 4401) ask_key(why);
}

function key_refused(problem) {
  if (problem.code === "unauthorized") ask_key(key() ? "This key is not known here." : "");
}

// What is shown.

function show(one) {
  current = one;
  retain(OPEN, one.id);
  views = new Map();
  at("turns").replaceChildren();
  show_turns();
  show_page();
  at("scroll").scrollTop = at("scroll").scrollHeight;
}

/** Show the turns that are not shown yet, each in its place. */
function show_turns() {
  let next = null;
  for (const turn of current.turns.toReversed()) {
    if (!views.has(turn)) {
      views.set(turn, view_of(turn));
      at("turns").insertBefore(views.get(turn).element, next);
    }
    next = views.get(turn).element;
  }
}

/** Take off the page what had to make room for a new turn. */
function drop_old() {
  for (const [turn, view] of views) {
    if (current.turns.includes(turn)) continue;
    view.element.remove();
    views.delete(turn);
    sendings.get(turn)?.cancel();
    sendings.delete(turn);
    following.leave(turn.lines);
  }
}

function view_of(turn) {
  const one = current;
  return new TurnView(turn, {
    sending: () => sendings.get(turn) ?? null,
    again: () => sending_of(turn, one).again(),
  });
}

function show_page() {
  put(at("title"), title(current));
  document.title = current.turns.length ? `${title(current)} · inferq` : "inferq";
  at("empty").hidden = current.turns.length > 0;
  show_sidebar();
}

function show_sidebar() {
  sidebar.show(
    shelf.all().filter((one) => one.turns.length > 0),
    current.id,
  );
}

function notice(of, text) {
  notices.set(of, text);
  const all = [...notices.values()].filter((one) => one !== "").join(" ");
  at("notice").hidden = all === "";
  put(at("notice"), all);
}

// What is kept.

function keep(one) {
  unkept.add(one);
  keeping ??= setTimeout(keep_now, KEEP_AFTER_MS);
}

function keep_now() {
  clearTimeout(keeping);
  keeping = null;
  for (const one of unkept) shelf.keep(one);
  unkept.clear();
}

start();
