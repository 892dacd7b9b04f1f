// Conversations kept in this browser, each under a name of its own. Two tabs do not undo each other's work: what another
// one has kept of a conversation that is in use here is taken over before it is written again.

import { MOST_CONVERSATIONS, merge, read, surplus, write } from "./conversations.js";

const PREFIX = "inferq.chat.";

export class Shelf {
  /** `on` has `full(is)`, called with each try to keep one, and `merged(one)`, that another tab's work was taken over. */
  constructor(on) {
    this.on = on;
    this.open = new Map();
    /** What was last written or read here of those in use, to tell what another tab has written since. */
    this.texts = new Map();
  }

  /** All conversations, newest first. One that is in use here is the same object each time. */
  all() {
    const found = [];
    for (const name of names()) {
      const one = this.open.get(name.slice(PREFIX.length)) ?? read(stored(name) ?? "");
      if (one && one.id === name.slice(PREFIX.length)) found.push(one);
    }
    for (const one of this.open.values()) if (one.turns.length > 0 && !found.includes(one)) found.push(one);
    return found.sort((a, b) => b.changed_at - a.changed_at);
  }

  /** The conversation of this id, from now on in use; null when there is none. */
  take(id) {
    if (!this.open.has(id)) {
      const text = stored(PREFIX + id);
      const one = read(text ?? "");
      if (one?.id !== id) return null;
      this.open.set(id, one);
      this.texts.set(id, text);
    }
    return this.open.get(id);
  }

  /** Use a new conversation; it is kept once it has a turn. */
  add(one) {
    this.open.set(one.id, one);
  }

  /** Keep a conversation as it is now; the oldest others make room where there is none. */
  keep(one) {
    if (one.turns.length === 0 || !this.has(one)) return;
    this.refresh(one.id);
    if (names().length >= MOST_CONVERSATIONS) for (const id of surplus(this.all())) discard(PREFIX + id);
    const text = write(one);
    const gone = [];
    while (!store(PREFIX + one.id, text)) {
      const oldest = this.all().filter((other) => other !== one && stored(PREFIX + other.id) !== null).at(-1);
      if (!oldest) {
        // It was all in vain: something else takes the room.
        for (const [name, lost] of gone.reverse()) store(name, lost);
        this.on.full(true);
        return;
      }
      gone.push([PREFIX + oldest.id, stored(PREFIX + oldest.id)]);
      discard(PREFIX + oldest.id);
    }
    this.texts.set(one.id, text);
    this.on.full(false);
  }

  /** Take over what another tab has kept of a conversation, if it is in use here. */
  refresh(id) {
    const [one, text] = [this.open.get(id), stored(PREFIX + id)];
    if (!one || text === null || text === this.texts.get(id)) return;
    this.texts.set(id, text);
    const other = read(text);
    if (other?.id === id && merge(one, other)) this.on.merged(one);
  }

  /** Whether a conversation is in use here, and not forgotten. */
  has(one) {
    return this.open.get(one.id) === one;
  }

  /** Forget a conversation. */
  forget(id) {
    this.open.delete(id);
    this.texts.delete(id);
    discard(PREFIX + id);
  }

  /** The conversation that a change in another tab is one of; null for all of them, undefined for none. */
  static concerned(event) {
    if (event.key === null) return null;
    return event.key.startsWith(PREFIX) ? event.key.slice(PREFIX.length) : undefined;
  }
}

function names() {
  try {
    return Object.keys(localStorage).filter((name) => name.startsWith(PREFIX));
  } catch {
    return [];
  }
}

/** Keep a text; says whether there was room for it. */
function store(name, text) {
  try {
    localStorage.setItem(name, text);
    return true;
  } catch {
    return false;
  }
}

function discard(name) {
  try {
    localStorage.removeItem(name);
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
}

function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
