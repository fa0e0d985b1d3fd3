"""The tables of a new file. `migrations.py` brings older files to this schema.

- `sessions.activity` is the newest message id at the time when the session was created or written to; lists are ordered
  by it.
- `messages.id` is never used twice. A message is in the transcript (active), summarised (compacted) or undone
  (neither).
- `message_words` is the full-text index. It stores no text, only references to `messages`. Triggers maintain it, so no
  code that writes messages can forget to.
- `response_totals` sums up the responses, so that eviction does not scan them.
"""

SCHEMA = 2

TABLES = """
CREATE TABLE IF NOT EXISTS sessions (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    key TEXT, platform TEXT, owner TEXT, chat TEXT, title TEXT,
    parent_id TEXT, origin TEXT,
    model TEXT, cwd TEXT, instructions TEXT, metadata TEXT,
    created_at REAL NOT NULL, last_active_at REAL NOT NULL,
    ended_at REAL, end_reason TEXT,
    expiry_finalized INTEGER NOT NULL DEFAULT 0,
    message_count INTEGER NOT NULL DEFAULT 0,
    activity INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    role TEXT NOT NULL,
    items TEXT NOT NULL,
    text TEXT NOT NULL,
    response_id TEXT,
    created_at REAL NOT NULL,
    active INTEGER NOT NULL DEFAULT 1,
    compacted INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS routing (
    session_key TEXT PRIMARY KEY, session_id TEXT NOT NULL, platform TEXT, updated_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS conversations (
    slug TEXT NOT NULL, owner TEXT NOT NULL DEFAULT '',
    session_id TEXT, response_id TEXT,
    metadata TEXT NOT NULL DEFAULT '{}', created_at REAL NOT NULL DEFAULT 0, updated_at REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (slug, owner)
);
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY, session_id TEXT NOT NULL, owner TEXT NOT NULL DEFAULT '', status TEXT NOT NULL,
    body TEXT NOT NULL, input_items TEXT NOT NULL, previous_response_id TEXT, slug TEXT,
    created_at REAL NOT NULL, used INTEGER NOT NULL, size INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS response_totals (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER, bytes INTEGER);
INSERT OR IGNORE INTO response_totals VALUES (1, 0, 0);
CREATE TABLE IF NOT EXISTS parked_calls (
    call_id TEXT PRIMARY KEY, session_id TEXT NOT NULL, response_id TEXT, name TEXT NOT NULL, arguments TEXT NOT NULL,
    deadline REAL NOT NULL, created_at REAL NOT NULL, state TEXT NOT NULL, output TEXT
);
CREATE TABLE IF NOT EXISTS idempotency (
    key TEXT NOT NULL, owner TEXT NOT NULL, fingerprint TEXT NOT NULL, status INTEGER NOT NULL,
    headers TEXT NOT NULL, body BLOB NOT NULL, expires_at REAL NOT NULL,
    PRIMARY KEY (key, owner)
);
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS message_words USING fts5 (
    text, content='messages', content_rowid='id', tokenize='unicode61 remove_diacritics 2'
);
"""

INDEXES = """
CREATE INDEX IF NOT EXISTS sessions_by_activity ON sessions (activity, seq);
CREATE INDEX IF NOT EXISTS sessions_by_owner ON sessions (owner, activity, seq) WHERE owner IS NOT NULL;
CREATE INDEX IF NOT EXISTS sessions_by_key ON sessions (key, activity, seq) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS sessions_by_parent ON sessions (parent_id, seq) WHERE parent_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS sessions_by_title ON sessions (title, ifnull(owner, '')) WHERE title IS NOT NULL;
CREATE INDEX IF NOT EXISTS messages_by_session ON messages (session_id, id);
CREATE INDEX IF NOT EXISTS conversations_by_session ON conversations (session_id);
CREATE INDEX IF NOT EXISTS routing_by_session ON routing (session_id);
CREATE INDEX IF NOT EXISTS responses_by_use ON responses (used);
CREATE INDEX IF NOT EXISTS responses_by_session ON responses (session_id, created_at);
CREATE INDEX IF NOT EXISTS responses_by_slug ON responses (slug, created_at) WHERE slug IS NOT NULL;
CREATE INDEX IF NOT EXISTS responses_unfinished ON responses (created_at)
    WHERE status IN ('queued', 'in_progress');
CREATE INDEX IF NOT EXISTS parked_by_session ON parked_calls (session_id, created_at);
CREATE INDEX IF NOT EXISTS parked_by_deadline ON parked_calls (deadline) WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS idempotency_by_expiry ON idempotency (expires_at);
"""

TRIGGERS = """
CREATE TRIGGER IF NOT EXISTS message_said AFTER INSERT ON messages WHEN new.text <> '' AND (new.active OR new.compacted)
BEGIN
    INSERT INTO message_words (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER IF NOT EXISTS message_undone AFTER UPDATE OF active, compacted ON messages
WHEN old.text <> '' AND (old.active OR old.compacted) AND NOT (new.active OR new.compacted)
BEGIN
    INSERT INTO message_words (message_words, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER IF NOT EXISTS message_removed AFTER DELETE ON messages
WHEN old.text <> '' AND (old.active OR old.compacted)
BEGIN
    INSERT INTO message_words (message_words, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER IF NOT EXISTS response_kept AFTER INSERT ON responses
BEGIN
    UPDATE response_totals SET count = count + 1, bytes = bytes + new.size;
END;
CREATE TRIGGER IF NOT EXISTS response_resized AFTER UPDATE OF size ON responses
BEGIN
    UPDATE response_totals SET bytes = bytes + new.size - old.size;
END;
CREATE TRIGGER IF NOT EXISTS response_removed AFTER DELETE ON responses
BEGIN
    UPDATE response_totals SET count = count - 1, bytes = bytes - old.size;
END;
"""

ADDED = (("conversations", "session_id", "TEXT"),)
"""Columns that were added later. They are looked for in every file, regardless of its version."""
