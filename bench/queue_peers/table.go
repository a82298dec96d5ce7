package main

// The barest queue in a table: a row a job, whose state changes, one index beside the key, and
// bodies that PostgreSQL does not look into.
var plainTable = tableQueue{
	create: `
CREATE TABLE queue (id bigserial PRIMARY KEY, state text NOT NULL DEFAULT 'available',
    priority int NOT NULL DEFAULT 1, attempt int NOT NULL DEFAULT 0, kind text NOT NULL,
    args bytea NOT NULL, created_at timestamptz NOT NULL DEFAULT now(),
    attempted_at timestamptz, finalized_at timestamptz);
CREATE INDEX ON queue (state, priority, id);
CREATE TABLE results (id bigserial PRIMARY KEY, job bigint NOT NULL, body bytea NOT NULL)`,
	insert: `INSERT INTO queue (kind, args) SELECT 'model', unnest($1::bytea[])`,
	claim: `
WITH next AS (SELECT id FROM queue WHERE state = 'available' ORDER BY priority, id LIMIT $1
    FOR UPDATE SKIP LOCKED)
UPDATE queue q SET state = 'running', attempt = attempt + 1, attempted_at = now()
    FROM next WHERE q.id = next.id RETURNING q.id, q.args`,
	store: `INSERT INTO results (job, body) SELECT unnest($1::bigint[]), unnest($2::bytea[])`,
	end:   `UPDATE queue SET state = 'completed', finalized_at = now() WHERE id = ANY($1)`,
	body:  func(text string) []byte { return []byte(text) },
}
