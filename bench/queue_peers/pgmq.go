package main

// A queue of pgmq's shape, in statements of its own, because Debian does not package the extension:
// a message is hidden for a while by the reader that takes it, and moves to an archive when it is
// done. Its functions plan their statements at each call; these are prepared once.
// Results go into a second queue of this shape, each with the id of its job as header.
var pgmq = tableQueue{
	create: `
CREATE TABLE q_jobs (msg_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    read_ct int NOT NULL DEFAULT 0, enqueued_at timestamptz NOT NULL DEFAULT now(),
    vt timestamptz NOT NULL, message jsonb, headers jsonb);
CREATE INDEX ON q_jobs (vt);
CREATE TABLE a_jobs (msg_id bigint PRIMARY KEY, read_ct int NOT NULL,
    enqueued_at timestamptz NOT NULL, archived_at timestamptz NOT NULL DEFAULT now(),
    vt timestamptz NOT NULL, message jsonb, headers jsonb);
CREATE INDEX ON a_jobs (archived_at);
CREATE TABLE q_results (LIKE q_jobs INCLUDING ALL);
CREATE TABLE a_results (LIKE a_jobs INCLUDING ALL)`,
	insert: `INSERT INTO q_jobs (vt, message) SELECT clock_timestamp(), unnest($1::jsonb[])`,
	claim: `
WITH next AS (SELECT msg_id FROM q_jobs WHERE vt <= clock_timestamp() ORDER BY msg_id LIMIT $1
    FOR UPDATE SKIP LOCKED)
UPDATE q_jobs q SET vt = clock_timestamp() + interval '30 seconds', read_ct = read_ct + 1
    FROM next WHERE q.msg_id = next.msg_id RETURNING q.msg_id, q.message`,
	store: `INSERT INTO q_results (vt, message, headers) SELECT clock_timestamp(),
    unnest($2::jsonb[]), to_jsonb(unnest($1::bigint[]))`,
	end: `
WITH done AS (DELETE FROM q_jobs WHERE msg_id = ANY($1)
    RETURNING msg_id, read_ct, enqueued_at, vt, message, headers)
INSERT INTO a_jobs (msg_id, read_ct, enqueued_at, vt, message, headers) SELECT * FROM done`,
	body: func(text string) []byte { return []byte(`{"text":"` + text + `"}`) },
}
